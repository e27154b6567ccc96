//! The knobs of `builtin`, under DM's names with the unit in front.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::{Cost, Knob};

/// Settings of all units; a unit's table may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Dump unit.
    pub dump: Dump,
    /// Load unit.
    pub load: Load,
    /// Sync unit.
    pub sync: Sync,
}

/// Settings of the dump unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Dump {
    /// Connections, each with a snapshot of one position.
    pub threads: u32,
    /// Rows in one chunk of a table.
    pub rows: u64,
    /// Bytes of SQL text after which an INSERT is closed.
    pub statement_size: u64,
    /// MiB after which a file is closed.
    pub chunk_filesize: u64,
}

impl Default for Dump {
    fn default() -> Self {
        Dump { threads: 4, rows: 200_000, statement_size: 1_000_000, chunk_filesize: 64 }
    }
}

/// Settings of the load unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Load {
    /// Connections to the target; each writes one file at a time.
    pub pool_size: u32,
}

impl Default for Load {
    fn default() -> Self {
        Load { pool_size: 16 }
    }
}

/// Settings of the sync unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Sync {
    /// Workers, each with a connection to the target.
    pub worker_count: u32,
    /// Most row changes in one transaction on the target.
    pub batch: u32,
    /// Row changes that the queues of one worker are made for; all queues together hold about this
    /// many for each worker.
    pub queue_size: u32,
    /// Time between checkpoints.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub checkpoint_flush_interval: Duration,
    /// Whether rows go on being handed out while a checkpoint is due, instead of waiting until
    /// everything before is applied.
    pub async_checkpoint_flush: bool,
    /// Whether changes of one row that wait together become one change.
    pub compact: bool,
    /// Whether changes of one kind that follow each other become one statement.
    pub multiple_rows: bool,
    /// Whether all rows are written by statements that may be repeated.
    pub safe_mode: bool,
    /// How long rows are written so after a start that does not know what is on the target; where it
    /// is not said, exactly as long as rows come that may be there already.
    #[serde(
        with = "jiff::fmt::serde::unsigned_duration::friendly::compact::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub safe_mode_duration: Option<Duration>,
}

impl Default for Sync {
    fn default() -> Self {
        Sync {
            worker_count: 16,
            batch: 100,
            queue_size: 1024,
            checkpoint_flush_interval: Duration::from_secs(30),
            async_checkpoint_flush: false,
            compact: false,
            multiple_rows: false,
            safe_mode: false,
            safe_mode_duration: None,
        }
    }
}

/// What a task may vary.
pub const KNOBS: [Knob; 14] = [
    Knob::new(
        "pipeline.dump.threads",
        "connections",
        "4",
        Some("mydumpers.global.threads"),
        Cost::Rising,
        "connections that read the source, each with a snapshot of one position",
    ),
    Knob::new(
        "pipeline.dump.rows",
        "rows",
        "200000",
        Some("mydumpers.global.rows"),
        Cost::None,
        "rows in one chunk of a table",
    ),
    Knob::new(
        "pipeline.dump.statement-size",
        "bytes",
        "1000000",
        Some("mydumpers.global.statement-size"),
        Cost::Rising,
        "bytes of SQL text after which an INSERT is closed",
    ),
    Knob::new(
        "pipeline.dump.chunk-filesize",
        "MiB",
        "64",
        Some("mydumpers.global.chunk-filesize"),
        Cost::None,
        "size after which a file is closed",
    ),
    Knob::new(
        "pipeline.load.pool-size",
        "connections",
        "16",
        Some("loaders.global.pool-size"),
        Cost::Rising,
        "connections that write the target",
    ),
    Knob::new(
        "pipeline.sync.worker-count",
        "connections",
        "16",
        Some("syncers.global.worker-count"),
        Cost::Rising,
        "workers, each with a connection to the target",
    ),
    Knob::new(
        "pipeline.sync.batch",
        "rows",
        "100",
        Some("syncers.global.batch"),
        Cost::Rising,
        "most row changes in one transaction on the target",
    ),
    Knob::new(
        "pipeline.sync.queue-size",
        "rows",
        "1024",
        Some("syncers.global.queue-size"),
        Cost::Rising,
        "row changes that wait on their way to the target, for each worker",
    ),
    Knob::new(
        "pipeline.sync.checkpoint-flush-interval",
        "s",
        "30",
        Some("syncers.global.checkpoint-flush-interval"),
        Cost::Falling,
        "time between checkpoints",
    ),
    Knob::new(
        "pipeline.sync.async-checkpoint-flush",
        "",
        "false",
        Some("experimental.async-checkpoint-flush"),
        Cost::None,
        "whether rows go on being handed out while a checkpoint is due",
    ),
    Knob::new(
        "pipeline.sync.compact",
        "",
        "false",
        Some("syncers.global.compact"),
        Cost::None,
        "whether changes of one row that wait together become one change",
    ),
    Knob::new(
        "pipeline.sync.multiple-rows",
        "",
        "false",
        Some("syncers.global.multiple-rows"),
        Cost::None,
        "whether changes of one kind that follow each other become one statement",
    ),
    Knob::new(
        "pipeline.sync.safe-mode",
        "",
        "false",
        Some("syncers.global.safe-mode"),
        Cost::None,
        "whether all rows are written by statements that may be repeated",
    ),
    Knob::new(
        "pipeline.sync.safe-mode-duration",
        "",
        "",
        Some("syncers.global.safe-mode-duration"),
        Cost::None,
        "how long rows are written so after a start",
    ),
];

/// Knobs of DM that this pipeline does not have yet; a task that names one is refused, never ignored.
pub const UNSUPPORTED: [&str; 3] = [
    "pipeline.dump.consistency",
    "pipeline.load.import-mode",
    "pipeline.load.on-duplicate-logical",
];
