//! What a pipeline says of itself while it runs.

use serde::{Deserialize, Serialize};

use crate::mysql::Position;
use crate::stats::Histogram;

/// A stage of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Reading tables out of the source into files.
    Dump,
    /// Writing those files into the target.
    Load,
    /// Applying the binlog.
    Sync,
}

/// What a unit is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Connecting, reading schemas.
    Starting,
    /// Ready and waiting for [`release`](crate::pipeline).
    Held,
    /// Working.
    Running,
    /// Everything it had is applied and it waits for more.
    CaughtUp,
    /// Ended as asked.
    Finished,
    /// Ended by an error.
    Failed,
}

/// One stage inside a unit: reader, conflict, workers, checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Stage {
    /// Name, such as `reader`.
    pub name: String,
    /// Seconds of work since the unit began, summed over the stage's workers.
    pub busy_s: f64,
    /// Seconds spent waiting for input.
    pub blocked_in_s: f64,
    /// Seconds spent waiting for room behind it.
    pub blocked_out_s: f64,
    /// Items handled.
    pub items: u64,
    /// Bytes handled.
    pub bytes: u64,
    /// Items in its queue now.
    pub queue_len: u64,
    /// Room in its queue.
    pub queue_cap: u64,
}

/// Transactions on the target that were tried again, by why. Counters never fall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Retries {
    /// Something else wanted the same rows: a deadlock, a lock wait, a write conflict.
    pub conflict: u64,
    /// The connection was lost.
    pub connection: u64,
    /// The server was busy or in the midst of a change.
    pub busy: u64,
}

impl Retries {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.conflict + self.connection + self.busy
    }
}

/// A reading of a running pipeline. Counters never fall and count from the start of the unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Progress {
    /// Which unit works.
    pub unit: Unit,
    /// What it is doing.
    pub state: State,
    /// Furthest position received.
    pub read: Option<Position>,
    /// Position up to which everything is executed on the target.
    pub applied: Option<Position>,
    /// Position guaranteed after a crash: the stored checkpoint.
    pub durable: Option<Position>,
    /// Rows dumped or loaded; for sync, row changes whose effect is committed on the target, each
    /// counted once per position.
    pub rows: u64,
    /// Bytes of SQL text dumped or loaded; for sync, bytes of binlog read.
    pub bytes: u64,
    /// Rows expected, where known.
    pub rows_expected: Option<u64>,
    /// Transactions committed on the target.
    pub transactions: u64,
    /// Statements executed on the target.
    pub statements: u64,
    /// Conflicts: barriers over all workers because of shared keys.
    pub conflicts: u64,
    /// The error that ended it.
    pub error: Option<String>,
    /// The last failure that it tries or tried again.
    #[serde(default)]
    pub trouble: Option<String>,
    /// What was tried again.
    #[serde(default)]
    pub retries: Retries,
    /// Stages; empty where unknown.
    pub stages: Vec<Stage>,
}

impl Progress {
    /// Nothing done yet.
    pub fn new(unit: Unit) -> Progress {
        Progress {
            unit,
            state: State::Starting,
            read: None,
            applied: None,
            durable: None,
            rows: 0,
            bytes: 0,
            rows_expected: None,
            transactions: 0,
            statements: 0,
            conflicts: 0,
            error: None,
            trouble: None,
            retries: Retries::default(),
            stages: Vec::new(),
        }
    }
}

/// A unit's begin or end or something to know about it, pushed by the pipeline: polling would miss
/// short units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum UnitEvent {
    /// A unit began.
    Began {
        /// Which.
        unit: Unit,
        /// Nanoseconds since 1970 by the machine's clock.
        at_ns: u64,
    },
    /// A unit ended.
    Ended {
        /// Which.
        unit: Unit,
        /// Nanoseconds since 1970 by the machine's clock.
        at_ns: u64,
        /// Seconds between begin and end by the monotonic clock.
        took_s: f64,
        /// Rows handled.
        rows: u64,
        /// Bytes handled, as in [`Progress::bytes`].
        bytes: u64,
        /// Statements executed on the target.
        statements: u64,
        /// Time of transactions on the target (µs).
        transaction: Box<Histogram>,
        /// Time of statements on the target (µs).
        statement: Box<Histogram>,
        /// The error that ended it.
        error: Option<String>,
    },
    /// Something the user should know, which becomes a finding.
    Remark {
        /// Which unit found it.
        unit: Unit,
        /// One sentence.
        text: String,
    },
}
