//! Each point in one row: how many trials, how they ended, and estimates of every metric.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::objective::import_rate;
use crate::record::{Outcome, Point, TaskFacts, Trial, Value, Verdict, name, resolution_us};
use crate::stats::{Estimate, Histogram, estimate};

/// A distribution in the figures that people read, in the metric's units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Distribution {
    /// Observations, of all trials together.
    pub n: u64,
    /// Smallest.
    pub min: Option<u64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Distribution {
        Distribution {
            n: histogram.n(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: histogram.quantile(0.5),
            p95: histogram.quantile(0.95),
            p99: histogram.quantile(0.99),
            max: histogram.max(),
        }
    }
}

/// What the trials of one point showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PointSummary {
    /// Which point.
    pub point: Point,
    /// The same for people, such as `worker-count 8`; empty where no knob varies.
    pub label: String,
    /// Trials that were made.
    pub trials: u32,
    /// Trials that count.
    pub counted: u32,
    /// Whether the estimates come from trials that do *not* count, because none does.
    pub from_uncounted: bool,
    /// How many trials had which verdict.
    pub verdicts: BTreeMap<String, u32>,
    /// How many trials had which outcome.
    pub outcomes: BTreeMap<String, u32>,
    /// Estimate of each number metric over trials.
    pub estimates: BTreeMap<String, Estimate>,
    /// Distribution of each histogram metric, all trials merged.
    pub distributions: BTreeMap<String, Distribution>,
    /// Clock of each metric that names one.
    pub clocks: BTreeMap<String, String>,
    /// The merged histograms themselves.
    #[serde(skip)]
    pub histograms: BTreeMap<String, Histogram>,
}

impl PointSummary {
    /// Whether in any trial rows differed, the pipeline did not finish or keep up, a limit was
    /// exceeded, or the counts of rows did not agree. Such a setting is never recommended, however
    /// well its other trials went: merged with theirs, the excess of one trial may not show.
    pub fn failed_once(&self) -> bool {
        let failures = ["saturated", "bounded", "invalid"];
        self.verdicts.contains_key("differs")
            || failures.iter().any(|outcome| self.outcomes.contains_key(*outcome))
    }

    /// Value of a number metric's estimate.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.estimates.get(metric).map(|e| e.value)
    }

    /// A quantile of a histogram metric.
    pub fn quantile(&self, metric: &str, quantile: f64) -> Option<u64> {
        self.histograms.get(metric)?.quantile(quantile)
    }

    /// CPU cores that the whole machine used; `None` where that was not observed.
    pub fn machine_cores_used(&self) -> Option<f64> {
        self.value(&format!("{}.machine", name::CPU))
    }

    /// CPU cores that all observed processes used together; `None` where none was observed.
    pub fn cores_used(&self) -> Option<f64> {
        let of_process = |metric: &str| {
            metric.split_once('.').is_some_and(|(of, who)| of == name::CPU && who != "machine")
        };
        let each: Vec<f64> = self
            .estimates
            .iter()
            .filter(|(metric, _)| of_process(metric))
            .map(|(_, e)| e.value)
            .collect();
        (!each.is_empty()).then(|| each.iter().sum())
    }
}

/// A trial that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Uncounted {
    /// Name of its record without the ending.
    pub trial: String,
    /// Its point, for people.
    pub label: String,
    /// Its block.
    pub block: u32,
    /// Word of its outcome.
    pub outcome: String,
    /// Word of its verdict.
    pub verdict: String,
    /// Why it does not count.
    pub why: String,
}

/// A point for people: the last word of each knob with its value.
pub fn label(point: &Point) -> String {
    let words: Vec<String> = point
        .iter()
        .map(|(knob, value)| format!("{} {value}", knob.rsplit('.').next().unwrap_or(knob)))
        .collect();
    words.join(", ")
}

/// A summary of each point of the task, and of points that only its trials have.
pub fn points(task: &TaskFacts, trials: &[&Trial]) -> Vec<PointSummary> {
    let mut points = task.points.clone();
    for trial in trials {
        if !points.contains(&trial.point) {
            points.push(trial.point.clone());
        }
    }
    points.iter().map(|point| summarize(point, trials)).collect()
}

