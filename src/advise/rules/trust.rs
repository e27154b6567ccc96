//! Rules on whether the figures may be used at all.

use std::collections::BTreeMap;

use super::{Scene, each_point, finding, how_many};
use crate::advise::pick::missed_limit;
use crate::record::{Finding, Level, Model, Outcome, Replayed, Trial, Verdict, name};

/// Trials chosen by `which`; `None` when there are none.
fn those<'a>(scene: &Scene<'a>, which: impl Fn(&Trial) -> bool) -> Option<Vec<&'a Trial>> {
    let those: Vec<&Trial> = scene.trials.iter().copied().filter(|t| which(t)).collect();
    (!those.is_empty()).then_some(those)
}

pub(super) fn interrupted(scene: &Scene) -> Option<Finding> {
    let why = match (scene.run.interrupted, scene.run.ended) {
        (true, _) => "Ctrl-C ended the run",
        (false, None) => "the run has no recorded end: it was killed, or still runs",
        (false, Some(_)) => return None,
    };
    let asked = scene.task.points.len() * scene.task.blocks as usize;
    finding(
        Level::Warning,
        "interrupted",
        format!("{why}; what is shown is what there was by then"),
        format!("{} of {asked} trials have a record", scene.trials.len()),
        "dmbench run --resume goes on where it stopped",
    )
}

pub(super) fn differs(scene: &Scene) -> Option<Finding> {
    let those = those(scene, |t| matches!(t.verdict, Verdict::Differs { .. }))?;
    let example = those.iter().find_map(|t| match &t.verdict {
        Verdict::Differs { examples, .. } => examples.first().cloned(),
        _ => None,
    });
    let evidence = match example {
        Some(example) => format!("{}; first: {example}", how_many(scene, &those)),
        None => how_many(scene, &those),
    };
    finding(
        Level::Error,
        "differs",
        "source and target were not equal; these trials enter no figure and no recommendation",
        evidence,
        "the trials' records name the first differing keys",
    )
}

pub(super) fn not_verified(scene: &Scene) -> Option<Finding> {
    let unchecked = |t: &Trial| matches!(t.verdict, Verdict::Unchecked { .. });
    // What did not even end properly says so by its outcome.
    let those =
        those(scene, |t| scene.task.model != Model::Drive && unchecked(t) && t.outcome.counts())?;
    let reason = match &those[0].verdict {
        Verdict::Unchecked { reason } => reason.clone(),
        _ => String::new(),
    };
    finding(
        Level::Warning,
        "not-verified",
        "both ends were not compared; what was not verified cannot be recommended",
        format!("{}: {reason}", how_many(scene, &those)),
        "",
    )
}

pub(super) fn aborted(scene: &Scene) -> Option<Finding> {
    let those = those(scene, |t| matches!(t.outcome, Outcome::Aborted { .. }))?;
    finding(
        Level::Warning,
        "aborted",
        "trials did not reach their end; their figures are shown nowhere as results",
        format!("{}: {}", how_many(scene, &those), reason(those[0])),
        "dmbench run --resume makes them again",
    )
}

/// Of what reached its end, `--resume` makes nothing again: whoever may choose which trials to repeat
/// chooses their figures too.
pub(super) fn invalid(scene: &Scene) -> Option<Finding> {
    let those = those(scene, |t| matches!(t.outcome, Outcome::Invalid { .. }))?;
    finding(
        Level::Warning,
        "invalid",
        "trials reached their end and measured nothing that can be used; their figures are shown \
         nowhere as results",
        format!("{}: {}", how_many(scene, &those), reason(those[0])),
        "--resume keeps them as they are; measure again by a new run",
    )
}

/// Why a trial gave nothing.
fn reason(trial: &Trial) -> &str {
    match &trial.outcome {
        Outcome::Aborted { reason } | Outcome::Invalid { reason } => reason,
        _ => "",
    }
}

pub(super) fn saturated(scene: &Scene) -> Option<Finding> {
    let those = those(scene, |t| matches!(t.outcome, Outcome::Saturated { .. }))?;
    finding(
        Level::Warning,
        "saturated",
        match scene.task.model {
            Model::Drive => "the server committed less than it was offered",
            _ => {
                "the pipeline did not keep up, or did not finish in the time it had; such points \
                 cannot be recommended"
            }
        },
        how_many(scene, &those),
        if scene.task.model == Model::Backlog {
            "a longer drain-limit lets slow points finish"
        } else {
            "a lower rate shows what it sustains"
        },
    )
}

