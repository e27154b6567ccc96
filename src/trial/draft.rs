//! A trial's record while it is being made.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::event::Events;
use crate::mysql::{Position, hint};
use crate::pipeline::{Progress, Unit};
use crate::record::{
    Finding, Level, Metric, Model, Outcome, Phase, Point, Replayed, SCHEMA, Trial, Verdict,
};
use crate::telemetry::Gauges;
use crate::trial::Error;
use crate::trial::phases::Phases;

/// Where a trial stands in its sweep.
#[derive(Debug, Clone)]
pub struct Seat {
    /// Name of the task.
    pub task: String,
    /// Hash of the task.
    pub task_hash: String,
    /// Which point.
    pub point: Point,
    /// Which block, from 1.
    pub block: u32,
    /// Place in the task's order of execution, from 1.
    pub order: u32,
    /// Place within the block, from 1.
    pub order_in_block: u32,
}

/// What is known of a trial so far. Whatever happens, it becomes a record.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) phases: Phases,
    pub(super) metrics: Vec<Metric>,
    pub(super) findings: Vec<Finding>,
    pub(super) configuration: BTreeMap<String, String>,
    pub(super) emulated: BTreeMap<String, String>,
    pub(super) replayed: Option<Replayed>,
    pub(super) source_end: Option<Position>,
    pub(super) verdict: Verdict,
    /// Where Ctrl-C found the trial, when it went on to drain after it.
    pub(super) interrupted_in: Option<Phase>,
    began: Timestamp,
}

impl Draft {
    pub(super) fn begin(events: &Events, gauges: &Gauges) -> Draft {
        Draft {
            phases: Phases::begin(events, gauges),
            metrics: Vec::new(),
            findings: Vec::new(),
            configuration: BTreeMap::new(),
            emulated: BTreeMap::new(),
            replayed: None,
            source_end: None,
            verdict: Verdict::Unchecked { reason: "the trial did not come that far".to_owned() },
            interrupted_in: None,
            began: Timestamp::now(),
        }
    }

    /// Adds a finding.
    pub(super) fn find(
        &mut self,
        level: Level,
        code: &str,
        text: String,
        evidence: String,
        hint: &str,
    ) {
        self.findings.push(Finding {
            level,
            code: code.to_owned(),
            text,
            evidence,
            hint: hint.to_owned(),
        });
    }

    /// The outcome of a trial that an error ended: what failed and in which phase, with a finding that
    /// says what may be done about it.
    pub(super) fn abort(&mut self, error: &Error) -> Outcome {
        // A server may quote lines of what it was sent.
        let text = format!("failed to {error}");
        let text = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let phase = self.phase().word();
        let hint = hint(&text).unwrap_or_default();
        self.find(
            Level::Error,
            "trial-aborted",
            format!("the trial ended in phase {phase}"),
            text.clone(),
            hint,
        );
        Outcome::Aborted { reason: format!("{text}, in phase {phase}") }
    }

    /// Turns what a pipeline remarked into findings.
    pub(super) fn note(&mut self, remarks: Vec<(Unit, String)>) {
        for (unit, text) in remarks {
            let hint = hint(&text).unwrap_or_default();
            self.find(Level::Warning, "pipeline-remark", text, format!("{unit:?} unit"), hint);
        }
    }

    /// Says what a pipeline that did not come to its end had trouble with.
    pub(super) fn blame(&mut self, last: &Progress) {
        if let Some(trouble) = &last.trouble {
            self.find(
                Level::Error,
                "pipeline-trouble",
                "the pipeline tried again and again and did not come to its end".to_owned(),
                format!("last: failed to {trouble}"),
                hint(trouble).unwrap_or_default(),
            );
        }
    }

    /// A number by name.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.name == name)?.as_number()
    }

    /// The phase that runs now, for a reason.
    pub(super) fn phase(&self) -> Phase {
        self.phases.current().unwrap_or(Phase::Provision)
    }

    pub(super) fn into_trial(
        self,
        seat: &Seat,
        model: Model,
        seed: u64,
        outcome: Outcome,
    ) -> Trial {
        Trial {
            schema: SCHEMA,
            task: seat.task.clone(),
            task_hash: seat.task_hash.clone(),
            model,
            point: seat.point.clone(),
            block: seat.block,
            order: seat.order,
            order_in_block: seat.order_in_block,
            seed,
            began: self.began,
            phases: self.phases.finish(),
            configuration: self.configuration,
            emulated: self.emulated,
            replayed: self.replayed,
            source_end: self.source_end.map(|position| position.to_string()),
            outcome,
            verdict: self.verdict,
            findings: self.findings,
            metrics: self.metrics,
        }
    }
}
