//! Column values as the binlog carries them and as SQL text.
