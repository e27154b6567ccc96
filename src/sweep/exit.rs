//! How a run ends as an exit code.

use crate::error::Exit;
use crate::record::{Model, Outcome, Run, Trial, Verdict};

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
        let limited = limits.is_some_and(|limits| limits.lag_p99_s.is_some());
        let missed = matches!(trial.outcome, Outcome::Bounded { .. } | Outcome::Saturated { .. });
        if limited && trial.model == Model::Stream && missed {
            exit = exit.worse(Exit::LimitMissed);
        }
    }
    exit
}
