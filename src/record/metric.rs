//! Named results of a trial.

use serde::{Deserialize, Serialize};

use crate::stats::Histogram;

/// Which direction is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Larger is better.
    Higher,
    /// Smaller is better.
    Lower,
    /// A fact, neither good nor bad.
    Neither,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// One number.
    Number(f64),
    /// A whole distribution, in units of the metric's dimension.
    Histogram(Histogram),
}

/// A result with all that is needed to read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Metric {
    /// One of the constants in [`name`].
    pub name: String,
    /// Unit of measurement, such as `rows/s`, `MB/s of SQL text`, `us`.
    pub dimension: String,
    /// Direction of improvement.
    pub better: Better,
    /// How many observations stand behind the value.
    pub n: u64,
    /// Length of the window it was taken over, in seconds; `None` where there is none.
    pub window_s: Option<f64>,
    /// The clock or method and its resolution, such as `marker rows, polled every 10 ms`; empty for
    /// plain counts.
    pub clock: String,
    /// The value.
    pub value: Value,
}

impl Metric {
    /// A number.
    pub fn number(name: &str, dimension: &str, better: Better, value: f64) -> Metric {
        Metric {
            name: name.to_owned(),
            dimension: dimension.to_owned(),
            better,
            n: 1,
            window_s: None,
            clock: String::new(),
            value: Value::Number(value),
        }
    }

    /// A distribution; `n` is taken from it.
    pub fn histogram(name: &str, dimension: &str, better: Better, value: Histogram) -> Metric {
        Metric {
            n: value.n(),
            value: Value::Histogram(value),
            ..Metric::number(name, dimension, better, 0.0)
        }
    }

    /// The same with the number of observations behind it.
    #[must_use]
    pub fn with_n(self, n: u64) -> Metric {
        Metric { n, ..self }
    }

    /// The same with its window in seconds.
    #[must_use]
    pub fn with_window(self, window: std::time::Duration) -> Metric {
        Metric { window_s: Some(window.as_secs_f64()), ..self }
    }

    /// The same with its clock named.
    #[must_use]
    pub fn with_clock(self, clock: impl Into<String>) -> Metric {
        Metric { clock: clock.into(), ..self }
    }

    /// The number, where it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self.value {
            Value::Number(number) => Some(number),
            Value::Histogram(_) => None,
        }
    }

    /// The distribution, where it is one.
    pub fn as_histogram(&self) -> Option<&Histogram> {
        match &self.value {
            Value::Number(_) => None,
            Value::Histogram(histogram) => Some(histogram),
        }
    }
}

