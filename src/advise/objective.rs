//! What the points of a task are compared by.

use serde::Serialize;

use crate::record::{Model, TaskFacts, Trial, name};

/// A rate that should be high and a time that should be low.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Objective {
    /// Metric of the rate.
    pub rate: &'static str,
    /// Unit of the rate.
    pub dimension: &'static str,
    /// What the rate is, for people.
    pub meaning: &'static str,
    /// Metric of the time that breaks ties and forms the Pareto front, a distribution in µs.
    pub latency: Option<&'static str>,
    /// What that time is, for people.
    pub latency_meaning: &'static str,
}

impl Objective {
    /// The objective of a task, by its model; for an import, by which unit its knobs touch.
    pub fn of(task: &TaskFacts) -> Objective {
        match task.model {
            Model::Bulk => Objective::of_import(task),
            Model::Backlog => Objective {
                rate: name::SYNC_ROWS_RATE,
                dimension: "rows/s",
                meaning: "rate of catching up",
                latency: Some(name::SYNC_TRANSACTION),
                latency_meaning: "time of the applier's transactions",
            },
            Model::Stream => Objective {
                rate: name::SYNC_ROWS_RATE,
                dimension: "rows/s",
                meaning: "rate of applying",
                latency: Some(name::LAG_MARKER),
                latency_meaning: "lag by markers",
            },
            Model::Sustain => Objective {
                rate: name::ACHIEVED,
                dimension: "ops/s",
                meaning: "sustained rate",
                latency: Some(name::LAG_MARKER),
                latency_meaning: "lag by markers",
            },
            Model::Drive => Objective {
                rate: name::ACHIEVED,
                dimension: "ops/s",
                meaning: "rate of committed ops",
                latency: Some(name::RESPONSE),
                latency_meaning: "response time",
            },
        }
    }

    fn of_import(task: &TaskFacts) -> Objective {
        const OF_DUMP: [&str; 2] = ["pipeline.dump.threads", "pipeline.dump.rows"];
        let knobs = || task.knobs.iter().map(|k| k.name.as_ref());
        let (rate, meaning) = if task.knobs.is_empty() {
            (name::IMPORT_ROWS_RATE, "rate of dump and load together")
        } else if knobs().all(|k| OF_DUMP.contains(&k)) {
            (name::DUMP_ROWS_RATE, "rate of dump")
        } else if knobs().all(|k| k.starts_with("pipeline.load.")) {
            (name::LOAD_ROWS_RATE, "rate of load")
        } else {
            (name::IMPORT_ROWS_RATE, "rate of dump and load together")
        };
        let of_dump = rate == name::DUMP_ROWS_RATE;
        Objective {
            rate,
            dimension: "rows/s",
            meaning,
            latency: (!of_dump).then_some(name::LOAD_TRANSACTION),
            latency_meaning: if of_dump { "" } else { "time of load's transactions" },
        }
    }

    /// The trial's rate, above 0; derived where the trial has only the parts.
    pub fn rate_of(&self, trial: &Trial) -> Option<f64> {
        trial
            .number(self.rate)
            .or_else(|| (self.rate == name::IMPORT_ROWS_RATE).then(|| import_rate(trial))?)
            .filter(|rate| rate.is_finite() && *rate > 0.0)
    }
}

/// Rows per second of dump and load one after the other.
pub(super) fn import_rate(trial: &Trial) -> Option<f64> {
    let dump_time = trial.number(name::DUMP_TIME)?;
    let rows = trial.number(name::DUMP_ROWS_RATE)? * dump_time;
    let rate = rows / (dump_time + trial.number(name::LOAD_TIME)?);
    rate.is_finite().then_some(rate)
}
