//! What the results mean: a summary of each point, findings, the pick.
//!
//! Everything is made from records alone, so that a report can be made again from a run's folder.
//! Nothing that was not verified can be recommended. Words are chosen here, looks are not (`report`).

pub mod objective;
pub mod pick;
pub mod rules;
pub mod summary;
mod yaml;

use std::collections::BTreeMap;

use serde::Serialize;

pub use objective::Objective;
pub use pick::{Deviation, NoDifference, Pick};
pub use summary::{Distribution, PointSummary, Uncounted};

use crate::record::{Finding, Model, Run, TaskFacts, Trial};

/// What one task of a run showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TaskAdvice {
    /// Name of the task.
    pub task: String,
    /// What was timed.
    pub model: Model,
    /// What points are compared by.
    pub objective: Objective,
    /// What was emulated while the trials ran.
    pub emulated: BTreeMap<String, String>,
    /// Summary of each point, in the task's order.
    pub points: Vec<PointSummary>,
    /// Trials whose figures enter no average and no recommendation, each with its reason.
    pub uncounted: Vec<Uncounted>,
    /// The recommendation; `None` for a task of one point and where nothing may be recommended.
    pub pick: Option<Pick>,
    /// Why there is no pick where one could be expected.
    pub no_pick: Option<String>,
    /// The points cannot be told apart at this number of blocks.
    pub no_detectable_difference: Option<NoDifference>,
    /// Remarks, the gravest first.
    pub findings: Vec<Finding>,
    /// The pick as part of a DM task, to be pasted; `None` where no picked knob has a place there.
    pub dm_yaml: Option<String>,
}

/// What each task of the run showed, in the run's order.
pub fn advise(run: &Run, trials: &[Trial]) -> Vec<TaskAdvice> {
    run.tasks
        .iter()
        .map(|task| {
            let of_task: Vec<&Trial> = trials.iter().filter(|t| t.task == task.name).collect();
            advise_task(run, task, &of_task)
        })
        .collect()
}

