//! TOML into a checked task.
