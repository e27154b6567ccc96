//! Rules on what limits the figures and which knob to turn next.

use super::{Scene, each_point, finding, how_many};
use crate::advise::pick::{is_choice, magnitude};
use crate::advise::summary::emulated;
use crate::record::{Cost, Finding, LabFacts, Level, Model, Trial, name};

/// Share of the machine's cores from which on it counts as busy.
const BUSY: f64 = 0.9;
/// Share of the machine's cores that others may use unremarked.
const OTHERS: f64 = 0.2;
/// Conflicts per 1,000 row changes from which on workers wait for one another.
const CONFLICTS: f64 = 10.0;
/// Rows in one statement below which round trips rather than rows set the speed of load.
const ROWS_PER_STATEMENT: f64 = 200.0;

pub(super) fn cpu_saturated(scene: &Scene) -> Option<Finding> {
    let cores = f64::from(scene.run.machine.cores);
    let evidence = each_point(scene, |p| {
        let used = p.machine_cores_used().or(p.cores_used())?;
        (used >= BUSY * cores).then(|| format!("{used:.1} of {cores:.0} cores"))
    })?;
    let is_own = scene.task.lab.as_ref().is_some_and(|lab| lab.kind == LabFacts::OWN);
    let (text, hint) = match (is_own, scene.task.model) {
        (false, Model::Drive) => (
            "the machine's cores were all busy: the server and its clients share them, so compare \
             points with each other, not with other machines",
            "the table shows each process's cores; an own server on another machine lifts this limit",
        ),
        (false, _) => (
            "the machine's cores were all busy: source, pipeline and target share them, so compare \
             points with each other, not with other machines",
            "the table shows each process's cores; own servers on machines of their own lift this \
             limit",
        ),
        (true, _) => (
            "the cores of the machine that dmbench runs on were all busy: the figures may be limited \
             by it, not by your servers",
            "the table shows the cores of dmbench's own processes; run it where more are free, and no \
             server beside it",
        ),
    };
    finding(Level::Warning, "cpu-saturated", text, evidence, hint)
}

/// Work of others on the machine, told from the machine's CPU time and that of the processes watched.
pub(super) fn other_load(scene: &Scene) -> Option<Finding> {
    let cores = f64::from(scene.run.machine.cores);
    let evidence = each_point(scene, |p| {
        let watched = ["source", "generator"];
        if !watched.iter().all(|w| p.estimates.contains_key(&format!("{}.{w}", name::CPU))) {
            return None;
        }
        let others = p.machine_cores_used()? - p.cores_used()?;
        (others > OTHERS * cores).then(|| format!("{others:.1} of {cores:.0} cores"))
    })?;
    finding(
        Level::Warning,
        "other-load",
        "something else was at work on the machine",
        evidence,
        "repeat on a quiet machine; more blocks spread what cannot be avoided",
    )
}

pub(super) fn conflicts_high(scene: &Scene) -> Option<Finding> {
    let evidence = each_point(scene, |p| {
        let conflicts = p.value(name::SYNC_CONFLICTS).filter(|c| *c > CONFLICTS)?;
        Some(format!("{conflicts:.1} per 1,000 row changes"))
    })?;
    finding(
        Level::Warning,
        "conflicts-high",
        "changes of the same keys make all workers wait for one another",
        evidence,
        "more workers do not help here; a larger batch makes each wait longer",
    )
}

/// What was tried again is in a trial's rate and lag; a transaction's time is that of its last try.
pub(super) fn sync_retries(scene: &Scene) -> Option<Finding> {
    let number = |t: &Trial, metric: &str| t.number(metric).unwrap_or(0.0);
    let retried = |t: &&Trial| number(t, name::SYNC_RETRIES) > 0.0;
    let those: Vec<&Trial> = scene.trials.iter().copied().filter(retried).collect();
    if those.is_empty() {
        return None;
    }
    let sum = |metric: &str| those.iter().map(|t| number(t, metric)).sum::<f64>();
    let last = those.iter().rev().flat_map(|t| &t.findings).find(|f| f.code == "sync-retries");
    let why = last.map(|f| format!("; {}", f.evidence)).unwrap_or_default();
    let lost = sum(name::SYNC_RETRIES_CONNECTION);
    finding(
        if lost > 0.0 { Level::Warning } else { Level::Note },
        "sync-retries",
        "transactions of sync were tried again: rates and lag hold the time that took, the \
         transactions' own times do not",
        format!(
            "{:.0} retries in {}: {:.0} conflicts, {lost:.0} lost connections, {:.0} busy \
             servers{why}",
            sum(name::SYNC_RETRIES),
            how_many(scene, &those),
            sum(name::SYNC_RETRIES_CONFLICT),
            sum(name::SYNC_RETRIES_BUSY),
        ),
        last.map_or("", |f| f.hint.as_str()),
    )
}

pub(super) fn rows_per_statement_low(scene: &Scene) -> Option<Finding> {
    let evidence = each_point(scene, |p| {
        let rows = p.value(name::LOAD_ROWS_PER_STATEMENT).filter(|r| *r < ROWS_PER_STATEMENT)?;
        Some(format!("{rows:.0} rows"))
    })?;
    finding(
        Level::Note,
        "rows-per-statement-low",
        "each INSERT of the import carries few rows, so round trips set its speed",
        evidence,
        "raise dump.statement-size; DM advises 1,000 to 5,000 rows in a statement",
    )
}

/// The best rate at the largest value tried: the range may end too early.
pub(super) fn best_at_edge(scene: &Scene) -> Option<Finding> {
    let pick = scene.pick.as_ref()?;
    // Where a smaller value is as good, the range is wide enough.
    if pick.point != pick.best {
        return None;
    }
    let knob = scene.task.knobs.iter().find(|knob| {
        let value = |p: &crate::record::Point| p.get(knob.name.as_ref()).and_then(|v| magnitude(v));
        let all: Vec<f64> = scene.task.points.iter().filter_map(value).collect();
        let edge = match knob.cost {
            Cost::Falling => all.iter().copied().fold(f64::INFINITY, f64::min),
            Cost::Rising | Cost::None => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        let varies = all.iter().any(|v| *v != edge);
        is_choice(&knob.name) && varies && value(&pick.best) == Some(edge)
    })?;
    finding(
        Level::Note,
        "best-at-edge",
        format!(
            "the best value of {} is the last one tried; a further one may be better",
            knob.name
        ),
        format!("best: {}", pick.best_label),
        "add further values to the knob's range",
    )
}

pub(super) fn emulated_network(scene: &Scene) -> Option<Finding> {
    let emulated = emulated(scene.task, scene.trials);
    let network = emulated.iter().filter(|(what, _)| what.as_str() != LabFacts::TARGET_STORAGE);
    let each: Vec<String> = network.map(|(what, how)| format!("{what} {how}")).collect();
    if each.is_empty() {
        return None;
    }
    finding(
        Level::Note,
        "emulated-network",
        "the network between pipeline and servers is emulated on one machine",
        each.join("; "),
        "",
    )
}

/// A `tidb-server` alone is TiDB without what makes a cluster's commits slow and its writes scale.
pub(super) fn no_cluster(scene: &Scene) -> Option<Finding> {
    let storage = scene.task.lab.as_ref()?.emulated.get(LabFacts::TARGET_STORAGE)?;
    finding(
        Level::Warning,
        "target-not-a-cluster",
        "the target is TiDB in one process: compare points with each other, and expect other figures \
         and another best point of a cluster",
        format!("storage: {storage}"),
        "a target-round-trip stands for a cluster's distance, not for its commits",
    )
}
