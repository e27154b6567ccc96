//! The source's binlog as a stream of changes.
