//! How a run ends as an exit code.

use crate::error::Exit;
use crate::record::{Metric, Model, Outcome, Run, Trial, Verdict, name};

/// The exit code of a run, from its records alone.
pub fn exit(run: &Run, trials: &[Trial]) -> Exit {
    let mut exit = if run.interrupted { Exit::Interrupted } else { Exit::Ok };
    for trial in trials {
        if matches!(trial.verdict, Verdict::Differs { .. }) {
            exit = exit.worse(Exit::Differs);
        }
        if matches!(trial.outcome, Outcome::Aborted { .. } | Outcome::Invalid { .. }) {
            exit = exit.worse(Exit::TrialFailed);
        }
        let limits = run.tasks.iter().find(|t| t.name == trial.task).map(|t| &t.limits);
        if let Some(limit) = limits.and_then(|limits| limits.lag_p99_s)
            && trial.model == Model::Stream
        {
            exit = exit.worse(of_limit(trial, limit));
        }
    }
    exit
}

/// A limit is missed by lag above it or by a rate that was not kept up with; a trial that does not
/// tell, such as a generator-bound one, has failed to test it.
fn of_limit(trial: &Trial, limit_s: f64) -> Exit {
    let lag = trial.metric(name::LAG_MARKER).and_then(Metric::as_histogram);
    let p99 = lag.and_then(|lag| lag.quantile(0.99)).map(|us| us as f64 / 1e6);
    let kept_up = !matches!(trial.outcome, Outcome::Bounded { .. } | Outcome::Saturated { .. });
    match (kept_up && p99.is_none_or(|p99| p99 <= limit_s), trial.counts()) {
        (false, _) => Exit::LimitMissed,
        (true, false) => Exit::TrialFailed,
        (true, true) => Exit::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Point, example};

    /// The exit of a run of one stream trial and another that ended well.
    fn exit_of(outcome: Outcome, verdict: Verdict, limit: Option<f64>, interrupted: bool) -> Exit {
        let mut task = example::task("lag", Model::Stream, None, &[]);
        task.limits.lag_p99_s = limit;
        let mut trial = example::trial(&task, &Point::new(), 1, 1);
        let mut good = example::trial(&task, &Point::new(), 2, 2);
        (good.outcome, good.verdict) = (Outcome::Sustained { rate: 1.0 }, equal());
        (trial.outcome, trial.verdict) = (outcome, verdict);
        let mut run = example::run(vec![task]);
        run.interrupted = interrupted;
        exit(&run, &[trial, good])
    }

    fn equal() -> Verdict {
        Verdict::Equal { tables: 1, rows: 1 }
    }

    fn differs() -> Verdict {
        Verdict::Differs { missing: 1, surplus: 0, changed: 0, examples: Vec::new() }
    }

    fn aborted() -> Outcome {
        Outcome::Aborted { reason: "it died".to_owned() }
    }

    fn bounded() -> Outcome {
        Outcome::Bounded { reason: "lag".to_owned() }
    }

    #[test]
    fn one_trial_decides_and_the_worst_wins() {
        let sustained = || Outcome::Sustained { rate: 1.0 };
        let invalid = || Outcome::Invalid { reason: "ops failed".to_owned() };
        for (outcome, verdict, limit, interrupted, expected) in [
            (sustained(), equal(), Some(1.0), false, Exit::Ok),
            (bounded(), equal(), None, false, Exit::Ok),
            (bounded(), equal(), Some(1.0), false, Exit::LimitMissed),
            (aborted(), equal(), Some(1.0), false, Exit::TrialFailed),
            (invalid(), equal(), None, false, Exit::TrialFailed),
            (sustained(), differs(), None, false, Exit::Differs),
            (bounded(), differs(), Some(1.0), false, Exit::Differs),
            (invalid(), differs(), None, false, Exit::Differs),
            (aborted(), differs(), None, true, Exit::Interrupted),
            (sustained(), equal(), None, true, Exit::Interrupted),
        ] {
            let told = format!("{outcome:?} {verdict:?} {limit:?} {interrupted}");
            assert_eq!(exit_of(outcome, verdict, limit, interrupted), expected, "{told}");
        }
    }
}
