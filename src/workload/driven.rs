//! What a drive gave.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::effect::Effect;
use crate::stats::Histogram;

/// What a drive gave. Every op is in exactly one of committed, failed, unknown, dropped and
/// abandoned; together they are the offered ones.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Driven {
    /// Ops that became due since the start, warm included.
    pub offered_ops: u64,
    /// Ops that committed since the start, warm included.
    pub committed_ops: u64,
    /// Ops given up and certainly not committed, by the last error code; 0 = connection.
    pub failed: BTreeMap<u16, u64>,
    /// Ops whose commit was never answered and whose rows do not tell either. When this is not 0,
    /// [`Driven::effect`] may be short by their row changes.
    pub unknown_ops: u64,
    /// Ops that found the backlog full.
    pub dropped_ops: u64,
    /// Ops due and not begun when the time was over or the drive was interrupted. They count in
    /// delay and response with their age at that moment.
    pub abandoned_ops: u64,
    /// Committed ops that changed more or fewer rows than the workload says.
    pub odd_ops: u64,
    /// Tries repeated, by the error code that the server gave.
    pub retried: BTreeMap<u16, u64>,
    /// Connections lost, by the server's last error code; 0 = none.
    pub lost: BTreeMap<u16, u64>,
    /// Connections made again.
    pub reconnects: u64,
    /// What all committed ops changed, warm included.
    pub effect: Effect,
    /// Length of the window.
    #[serde(serialize_with = "as_seconds")]
    pub window: Duration,
    /// Ops due in the window.
    pub window_offered: u64,
    /// Ops committed in the window, whenever they were due.
    pub window_committed: u64,
    /// Started − due in µs, of ops due in the window. About 0 for a closed loop.
    pub delay: Histogram,
    /// Finished − started in µs, tries and reconnects included, of committed ops due in the window.
    pub service: Histogram,
    /// Finished − due in µs, of ops due in the window; those abandoned or cut off with their age.
    pub response: Histogram,
    /// How late the pacer's thread itself was, in µs; empty for a closed loop.
    pub pacer_lateness: Histogram,
    /// The most ops that ever waited for a client.
    pub max_backlog: u64,
    /// Whether the drive was cancelled.
    pub interrupted: bool,
}

impl Driven {
    /// Ops due per second of the window.
    pub fn offered_per_sec(&self) -> f64 {
        self.window_offered as f64 / self.window.as_secs_f64()
    }

    /// Ops committed per second of the window.
    pub fn achieved_per_sec(&self) -> f64 {
        self.window_committed as f64 / self.window.as_secs_f64()
    }

    /// Ops given up, whatever the code.
    pub fn failed_ops(&self) -> u64 {
        self.failed.values().sum()
    }
}

fn as_seconds<S: serde::Serializer>(window: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(window.as_secs_f64())
}