fn summarize(point: &Point, trials: &[&Trial]) -> PointSummary {
    let all: Vec<&Trial> = trials.iter().copied().filter(|t| t.point == *point).collect();
    let counted: Vec<&Trial> = all.iter().copied().filter(|t| t.counts()).collect();
    let shown = if counted.is_empty() { &all } else { &counted };
    let mut summary = PointSummary {
        point: point.clone(),
        label: label(point),
        trials: all.len() as u32,
        counted: counted.len() as u32,
        from_uncounted: counted.is_empty() && shown.iter().any(|t| !t.metrics.is_empty()),
        verdicts: words(all.iter().map(|t| t.verdict.word())),
        outcomes: words(all.iter().map(|t| t.outcome.word())),
        estimates: BTreeMap::new(),
        distributions: BTreeMap::new(),
        clocks: BTreeMap::new(),
        histograms: BTreeMap::new(),
    };
    add_metrics(&mut summary, shown);
    summary
}

/// What was emulated while the trials of a task ran: each trial's own words where they differ.
pub fn emulated(task: &TaskFacts, trials: &[&Trial]) -> BTreeMap<String, String> {
    let mut each: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (what, how) in trials.iter().flat_map(|t| &t.emulated) {
        each.entry(what.clone()).or_default().insert(how);
    }
    if each.is_empty() {
        return task.lab.as_ref().map(|lab| lab.emulated.clone()).unwrap_or_default();
    }
    let joined = |hows: BTreeSet<&str>| Vec::from_iter(hows).join(" / ");
    each.into_iter().map(|(what, hows)| (what, joined(hows))).collect()
}

fn add_metrics(summary: &mut PointSummary, trials: &[&Trial]) {
    let mut numbers: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for metric in trials.iter().flat_map(|t| &t.metrics) {
        match &metric.value {
            Value::Number(number) => numbers.entry(metric.name.clone()).or_default().push(*number),
            Value::Histogram(h) => {
                summary.histograms.entry(metric.name.clone()).or_default().merge(h);
            }
        }
        if !metric.clock.is_empty() {
            // Of several trials the coarsest clock speaks for all.
            let known = summary.clocks.entry(metric.name.clone()).or_default();
            if known.is_empty() || resolution_us(&metric.clock) > resolution_us(known) {
                known.clone_from(&metric.clock);
            }
        }
    }
    if !numbers.contains_key(name::IMPORT_ROWS_RATE) {
        let derived: Vec<f64> = trials.iter().filter_map(|t| import_rate(t)).collect();
        numbers.insert(name::IMPORT_ROWS_RATE.to_owned(), derived);
    }
    summary.estimates = numbers
        .into_iter()
        .filter_map(|(metric, values)| Some((metric, estimate::of(&values)?)))
        .collect();
    summary.distributions =
        summary.histograms.iter().map(|(metric, h)| (metric.clone(), h.into())).collect();
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(word.to_owned()).or_insert(0) += 1;
    }
    counts
}

/// Trials that do not count, each with its reason, in the order given.
pub fn uncounted(trials: &[&Trial]) -> Vec<Uncounted> {
    trials
        .iter()
        .filter(|t| !t.counts())
        .map(|t| Uncounted {
            trial: t.label(),
            label: label(&t.point),
            block: t.block,
            outcome: t.outcome.word().to_owned(),
            verdict: t.verdict.word().to_owned(),
            why: why_uncounted(t),
        })
        .collect()
}

fn why_uncounted(trial: &Trial) -> String {
    let of_outcome = match &trial.outcome {
        Outcome::GeneratorBound { reason }
        | Outcome::Aborted { reason }
        | Outcome::Invalid { reason } => Some(reason.clone()),
        Outcome::Saturated { .. } => Some("did not keep up, or did not finish in time".to_owned()),
        Outcome::Finished { .. } | Outcome::Sustained { .. } | Outcome::Bounded { .. } => None,
    };
    let of_verdict = match &trial.verdict {
        Verdict::Equal { .. } => None,
        Verdict::Unchecked { reason } => Some(format!("not verified: {reason}")),
        Verdict::Differs { missing, surplus, changed, examples } => {
            let example = examples.first().map(|e| format!(", such as {e}")).unwrap_or_default();
            Some(format!(
                "source and target differ: rows missing {missing}, surplus {surplus}, \
                 changed {changed}{example}"
            ))
        }
    };
    // A set keeps a reason that both give from standing twice.
    let reasons: BTreeSet<String> = of_outcome.into_iter().chain(of_verdict).collect();
    Vec::from_iter(reasons).join("; ")
}
