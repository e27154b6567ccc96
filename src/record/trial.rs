//! The record of one trial.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::record::{Finding, Metric, Outcome, Verdict};

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Dump and load.
    Bulk,
    /// Sync under load.
    Stream,
    /// Catching up with a fixed range of the binlog.
    Backlog,
    /// Search for the highest sustained rate.
    Sustain,
    /// The workload alone.
    Drive,
}

/// A part of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Schemas made, sessions opened.
    Provision,
    /// Source filled, or target restored.
    Seed,
    /// Waiting until the servers are at rest.
    Settle,
    /// Load runs, nothing counts yet.
    Warm,
    /// What counts.
    Measure,
    /// From the end of writing until everything is applied.
    Drain,
    /// Both ends compared.
    Verify,
    /// Everything of the trial removed.
    Teardown,
}

impl Phase {
    /// The word of the vocabulary.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Provision => "provision",
            Phase::Seed => "seed",
            Phase::Settle => "settle",
            Phase::Warm => "warm",
            Phase::Measure => "measure",
            Phase::Drain => "drain",
            Phase::Verify => "verify",
            Phase::Teardown => "teardown",
        }
    }
}

/// When a phase began and how long it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PhaseSpan {
    /// Which.
    pub phase: Phase,
    /// Seconds since the trial began.
    pub began_s: f64,
    /// Seconds it took.
    pub took_s: f64,
}

/// One assignment of all varied knobs: full knob name to value as text.
pub type Point = BTreeMap<String, String>;

/// The committed range of the source's binlog that a trial replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Replayed {
    /// Position before its first transaction.
    pub from: String,
    /// Position after its last one.
    pub to: String,
    /// Ops committed in it.
    pub ops: u64,
    /// Row changes committed in it.
    pub rows: u64,
}

/// What a trial leaves on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trial {
    /// [`crate::record::SCHEMA`].
    pub schema: u32,
    /// Name of the task.
    pub task: String,
    /// Hash of the task's text, as in the run's record.
    pub task_hash: String,
    /// What was timed.
    pub model: Model,
    /// Which point.
    pub point: Point,
    /// Which block, from 1.
    pub block: u32,
    /// Place in the task's order of execution, from 1.
    pub order: u32,
    /// Place within the block, from 1.
    pub order_in_block: u32,
    /// Seed of the workload.
    pub seed: u64,
    /// When it began.
    pub began: Timestamp,
    /// Phases in order.
    pub phases: Vec<PhaseSpan>,
    /// The settings that the pipeline and the workload really ran with, by dotted name.
    pub configuration: BTreeMap<String, String>,
    /// What was emulated while it ran, such as `target-round-trip` = `2 ms asked, 2.09 ms measured`.
    #[serde(default)]
    pub emulated: BTreeMap<String, String>,
    /// Model `backlog`: what was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Replayed>,
    /// Where the source's binlog stood after the last write that counts.
    pub source_end: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// What comparing both ends gave.
    pub verdict: Verdict,
    /// Remarks made while it ran.
    pub findings: Vec<Finding>,
    /// Results.
    pub metrics: Vec<Metric>,
}

impl Trial {
    /// A metric by name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// A number by name.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.metric(name)?.as_number()
    }

    /// Whether the trial may enter averages and recommendations: it ended properly *and* both ends
    /// were found equal. Model `drive` replicates nothing, so there is nothing to be found equal.
    pub fn counts(&self) -> bool {
        let verified = match self.verdict {
            Verdict::Equal { .. } => true,
            Verdict::Unchecked { .. } => self.model == Model::Drive,
            Verdict::Differs { .. } => false,
        };
        self.outcome.counts() && verified
    }

    /// Name of its file: `<task>-0003-b2-wc8.json` without the knobs' part where none varies.
    pub fn file_name(&self) -> String {
        format!("{}.json", self.label())
    }

    /// `<task>-0003-b2-worker-count8`: order, block and the last word of each knob with its value.
    pub fn label(&self) -> String {
        trial_label(&self.task, self.order, self.block, &self.point)
    }
}

/// See [`Trial::label`].
pub fn trial_label(task: &str, order: u32, block: u32, point: &Point) -> String {
    let mut label = format!("{task}-{order:04}-b{block}");
    for (knob, value) in point {
        let short = knob.rsplit('.').next().unwrap_or(knob);
        let value: String =
            value.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        label.push_str(&format!("-{short}{value}"));
    }
    label
}
