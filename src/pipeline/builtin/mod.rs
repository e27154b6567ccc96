//! `builtin`: dump, load and sync in DM's manner, in a process of its own.

mod settings;

pub use settings::{Dump, KNOBS, Load, Settings, Sync, UNSUPPORTED};
