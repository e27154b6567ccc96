//! One timed set of readings: a line of the samples file.

use serde::Serialize;

use crate::probe::checkpoint::Standing;

/// A line of the samples file. What is unknown is left out.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sample {
    /// Seconds since the sampler was started.
    pub t_s: f64,
    /// Whether the sample lies in the window.
    pub counts: bool,
    /// Ops that the workload has committed so far.
    pub committed_ops: u64,
    /// Row changes applied so far.
    pub applied_rows: u64,
    /// The source's position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The position in the checkpoint row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Lag by the checkpoint in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_lag_us: Option<u128>,
    /// Bytes of binlog from the checkpoint to the source's position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_behind: Option<u64>,
    /// What the checkpoint row says of the pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// The target's age by markers in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker_age_us: Option<u128>,
    /// Markers acknowledged so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markers: Option<u64>,
    /// Markers acknowledged that the target has not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markers_unseen: Option<u64>,
    /// CPU seconds of the machine and of each process since they were started.
    pub cpu_s: std::collections::BTreeMap<String, f64>,
    /// Failed reads of all probes so far.
    pub failed_reads: u64,
    /// Why the last one failed, for the probe with the most recent trouble.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
