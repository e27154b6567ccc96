//! How a trial ended, what comparing both ends gave, and remarks on it.

use serde::{Deserialize, Serialize};

/// How a trial ended. Never an opinion on whether the data is right: that is [`Verdict`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// A fixed amount of work (model `bulk`, `backlog`, or `drive` by count) was done to its end.
    Finished {
        /// The rate reached, in `dimension`.
        rate: f64,
        /// Unit of the rate.
        dimension: String,
    },
    /// The pipeline kept up with the offered rate by the rule of sustained rates.
    Sustained {
        /// Offered ops per second.
        rate: f64,
    },
    /// The pipeline did not keep up, or did not finish its work in time; the rate is what it managed.
    Saturated {
        /// The rate reached, in `dimension`.
        rate: f64,
        /// Unit of the rate.
        dimension: String,
    },
    /// Lag did not grow, but a limit was exceeded.
    Bounded {
        /// What was exceeded and by how much.
        reason: String,
    },
    /// The generator could not offer what was asked, so the pipeline was not tested.
    GeneratorBound {
        /// The measurement that shows it.
        reason: String,
    },
    /// Stopped before its end.
    Aborted {
        /// By whom or what.
        reason: String,
    },
    /// The numbers cannot be used.
    Invalid {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// The word of the vocabulary.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Finished { .. } => "finished",
            Outcome::Sustained { .. } => "sustained",
            Outcome::Saturated { .. } => "saturated",
            Outcome::Bounded { .. } => "bounded",
            Outcome::GeneratorBound { .. } => "generator-bound",
            Outcome::Aborted { .. } => "aborted",
            Outcome::Invalid { .. } => "invalid",
        }
    }

    /// Whether the trial's figures may enter an average or a recommendation.
    pub fn counts(&self) -> bool {
        matches!(
            self,
            Outcome::Finished { .. } | Outcome::Sustained { .. } | Outcome::Bounded { .. }
        )
    }
}

/// What comparing both ends gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Verdict {
    /// All rows are equal.
    Equal {
        /// Tables compared.
        tables: u64,
        /// Rows compared on each end.
        rows: u64,
    },
    /// Rows differ.
    Differs {
        /// Rows missing, surplus or changed, as far as they were told apart.
        missing: u64,
        /// Rows the target has and the source has not.
        surplus: u64,
        /// Rows with one key and different values.
        changed: u64,
        /// The first differing keys, as `schema.table key: what`.
        examples: Vec<String>,
    },
    /// Not compared.
    Unchecked {
        /// Why not.
        reason: String,
    },
}

impl Verdict {
    /// The word of the vocabulary.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Equal { .. } => "equal",
            Verdict::Differs { .. } => "differs",
            Verdict::Unchecked { .. } => "unchecked",
        }
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Good to know.
    Note,
    /// Changes how a figure should be read.
    Warning,
    /// Makes a figure unusable.
    Error,
}

/// A remark with a stable code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// Stable code such as `generator-bound`.
    pub code: String,
    /// One sentence.
    pub text: String,
    /// The figures behind it.
    pub evidence: String,
    /// What to do; may be empty.
    pub hint: String,
}
