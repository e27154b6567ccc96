//! The recommendation of a sweep.
//!
//! Of the points that count and keep the task's limits the knee rule (`stats::knee`) picks the cheapest
//! that reaches 95 % of the best. Beside it stands what every other point would cost, and which points
//! trade rate against time (the Pareto front), so that a reader can decide otherwise.

use serde::Serialize;

use super::objective::Objective;
use super::summary::PointSummary;
use crate::record::{Cost, Knob, Point, TaskFacts, Trial, name};
use crate::stats::knee::{self, Candidate};
use crate::stats::paired::{self, Cell, Fit, Ratio};

/// A recommended point.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Pick {
    /// The point.
    pub point: Point,
    /// The same for people.
    pub label: String,
    /// Whether it is settled; otherwise it is *indicative*.
    pub settled: bool,
    /// Further blocks that would settle it at the noise seen so far; `None` when settled or when that
    /// cannot be said.
    pub further_blocks: Option<u32>,
    /// Why this one, in words without figures.
    pub reason: String,
    /// The point with the highest rate.
    pub best: Point,
    /// The same for people.
    pub best_label: String,
    /// The point that its ratio was judged against: the best, or the runner-up where the pick is the
    /// best itself; `None` where there is no other.
    pub against: Option<String>,
    /// The pick's ratio to that point.
    pub ratio: Option<Ratio>,
    /// Standard deviation of what is left after points and blocks are taken out, as a share
    /// (0.05 = 5 %); `None` where it is unknown.
    pub noise: Option<f64>,
    /// What each point that may be recommended gives, the pick among them.
    pub deviations: Vec<Deviation>,
}

/// What another point gives, compared with the best.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Deviation {
    /// The point.
    pub point: Point,
    /// The same for people.
    pub label: String,
    /// Ratio of its rate to the best point's, paired by block; `None` where no block holds both.
    pub to_best: Option<Ratio>,
    /// p99 of the objective's time in µs.
    pub latency_p99: Option<u64>,
    /// No other point has both a higher rate and a lower time.
    pub on_front: bool,
    /// Whether it is the pick.
    pub is_pick: bool,
}

/// The points cannot be told apart: every interval of a ratio to the best holds 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct NoDifference {
    /// Lowest bound of a 95 % interval of a ratio to the best.
    pub low: f64,
    /// Highest bound.
    pub high: f64,
}

/// A pick, or why there is none.
#[derive(Debug, Default)]
pub(super) struct Picked {
    pub(super) pick: Option<Pick>,
    pub(super) none_because: Option<String>,
    pub(super) no_difference: Option<NoDifference>,
}

/// Whether a knob is something that one chooses, rather than a condition that one meets.
pub fn is_choice(knob: &str) -> bool {
    knob.starts_with("pipeline.") || knob == "pace.clients"
}

/// The fit of points and blocks over all trials that count.
pub(super) fn fit(objective: &Objective, points: &[PointSummary], trials: &[&Trial]) -> Fit {
    let cells: Vec<Cell> = trials
        .iter()
        .filter(|t| t.counts())
        .filter_map(|t| {
            let point = points.iter().position(|p| p.point == t.point)?;
            Some(Cell { point, block: t.block, value: objective.rate_of(t)? })
        })
        .collect();
    paired::fit(&cells)
}

/// Picks among the points of a task.
pub(super) fn pick(
    task: &TaskFacts,
    objective: &Objective,
    points: &[PointSummary],
    fit: &Fit,
) -> Picked {
    let none = |why: &str| Picked { none_because: Some(why.to_owned()), ..Picked::default() };
    if points.len() < 2 {
        return Picked::default();
    }
    if let Some(knob) = task.knobs.iter().find(|k| !is_choice(&k.name)) {
        return none(&format!("{} is a condition to compare, not a setting to choose", knob.name));
    }
    if points.iter().all(|p| p.counted == 0) {
        return none("no trial of any point counts");
    }
    let candidates: Vec<Candidate> = points
        .iter()
        .enumerate()
        .filter(|(_, p)| p.counted > 0 && !p.failed_once() && missed_limit(task, p).is_none())
        .map(|(point, p)| Candidate {
            point,
            cost: cost(task, points, &p.point),
            latency: objective.latency.and_then(|l| p.quantile(l, 0.99)).map(|us| us as f64),
            resource: p.cores_used(),
        })
        .collect();
    if candidates.is_empty() {
        return none("every point that counts misses a limit of the task or failed in a trial");
    }
    let Some(choice) = knee::choose(&candidates, fit) else {
        return none("no trial that counts has a rate");
    };
    Picked {
        pick: Some(explain(objective, points, fit, &candidates, &choice)),
        none_because: None,
        no_difference: no_difference(&choice, fit),
    }
}

/// The p99 of marker lag in seconds where it misses the task's limit.
pub(super) fn missed_limit(task: &TaskFacts, point: &PointSummary) -> Option<f64> {
    let limit = task.limits.lag_p99_s?;
    let lag = point.quantile(name::LAG_MARKER, 0.99)? as f64 / 1e6;
    (lag > limit).then_some(lag)
}

