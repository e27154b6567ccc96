//! Findings: what a reader must know before believing a figure, and where to turn next.
//!
//! Rules are plain functions in one array, each with a stable code. A rule looks at records and
//! summaries only and says nothing when what it needs was not measured.

mod bottleneck;
mod clock;
mod noise;
mod trust;

use super::pick::Pick;
use super::summary::PointSummary;
use crate::record::{Finding, Level, Run, TaskFacts, Trial};
use crate::stats::paired::Fit;

/// All that a rule may look at.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The run.
    pub run: &'a Run,
    /// The task.
    pub task: &'a TaskFacts,
    /// Its trials.
    pub trials: &'a [&'a Trial],
    /// Its points.
    pub points: &'a [PointSummary],
    /// Points and blocks fitted over the trials that count; points by their index.
    pub fit: &'a Fit,
    /// The recommendation.
    pub pick: &'a Option<Pick>,
}

/// A rule: nothing, or one finding.
pub type Rule = fn(&Scene) -> Option<Finding>;

/// All rules.
pub const RULES: [Rule; 26] = [
    trust::interrupted,
    trust::differs,
    trust::not_verified,
    trust::aborted,
    trust::invalid,
    trust::saturated,
    trust::generator_bound,
    trust::incomplete,
    trust::failed_ops,
    trust::limit_missed,
    trust::ranges_differ,
    noise::too_few_blocks,
    noise::drift_within_blocks,
    noise::outlier,
    clock::clock_coarse,
    clock::markers_too_many,
    clock::little_law,
    clock::lag_growing,
    bottleneck::cpu_saturated,
    bottleneck::other_load,
    bottleneck::conflicts_high,
    bottleneck::sync_retries,
    bottleneck::rows_per_statement_low,
    bottleneck::best_at_edge,
    bottleneck::emulated_network,
    bottleneck::no_cluster,
];

/// Findings of all rules, of the trials themselves and on the servers, the gravest first.
pub fn findings(scene: &Scene) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| rule(scene)).collect();
    findings.extend(trust::of_trials(scene, &findings));
    findings.extend(scene.task.findings.iter().cloned());
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

fn finding(
    level: Level,
    code: &str,
    text: impl Into<String>,
    evidence: impl Into<String>,
    hint: &str,
) -> Option<Finding> {
    Some(Finding {
        level,
        code: code.to_owned(),
        text: text.into(),
        evidence: evidence.into(),
        hint: hint.to_owned(),
    })
}

/// `label: figure` of each point for which `figure` gives one, joined; `None` where none does.
fn each_point(scene: &Scene, figure: impl Fn(&PointSummary) -> Option<String>) -> Option<String> {
    let parts: Vec<String> = scene
        .points
        .iter()
        .filter_map(|point| {
            let figure = figure(point)?;
            let named = !point.label.is_empty();
            Some(if named { format!("{}: {figure}", point.label) } else { figure })
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `3 of 15 trials`, with the points they belong to where knobs vary.
fn how_many(scene: &Scene, of: &[&Trial]) -> String {
    let mut labels: Vec<String> = Vec::new();
    for trial in of {
        let label = super::summary::label(&trial.point);
        if !label.is_empty() && !labels.contains(&label) {
            labels.push(label);
        }
    }
    let places =
        if labels.is_empty() { String::new() } else { format!(" ({})", labels.join("; ")) };
    format!("{} of {} trials{places}", of.len(), scene.trials.len())
}