fn advise_task(run: &Run, task: &TaskFacts, trials: &[&Trial]) -> TaskAdvice {
    let objective = Objective::of(task);
    let points = summary::points(task, trials);
    let fit = pick::fit(&objective, &points, trials);
    let picked = pick::pick(task, &objective, &points, &fit);
    let scene = rules::Scene { run, task, trials, points: &points, fit: &fit, pick: &picked.pick };
    let findings = rules::findings(&scene);
    let dm_yaml = picked.pick.as_ref().and_then(|pick| yaml::of(task, pick));
    TaskAdvice {
        task: task.name.clone(),
        model: task.model,
        objective,
        emulated: summary::emulated(task, trials),
        uncounted: summary::uncounted(trials),
        pick: picked.pick,
        no_pick: picked.none_because,
        no_detectable_difference: picked.no_difference,
        findings,
        dm_yaml,
        points,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{
        Better, LabFacts, Level, Metric, Outcome, Replayed, Verdict, example, name,
    };

    fn of(run: &Run, trials: &[Trial]) -> TaskAdvice {
        advise(run, trials).pop().expect("one task")
    }

    fn picked(advice: &TaskAdvice) -> &str {
        let pick = advice.pick.as_ref().expect("a pick");
        &pick.point[example::WORKER_COUNT.name.as_ref()]
    }

    #[test]
    fn the_cheapest_point_close_to_the_best_is_picked_with_its_yaml() {
        let (run, trials) = example::worker_sweep();
        let advice = of(&run, &trials);
        assert_eq!(picked(&advice), "8");
        let pick = advice.pick.as_ref().expect("a pick");
        assert!(pick.settled, "{pick:?}");
        assert_eq!(pick.deviations.len(), 5);
        let yaml = advice.dm_yaml.expect("yaml");
        assert!(yaml.ends_with("syncers:\n  global:\n    worker-count: 8\n"), "{yaml}");
        assert!(yaml.contains("not a DM measurement"), "{yaml}");
        assert_eq!(advice.no_detectable_difference, None);
    }

    #[test]
    fn a_lone_tidb_server_is_told_apart_from_a_cluster_and_from_an_emulated_network() {
        let (mut run, trials) = example::worker_sweep();
        let lab = run.tasks[0].lab.as_mut().expect("a lab");
        let storage = (LabFacts::TARGET_STORAGE.to_owned(), "in one process".to_owned());
        lab.emulated = BTreeMap::from([storage]);
        let findings = of(&run, &trials).findings;
        let codes: Vec<&str> = findings.iter().map(|finding| finding.code.as_str()).collect();
        assert!(codes.contains(&"target-not-a-cluster"), "{codes:?}");
        assert!(!codes.contains(&"emulated-network"), "{codes:?}");
    }

    #[test]
    fn a_point_that_differs_or_was_not_checked_cannot_be_picked() {
        for verdict in [
            Verdict::Differs { missing: 1, surplus: 0, changed: 0, examples: vec![] },
            Verdict::Unchecked { reason: "no time left".to_owned() },
        ] {
            let (run, mut trials) = example::worker_sweep();
            for trial in trials.iter_mut().filter(|t| t.point.values().any(|v| v == "8")) {
                trial.verdict = verdict.clone();
            }
            let advice = of(&run, &trials);
            assert_eq!(picked(&advice), "16");
            assert!(
                advice
                    .pick
                    .expect("a pick")
                    .deviations
                    .iter()
                    .all(|d| d.point["pipeline.sync.worker-count"] != "8")
            );
            assert_eq!(advice.uncounted.len(), 3);
        }
    }

    #[test]
    fn one_trial_that_failed_bars_its_point() {
        let differs = Verdict::Differs { missing: 7, surplus: 0, changed: 0, examples: vec![] };
        let saturated = Outcome::Saturated { rate: 9_000.0, dimension: "rows/s".to_owned() };
        for damage in [
            &(|t: &mut Trial| t.verdict = differs.clone()) as &dyn Fn(&mut Trial),
            &|t: &mut Trial| t.outcome = saturated.clone(),
            &|t: &mut Trial| t.outcome = Outcome::Invalid { reason: "rows".to_owned() },
            &|t: &mut Trial| t.outcome = Outcome::Bounded { reason: "p99".to_owned() },
        ] {
            let (run, mut trials) = example::worker_sweep();
            assert_eq!(picked(&of(&run, &trials)), "8");
            let one = trials.iter_mut().find(|t| t.point.values().any(|v| v == "8"));
            damage(one.expect("a trial of the pick"));
            assert_eq!(picked(&of(&run, &trials)), "16");
        }
    }

    #[test]
    fn a_saturated_point_cannot_be_picked_however_fast() {
        let (run, mut trials) = example::worker_sweep();
        for trial in trials.iter_mut().filter(|t| t.point.values().any(|v| v == "16")) {
            trial.outcome = Outcome::Saturated { rate: 99_000.0, dimension: "rows/s".to_owned() };
        }
        for trial in trials.iter_mut().filter(|t| t.point.values().any(|v| v == "8")) {
            trial.outcome = Outcome::GeneratorBound { reason: "no".to_owned() };
        }
        let advice = of(&run, &trials);
        assert_eq!(picked(&advice), "4");
        assert!(advice.findings.iter().any(|f| f.code == "saturated"));
        assert!(advice.findings.iter().any(|f| f.code == "generator-bound"));
    }

    #[test]
    fn nothing_counted_gives_no_pick_but_says_why() {
        let (run, mut trials) = example::worker_sweep();
        trials.iter_mut().for_each(|t| t.outcome = Outcome::Aborted { reason: "x".to_owned() });
        let advice = of(&run, &trials);
        assert_eq!(advice.pick, None);
        assert!(advice.no_pick.expect("a reason").contains("no trial"));
        let empty = of(&run, &[]);
        assert_eq!((empty.pick, empty.uncounted.len(), empty.points.len()), (None, 0, 5));
    }

    /// What `--resume` makes again it says, and of what it keeps it does not.
    #[test]
    fn aborted_trials_are_told_from_invalid_ones() {
        let (run, mut trials) = example::worker_sweep();
        trials[0].outcome = Outcome::Aborted { reason: "it died".to_owned() };
        trials[1].outcome = Outcome::Invalid { reason: "3 ops failed".to_owned() };
        let findings = of(&run, &trials).findings;
        let found = |code: &str| findings.iter().find(|f| f.code == code).expect("found");
        let (aborted, invalid) = (found("aborted"), found("invalid"));
        assert!(aborted.evidence.starts_with("1 of ") && aborted.evidence.ends_with(": it died"));
        assert!(aborted.hint.contains("--resume makes them again"), "{aborted:?}");
        assert!(invalid.evidence.starts_with("1 of ") && invalid.evidence.ends_with("ops failed"));
        assert!(invalid.hint.contains("--resume keeps them"), "{invalid:?}");
    }

    #[test]
    fn retries_are_told_by_class_and_what_they_mean() {
        let (run, mut trials) = example::worker_sweep();
        let of_trial = |conflict: f64, connection: f64| {
            let each = [("", conflict + connection), (".conflict", conflict)];
            each.into_iter().chain([(".connection", connection), (".busy", 0.0)]).map(
                |(class, count)| {
                    let name = format!("{}{class}", name::SYNC_RETRIES);
                    Metric::number(&name, "transactions", Better::Lower, count)
                },
            )
        };
        let told = |trials: &[Trial]| {
            of(&run, trials).findings.into_iter().find(|f| f.code == "sync-retries")
        };
        trials[0].metrics.extend(of_trial(0.0, 0.0));
        assert_eq!(told(&trials), None);
        trials[1].metrics.extend(of_trial(3.0, 0.0));
        let found = told(&trials).expect("told");
        assert!(found.evidence.starts_with("3 retries in 1 of 15 trials"), "{found:?}");
        assert!(found.evidence.ends_with("3 conflicts, 0 lost connections, 0 busy servers"));
        assert_eq!(found.level, Level::Note);
        trials[2].metrics.extend(of_trial(1.0, 2.0));
        let found = told(&trials).expect("told");
        assert!(found.evidence.starts_with("6 retries in 2 of 15 trials"), "{found:?}");
        assert_eq!(found.level, Level::Warning, "an outage is in the figures");
    }

    #[test]
    fn busy_cores_are_told_by_whose_servers_share_them() {
        let (mut run, mut trials) = example::worker_sweep();
        let machine = format!("{}.machine", name::CPU);
        let all = f64::from(run.machine.cores);
        for trial in &mut trials {
            trial.metrics.retain(|metric| metric.name != machine);
            trial.metrics.push(Metric::number(&machine, "cores", Better::Neither, all));
        }
        let mut text = |kind: &str| {
            run.tasks[0].lab.as_mut().expect("a lab").kind = kind.to_owned();
            let findings = of(&run, &trials).findings;
            findings.into_iter().find(|f| f.code == "cpu-saturated").expect("busy").text
        };
        assert!(text("sandbox").contains("source, pipeline and target share them"));
        let own = text(LabFacts::OWN);
        assert!(
            own.contains("the machine that dmbench runs on") && !own.contains("target"),
            "{own}"
        );
    }

    #[test]
    fn a_task_of_one_point_has_findings_but_no_pick() {
        let mut task = example::task("lag", Model::Stream, None, &[]);
        let on_servers = crate::record::Finding {
            level: Level::Warning,
            code: "preflight-clock".to_owned(),
            text: "source: the clock is off".to_owned(),
            evidence: String::new(),
            hint: String::new(),
        };
        task.findings.push(on_servers.clone());
        let trials = example::trials(&task, |_, _| example::stream_metrics(2_000.0, 30_000));
        let advice = of(&example::run(vec![task]), &trials);
        assert_eq!((advice.pick, advice.no_pick, advice.dm_yaml), (None, None, None));
        assert!(advice.findings.contains(&on_servers));
    }

    #[test]
    fn lag_that_is_not_shown_to_stand_still_is_told_with_its_bounds() {
        let task = example::task("lag", Model::Stream, None, &[]);
        let grown = |upper: Option<f64>| {
            let mut trials =
                example::trials(&task, |_, _| example::stream_metrics(2_000.0, 30_000));
            for trial in &mut trials {
                trial.metrics.retain(|metric| !metric.name.starts_with(name::LAG_SLOPE));
                let figures = [(name::LAG_SLOPE, Some(0.01)), (name::LAG_SLOPE_UPPER, upper)];
                trial.metrics.extend(figures.into_iter().filter_map(|(name, slope)| {
                    Some(Metric::number(name, "s/s", Better::Lower, slope?))
                }));
            }
            let findings = of(&example::run(vec![task.clone()]), &trials).findings;
            findings.into_iter().find(|f| f.code == "lag-growing").map(|f| f.evidence)
        };
        assert_eq!((grown(None), grown(Some(0.019))), (None, None));
        let told = grown(Some(0.021)).expect("told");
        assert!(told.starts_with("+0.010 s per second, at most +0.021 at 95 %"), "{told}");
    }

    #[test]
    fn equal_points_have_no_detectable_difference_and_the_cheapest_is_picked() {
        let task = example::task("wc", Model::Backlog, Some(&example::WORKER_COUNT), &[1, 2, 4, 8]);
        let trials = example::trials(&task, |at, block| {
            let noise = 1.0 + 0.01 * f64::from((at as u32 * 3 + block * 5) % 4);
            example::backlog_metrics(5_000.0 * noise, 20_000)
        });
        let advice = of(&example::run(vec![task]), &trials);
        assert_eq!(picked(&advice), "1");
        let none = advice.no_detectable_difference.expect("no difference");
        assert!(none.low < 1.0 && none.high > 1.0 && none.low > 0.9, "{none:?}");
    }

    #[test]
    fn a_point_that_misses_the_limit_cannot_be_picked() {
        let mut task = example::task("wc", Model::Stream, Some(&example::WORKER_COUNT), &[2, 4, 8]);
        task.limits.lag_p99_s = Some(0.5);
        let lags = [900_000, 100_000, 90_000];
        let trials = example::trials(&task, |at, _| example::stream_metrics(2_000.0, lags[at]));
        let advice = of(&example::run(vec![task]), &trials);
        assert_eq!(picked(&advice), "4");
        assert!(advice.findings.iter().any(|f| f.code == "limit-missed"));
    }

    #[test]
    fn a_range_that_was_committed_again_is_told() {
        let (run, mut trials) = example::worker_sweep();
        let range = |to: u64, rows: u64| Replayed {
            from: "binlog.000002:157".to_owned(),
            to: format!("binlog.000002:{to}"),
            ops: 8_000,
            rows,
        };
        let level = |trials: &[Trial]| {
            let advice = of(&run, trials);
            advice.findings.iter().find(|f| f.code == "ranges-differ").map(|f| f.level)
        };
        trials.iter_mut().for_each(|t| t.replayed = Some(range(9_000, 8_000)));
        assert_eq!(level(&trials), None);
        trials[3].replayed = Some(range(9_004, 8_000));
        assert_eq!(level(&trials), Some(Level::Note), "the same ops, committed again");
        trials[3].replayed = Some(range(9_004, 8_001));
        assert_eq!(level(&trials), Some(Level::Warning));
    }

    #[test]
    fn what_was_emulated_is_told_by_the_trials_themselves() {
        let (run, mut trials) = example::worker_sweep();
        for (trial, ms) in trials.iter_mut().zip([2, 2, 5, 2]) {
            trial.emulated.insert("target-round-trip".to_owned(), format!("{ms} ms"));
        }
        assert_eq!(of(&run, &trials).emulated["target-round-trip"], "2 ms / 5 ms");
    }

    #[test]
    fn conditions_are_compared_but_not_recommended() {
        let knob = crate::record::Knob::new(
            "sandbox.target-round-trip",
            "ms",
            "0",
            None,
            crate::record::Cost::None,
            "round trip",
        );
        let task = example::task("rtt", Model::Backlog, Some(&knob), &[1, 5]);
        let trials = example::trials(&task, |_, _| example::backlog_metrics(5_000.0, 20_000));
        let advice = of(&example::run(vec![task]), &trials);
        assert_eq!(advice.pick, None);
        assert!(advice.no_pick.expect("why").contains("target-round-trip"));
        assert!(advice.points[1].estimates.contains_key(name::SYNC_ROWS_RATE));
    }
}
