//! The record of one run: what was asked, of which servers, on which machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::{Finding, Knob, Model, Point};

/// The machine that ran dmbench (and, with a sandbox, everything else).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Machine {
    /// Operating system's pretty name.
    pub system: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical cores.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// File system of the run's folder.
    pub filesystem: String,
}

/// What a server was when the run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServerFacts {
    /// Such as `MySQL 9.7.4`.
    pub server: String,
    /// Text of `VERSION()`.
    pub version: String,
    /// `host:port` or the socket; never an account.
    pub address: String,
    /// Settings that bear on the numbers (binlog format and row image, sync_binlog, flush at commit,
    /// buffer pool, collation, …).
    pub settings: BTreeMap<String, String>,
    /// Protocol and cipher of dmbench's connections to it; `None` where they are plain.
    #[serde(default)]
    pub tls: Option<String>,
}

/// Where trials ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LabFacts {
    /// `sandbox` or `own servers`.
    pub kind: String,
    /// Written to and replicated from.
    pub source: ServerFacts,
    /// Replicated into.
    pub target: ServerFacts,
    /// What is emulated, such as `target-round-trip` = `2 ms asked, 2.09 ms measured`.
    pub emulated: BTreeMap<String, String>,
}

impl LabFacts {
    /// [`LabFacts::kind`] of servers that dmbench did not start.
    pub const OWN: &str = "own servers";
    /// Key in [`LabFacts::emulated`] of a target's storage that is not the one of real servers.
    pub const TARGET_STORAGE: &str = "target-storage";
}

/// Limits that a task states.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// Highest p99 of marker lag, in seconds.
    pub lag_p99_s: Option<f64>,
}

/// A task as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TaskFacts {
    /// Name, from the file's name.
    pub name: String,
    /// The question it answers.
    pub question: String,
    /// What is timed.
    pub model: Model,
    /// Kind of pipeline, such as `builtin`.
    pub pipeline: String,
    /// Short description of the workload, such as `sysbench oltp_insert, 4 × 50,000 rows, uniform`.
    pub workload: String,
    /// The file's text.
    pub text: String,
    /// Settings given on the command line by `--set`.
    pub overrides: Vec<String>,
    /// Hash of text and overrides.
    pub hash: String,
    /// Knobs that vary, first the one of the table's first column.
    pub knobs: Vec<Knob>,
    /// All points.
    pub points: Vec<Point>,
    /// Blocks asked for.
    pub blocks: u32,
    /// Seed of order and workload.
    pub seed: u64,
    /// Limits.
    pub limits: Limits,
    /// Where the run took servers' facts for this task (each task may have its own sandbox).
    pub lab: Option<LabFacts>,
    /// What was remarked on the servers before the first trial.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// What a run leaves on disk beside its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Run {
    /// [`crate::record::SCHEMA`].
    pub schema: u32,
    /// Name of its folder.
    pub id: String,
    /// When it began.
    pub began: Timestamp,
    /// When it ended; `None` while it runs or when it was killed.
    pub ended: Option<Timestamp>,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
    /// Version of dmbench.
    pub dmbench: String,
    /// Hash of the executable, which `--resume` compares.
    pub binary_hash: String,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// Tasks in order.
    pub tasks: Vec<TaskFacts>,
}
