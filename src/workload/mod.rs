//! What is written: workloads, key distributions, pace, drive.

mod settings;

pub use settings::{KNOBS, PaceKind, PaceSettings, RandType, Script, Settings, Sysbench};