fn explain(
    objective: &Objective,
    points: &[PointSummary],
    fit: &Fit,
    candidates: &[Candidate],
    choice: &knee::Choice,
) -> Pick {
    let front = front(candidates, fit);
    let deviations = candidates
        .iter()
        .zip(&choice.ratios)
        .map(|(candidate, (_, to_best))| Deviation {
            point: points[candidate.point].point.clone(),
            label: points[candidate.point].label.clone(),
            to_best: *to_best,
            latency_p99: candidate.latency.map(|us| us as u64),
            on_front: front.contains(&candidate.point),
            is_pick: candidate.point == choice.pick,
        })
        .collect();
    let against = if choice.pick == choice.best { choice.runner_up } else { Some(choice.best) };
    let (pick, best) = (&points[choice.pick], &points[choice.best]);
    Pick {
        point: pick.point.clone(),
        label: pick.label.clone(),
        settled: choice.settled,
        further_blocks: choice.further_blocks,
        reason: reason(objective, candidates, choice),
        best: best.point.clone(),
        best_label: best.label.clone(),
        against: against.map(|p| points[p].label.clone()),
        ratio: against.and_then(|other| fit.ratio(choice.pick, other)),
        noise: fit.deviation(),
        deviations,
    }
}

fn reason(objective: &Objective, candidates: &[Candidate], choice: &knee::Choice) -> String {
    if candidates.len() == 1 {
        return "the only point that counts and keeps the limits".to_owned();
    }
    let ordered = candidates.iter().any(|c| c.cost != candidates[0].cost);
    let is_best = choice.pick == choice.best;
    match (ordered, is_best) {
        (true, true) => format!(
            "the best of the points compared by {}, and no cheaper one reaches 95 % of it",
            objective.meaning
        ),
        (true, false) => {
            format!("the cheapest point that reaches 95 % of the best {}", objective.meaning)
        }
        (false, _) => {
            let by = match objective.latency {
                Some(_) => format!(", with the lowest p99 of the {}", objective.latency_meaning),
                None => String::new(),
            };
            format!("within 5 % of the best {}{by}", objective.meaning)
        }
    }
}

/// Points that no other beats in both rate and time.
fn front(candidates: &[Candidate], fit: &Fit) -> Vec<usize> {
    let level = |c: &Candidate| fit.level(c.point).unwrap_or(f64::NEG_INFINITY);
    let time = |c: &Candidate| c.latency.unwrap_or(f64::INFINITY);
    let beats = |a: &Candidate, b: &Candidate| {
        level(a) >= level(b) && time(a) <= time(b) && (level(a) > level(b) || time(a) < time(b))
    };
    candidates
        .iter()
        .filter(|c| !candidates.iter().any(|other| beats(other, c)))
        .map(|c| c.point)
        .collect()
}

fn no_difference(choice: &knee::Choice, fit: &Fit) -> Option<NoDifference> {
    let mut range: Option<NoDifference> = None;
    for (point, _) in choice.ratios.iter().filter(|(p, _)| *p != choice.best) {
        let (low, high) = fit.interval(*point, choice.best)?;
        if high < 1.0 {
            return None;
        }
        let so_far = range.unwrap_or(NoDifference { low, high });
        range = Some(NoDifference { low: so_far.low.min(low), high: so_far.high.max(high) });
    }
    range
}

/// A point's place in the order of cost: the ranks of its values, added over the knobs whose values
/// cost.
fn cost(task: &TaskFacts, points: &[PointSummary], point: &Point) -> f64 {
    task.knobs.iter().map(|knob| rank(knob, points, point)).sum()
}

fn rank(knob: &Knob, points: &[PointSummary], point: &Point) -> f64 {
    let number = |p: &Point| p.get(knob.name.as_ref()).and_then(|text| magnitude(text));
    let Some(own) = number(point) else { return 0.0 };
    let mut all: Vec<f64> = points.iter().filter_map(|p| number(&p.point)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let cheaper = match knob.cost {
        Cost::Rising => all.iter().filter(|v| **v < own).count(),
        Cost::Falling => all.iter().filter(|v| **v > own).count(),
        Cost::None => 0,
    };
    cheaper as f64
}

/// The size of a knob's value: a number, or a duration in seconds.
pub(super) fn magnitude(text: &str) -> Option<f64> {
    let plain: f64 = match text.replace('_', "").parse() {
        Ok(number) => number,
        Err(_) => text.parse::<jiff::SignedDuration>().ok()?.as_secs_f64(),
    };
    plain.is_finite().then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_have_a_size_and_words_have_none() {
        assert_eq!(magnitude("1_000"), Some(1000.0));
        assert_eq!(magnitude("500ms"), Some(0.5));
        assert_eq!(magnitude("30s"), Some(30.0));
        assert_eq!(magnitude("uniform"), None);
        assert_eq!(magnitude("NaN"), None);
    }

    #[test]
    fn settings_are_chosen_and_conditions_are_met() {
        assert!(is_choice("pipeline.sync.batch") && is_choice("pace.clients"));
        assert!(!is_choice("workload.script") && !is_choice("pace.rate"));
    }

    #[test]
    fn the_front_holds_what_nothing_beats_in_both() {
        let cells: Vec<Cell> = [90.0, 100.0, 80.0, 95.0]
            .iter()
            .enumerate()
            .map(|(point, &value)| Cell { point, block: 1, value })
            .collect();
        let times = [3.0, 7.0, 5.0, 7.5];
        let candidates: Vec<Candidate> = times
            .iter()
            .enumerate()
            .map(|(point, &t)| Candidate { point, cost: 0.0, latency: Some(t), resource: None })
            .collect();
        assert_eq!(front(&candidates, &paired::fit(&cells)), [0, 1]);
    }
}