pub(super) fn generator_bound(scene: &Scene) -> Option<Finding> {
    let starved = |t: &Trial| {
        let open = matches!(t.model, Model::Stream | Model::Sustain);
        let (offered, achieved) = (t.number(name::OFFERED), t.number(name::ACHIEVED));
        open && offered.zip(achieved).is_some_and(|(o, a)| a < 0.98 * o)
    };
    let those =
        those(scene, |t| matches!(t.outcome, Outcome::GeneratorBound { .. }) || starved(t))?;
    let reason = those.iter().find_map(|t| match &t.outcome {
        Outcome::GeneratorBound { reason } => Some(reason.clone()),
        _ => None,
    });
    let reason =
        reason.unwrap_or_else(|| "less than 98 % of the due ops were committed".to_owned());
    finding(
        Level::Warning,
        "generator-bound",
        "the load was not what was asked, so the pipeline was not tested at that rate",
        format!("{}: {reason}", how_many(scene, &those)),
        "lower pace.rate, raise pace.clients, or give the generator a machine of its own",
    )
}

pub(super) fn incomplete(scene: &Scene) -> Option<Finding> {
    let asked = scene.task.points.len() * scene.task.blocks as usize;
    let has = scene.trials.len();
    let ended = scene.run.ended.is_some() && !scene.run.interrupted;
    if has >= asked || !ended {
        return None;
    }
    finding(
        Level::Warning,
        "incomplete",
        "not every point has a trial in every block",
        format!("{has} of {asked} trials have a record"),
        "dmbench run --resume makes those that are missing",
    )
}

pub(super) fn failed_ops(scene: &Scene) -> Option<Finding> {
    let failed: f64 = scene.trials.iter().filter_map(|t| t.number(name::FAILED_OPS)).sum();
    let those = those(scene, |t| t.number(name::FAILED_OPS).is_some_and(|failed| failed > 0.0))?;
    let evidence = format!("{failed:.0} failed ops in {}", how_many(scene, &those));
    finding(
        Level::Warning,
        "failed-ops",
        "some ops of the workload failed; they count as offered, not as committed",
        evidence,
        "the log names the servers' error codes",
    )
}

pub(super) fn limit_missed(scene: &Scene) -> Option<Finding> {
    let limit = scene.task.limits.lag_p99_s?;
    let evidence = each_point(scene, |p| {
        let lag = missed_limit(scene.task, p)?;
        Some(format!("p99 lag {lag:.2} s, limit {limit} s"))
    })?;
    finding(Level::Warning, "limit-missed", "a limit of the task was missed", evidence, "")
}

/// Trials of a backlog that did not replay the same range: a resumed run commits it again. The same
/// seed gives the same ops, but clients interleave them anew.
pub(super) fn ranges_differ(scene: &Scene) -> Option<Finding> {
    let mut ranges: BTreeMap<Vec<(&String, &String)>, Vec<&Replayed>> = BTreeMap::new();
    for trial in scene.trials.iter().filter(|t| t.counts()) {
        // What is committed depends on workload and pace: only points alike in these are compared.
        let conditions = trial.point.iter().filter(|(knob, _)| !knob.starts_with("pipeline."));
        let known = ranges.entry(conditions.collect()).or_default();
        if let Some(range) = trial.replayed.as_ref().filter(|range| !known.contains(range)) {
            known.push(range);
        }
    }
    let several = ranges.into_values().find(|known| known.len() > 1)?;
    let alike = several.iter().all(|r| (r.ops, r.rows) == (several[0].ops, several[0].rows));
    let each: Vec<String> = several
        .iter()
        .map(|r| format!("{} to {}: {} ops, {} rows", r.from, r.to, r.ops, r.rows))
        .collect();
    finding(
        if alike { Level::Note } else { Level::Warning },
        "ranges-differ",
        "not all trials replayed the same range of the binlog: it was committed again",
        each.join("; "),
        "a run in one piece replays one range",
    )
}

/// Findings that trials made while they ran, each wording once, without those that `known` holds.
pub(super) fn of_trials(scene: &Scene, known: &[Finding]) -> Vec<Finding> {
    let mut merged: Vec<(Finding, Vec<&Trial>)> = Vec::new();
    for trial in scene.trials.iter().copied() {
        for found in &trial.findings {
            if known.iter().any(|k| k.code == found.code) {
                continue;
            }
            let same = |m: &Finding| m.code == found.code && wording(m) == wording(found);
            match merged.iter_mut().find(|(m, _)| same(m)) {
                Some((m, of)) => {
                    m.level = m.level.max(found.level);
                    if of.last().is_none_or(|last| last.order != trial.order) {
                        of.push(trial);
                    }
                }
                None => merged.push((found.clone(), vec![trial])),
            }
        }
    }
    merged
        .into_iter()
        .map(|(mut found, of)| {
            if scene.trials.len() > 1 {
                let many = how_many(scene, &of);
                found.evidence = match found.evidence.is_empty() {
                    true => many,
                    false => format!("{many}; first: {}", found.evidence),
                };
            }
            found
        })
        .collect()
}

/// A finding's text without its figures: two that differ in nothing else say the same.
fn wording(finding: &Finding) -> String {
    finding.text.chars().filter(|c| !c.is_ascii_digit()).collect()
}
