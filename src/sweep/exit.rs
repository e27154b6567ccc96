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