/// Names of metrics. A process is `source`, `target`, `pipeline` or `generator`: dmbench itself, which
/// holds the generator and beside it the probes and the delay proxy.
pub mod name {
    /// Rows dumped per second, from the dump unit's begin to its end.
    pub const DUMP_ROWS_RATE: &str = "dump.rows-rate";
    /// MB of SQL text written per second by dump.
    pub const DUMP_BYTES_RATE: &str = "dump.bytes-rate";
    /// Seconds that the dump unit took.
    pub const DUMP_TIME: &str = "dump.time";
    /// Rows loaded per second.
    pub const LOAD_ROWS_RATE: &str = "load.rows-rate";
    /// MB of SQL text executed per second by load.
    pub const LOAD_BYTES_RATE: &str = "load.bytes-rate";
    /// Seconds that the load unit took.
    pub const LOAD_TIME: &str = "load.time";
    /// Rows per second of dump and load together, one after the other.
    pub const IMPORT_ROWS_RATE: &str = "import.rows-rate";
    /// Time of load's transactions (µs), a distribution.
    pub const LOAD_TRANSACTION: &str = "load.transaction";
    /// Rows in one statement of load, the mean.
    pub const LOAD_ROWS_PER_STATEMENT: &str = "load.rows-per-statement";
    /// Bytes of SQL text dumped (MB).
    pub const DUMP_BYTES: &str = "dump.bytes";
    /// Row changes that the workload's clients had acknowledged.
    pub const COMMITTED_ROWS: &str = "committed.rows";
    /// Row changes read from the stream and durable at the target, each counted once.
    pub const APPLIED_ROWS: &str = "applied.rows";
    /// Applied row changes per second over the measured window (the model says which).
    pub const SYNC_ROWS_RATE: &str = "sync.rows-rate";
    /// Binlog bytes read from the source per second over the same window (MB/s of binlog), applied or
    /// not.
    pub const SYNC_READ_BYTES_RATE: &str = "sync.read-bytes-rate";
    /// Binlog bytes per second by which the position moved up to which everything is applied, over the
    /// same window (MB/s of binlog).
    pub const SYNC_APPLIED_BYTES_RATE: &str = "sync.applied-bytes-rate";
    /// What records had before those two: bytes read in model `stream`, bytes applied in `backlog`.
    /// Only read, never written.
    pub const SYNC_BYTES_RATE: &str = "sync.bytes-rate";
    /// Time from the start of executing a batch on the target to its commit (µs), a distribution.
    pub const SYNC_TRANSACTION: &str = "sync.transaction";
    /// Row changes in one transaction on the target, the mean.
    pub const SYNC_ROWS_PER_TRANSACTION: &str = "sync.rows-per-transaction";
    /// Row changes in one statement of sync, the mean: more than 1 with `multiple-rows` or `compact`.
    pub const SYNC_ROWS_PER_STATEMENT: &str = "sync.rows-per-statement";
    /// Conflicts (barriers over all workers) per 1,000 row changes.
    pub const SYNC_CONFLICTS: &str = "sync.conflicts";
    /// Transactions of sync on the target that were tried again: the sum of the three behind.
    pub const SYNC_RETRIES: &str = "sync.retries";
    /// Those because of a deadlock, a lock wait or a write conflict.
    pub const SYNC_RETRIES_CONFLICT: &str = "sync.retries.conflict";
    /// Those because the connection was lost.
    pub const SYNC_RETRIES_CONNECTION: &str = "sync.retries.connection";
    /// Those because of any other failure that may pass.
    pub const SYNC_RETRIES_BUSY: &str = "sync.retries.busy";
    /// Statements per second that the target counted (Com_* counters), over the window.
    pub const TARGET_QPS: &str = "target.qps";
    /// Time of the applier's statements on the target (µs), a distribution.
    pub const TARGET_STATEMENT: &str = "target.statement";
    /// Lag per marker row (µs), a distribution: the headline.
    pub const LAG_MARKER: &str = "lag.marker";
    /// Age of the target over time by markers (µs), sampled.
    pub const LAG_AGE: &str = "lag.age";
    /// Lag by the checkpoint row and source positions mapped to time (µs), sampled.
    pub const LAG_CHECKPOINT: &str = "lag.checkpoint";
    /// Binlog bytes between the source's position and the checkpoint (bytes), sampled.
    pub const LAG_BYTES: &str = "lag.bytes";
    /// Slope of lag over the window, in seconds per second.
    pub const LAG_SLOPE: &str = "lag.slope";
    /// Lower one-sided 95 % bound of that slope.
    pub const LAG_SLOPE_LOWER: &str = "lag.slope-lower";
    /// Upper one-sided 95 % bound of that slope.
    pub const LAG_SLOPE_UPPER: &str = "lag.slope-upper";
    /// Marker transactions as a share of committed ones.
    pub const MARKER_SHARE: &str = "marker.share";
    /// Seconds from the end of writing until applied reached the source's end position.
    pub const DRAIN_TIME: &str = "drain.time";
    /// Due ops per second.
    pub const OFFERED: &str = "workload.offered";
    /// Committed ops per second.
    pub const ACHIEVED: &str = "workload.achieved";
    /// Failed ops.
    pub const FAILED_OPS: &str = "workload.failed";
    /// Ops whose commit was never answered and whose fate could not be settled.
    pub const UNKNOWN_OPS: &str = "workload.unknown";
    /// Ops that found the backlog of due ops full and were not begun.
    pub const DROPPED_OPS: &str = "workload.dropped";
    /// Ops due that no client had begun when the time was over.
    pub const ABANDONED_OPS: &str = "workload.abandoned";
    /// Started minus due (µs).
    pub const DELAY: &str = "workload.delay";
    /// Finished minus started (µs).
    pub const SERVICE: &str = "workload.service";
    /// Finished minus due (µs).
    pub const RESPONSE: &str = "workload.response";
    /// CPU used by a process over the window, in cores: `cpu.<process>`; `cpu.machine` is all that the
    /// machine used.
    pub const CPU: &str = "cpu";
    /// Largest resident memory of a process (MB): `memory.<process>`.
    pub const MEMORY: &str = "memory";
    /// Bytes per second read from storage by a process (MB/s): `disk-read.<process>`.
    pub const DISK_READ: &str = "disk-read";
    /// Bytes per second written to storage by a process (MB/s): `disk-write.<process>`.
    pub const DISK_WRITE: &str = "disk-write";
    /// Bytes per second over the machine's loopback device (MB/s).
    pub const NETWORK: &str = "network.loopback";
    /// Round trip through the delay proxy as measured (µs), the median.
    pub const ROUND_TRIP: &str = "round-trip.target";
}
