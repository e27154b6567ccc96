//! One run of one point, from fresh state to a record.
//!
//! A trial goes through phases, ends with an [`Outcome`] and a verdict, and always leaves a record:
//! an error or Ctrl-C ends the trial, not the sweep. Which points run in which order is the sweep's
//! business.

mod backlog;
mod bench;
mod bulk;
mod draft;
mod drive;
mod error;
mod judge;
mod phases;
pub mod preflight;
mod replica;
mod settle;
mod stream;
pub mod verify;
mod vigil;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use bench::Bench;
pub use draft::Seat;
pub use error::Error;

use crate::mysql::hint;
use crate::mysql::patience::{Patience, RETRY_LIMIT};
use crate::pipeline::Progress;
use crate::record::{Better, Level, Metric, Model, Outcome, Trial, Verdict, name};
use crate::task::Task;
use crate::workload::Driven;
use draft::Draft;
use replica::UnitEnd;

/// Runs one trial of a task whose values are already those of the seat's point. `samples` is where
/// its time series goes.
pub async fn run(
    bench: &mut Bench,
    task: &Task,
    seat: &Seat,
    samples: PathBuf,
    cancel: &CancellationToken,
) -> Trial {
    let events = bench.events.clone();
    let mut draft = Draft::begin(&events, &bench.gauges);
    draft.configuration = task.configuration();
    if bench.lab.is_own() {
        // It describes private servers, and these are none.
        draft.configuration.retain(|key, _| !key.starts_with("sandbox."));
    }
    draft.emulated = bench.lab.emulated.clone();
    let vigil = vigil::Vigil::begin(&bench.lab);
    // What is dropped half done leaves nothing running: pipelines die with their handle.
    let result = tokio::select! {
        biased;
        result = Box::pin(by_model(bench, task, &mut draft, samples, cancel)) => result,
        loss = vigil.loss() => Err(loss),
    };
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(_) if cancel.is_cancelled() => {
            let phase = draft.interrupted_in.unwrap_or(draft.phase());
            Outcome::Aborted { reason: format!("interrupted in phase {}", phase.word()) }
        }
        // The source's input stays: whatever writes the source forgets it first.
        Err(error) => draft.abort(&vigil.cause(error).await),
    };
    draft.into_trial(seat, task.model, task.repeat.seed, outcome)
}

async fn by_model(
    bench: &mut Bench,
    task: &Task,
    draft: &mut Draft,
    samples: PathBuf,
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    match task.model {
        Model::Bulk => bulk::run(bench, task, draft, cancel).await,
        Model::Backlog => backlog::run(bench, task, draft, cancel).await,
        Model::Stream => stream::run(bench, task, draft, samples, cancel).await,
        Model::Drive => drive::run(bench, task, draft, cancel).await,
        Model::Sustain => Err(Error::Unfit {
            model: "sustain",
            why: "the search for a sustained rate is not part of this version".to_owned(),
        }),
    }
}

/// Does a step of a trial, and again while it fails for a reason that may pass, for [`RETRY_LIMIT`].
/// Only for steps that may be done twice.
async fn again<T>(
    cancel: &CancellationToken,
    mut step: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut patience = Patience::new(RETRY_LIMIT);
    loop {
        let error = match step().await {
            Err(error) if !cancel.is_cancelled() => error,
            done => return done,
        };
        tracing::info!("failed to {error}; it is tried again where that may help");
        tokio::select! {
            allowed = patience.allows(error.class()) => if !allowed {
                return Err(error);
            },
            () = cancel.cancelled() => return Err(Error::Interrupted),
        }
    }
}

/// Compares both ends and keeps the verdict.
async fn verify_ends(
    bench: &Bench,
    draft: &mut Draft,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    let (source, target) = bench.ends();
    let schemas = [bench.schema.clone()];
    draft.verdict = Verdict::Unchecked { reason: "the comparison did not end".to_owned() };
    draft.verdict = again(cancel, async || {
        Ok(verify::compare(source, target, &schemas, &[], &bench.events, cancel).await?)
    })
    .await?;
    if cancel.is_cancelled() && matches!(draft.verdict, Verdict::Unchecked { .. }) {
        return Err(Error::Interrupted);
    }
    Ok(())
}

/// Figures of the sync unit as a whole.
fn sync_metrics(draft: &mut Draft, end: &UnitEnd, last: &Progress) {
    const WHOLE: &str = "the whole unit, from its start to its end";
    draft.metrics.extend([
        Metric::histogram(name::SYNC_TRANSACTION, "us", Better::Lower, end.transaction.clone())
            .with_clock(WHOLE),
        Metric::histogram(name::TARGET_STATEMENT, "us", Better::Lower, end.statement.clone())
            .with_clock(WHOLE),
    ]);
    for (name, n) in [
        (name::SYNC_ROWS_PER_TRANSACTION, end.transaction.n()),
        (name::SYNC_ROWS_PER_STATEMENT, end.statements),
    ] {
        if n > 0 {
            let rows = end.rows as f64 / n as f64;
            let metric = Metric::number(name, "rows", Better::Higher, rows);
            draft.metrics.push(metric.with_n(n).with_clock(WHOLE));
        }
    }
    if end.rows > 0 {
        let conflicts = last.conflicts as f64 * 1_000.0 / end.rows as f64;
        draft.metrics.push(
            Metric::number(name::SYNC_CONFLICTS, "per 1,000 rows", Better::Lower, conflicts)
                .with_n(last.conflicts)
                .with_clock(WHOLE),
        );
    }
}

/// Bytes of binlog over a window, as a rate of this name.
fn bytes_rate(name: &str, bytes: u64, window: Duration) -> Metric {
    let rate = bytes as f64 / 1e6 / window.as_secs_f64();
    Metric::number(name, "MB/s of binlog", Better::Higher, rate).with_window(window)
}

/// Transactions that sync tried again, up to this reading, with the last reason as a finding.
fn retry_metrics(draft: &mut Draft, last: &Progress) {
    let retries = &last.retries;
    for (name, count) in [
        (name::SYNC_RETRIES, retries.total()),
        (name::SYNC_RETRIES_CONFLICT, retries.conflict),
        (name::SYNC_RETRIES_CONNECTION, retries.connection),
        (name::SYNC_RETRIES_BUSY, retries.busy),
    ] {
        let metric = Metric::number(name, "transactions", Better::Lower, count as f64);
        draft.metrics.push(metric.with_n(last.transactions));
    }
    if retries.total() > 0 {
        let trouble = last.trouble.as_deref().unwrap_or("no reason was given");
        draft.find(
            Level::Note,
            "sync-retries",
            "transactions of sync were tried again".to_owned(),
            format!("the last because: {trouble}"),
            hint(trouble).unwrap_or_default(),
        );
    }
}

/// Figures of the workload within the window.
fn drive_metrics(draft: &mut Draft, driven: &Driven) {
    let seconds = driven.window.as_secs_f64();
    if seconds > 0.0 {
        let rate = |name: &str, better: Better, ops: u64| {
            Metric::number(name, "ops/s", better, ops as f64 / seconds)
                .with_n(ops)
                .with_window(driven.window)
        };
        draft.metrics.extend([
            rate(name::OFFERED, Better::Neither, driven.window_offered),
            rate(name::ACHIEVED, Better::Higher, driven.window_committed),
        ]);
    }
    for (name, ops, always) in [
        (name::FAILED_OPS, driven.failed_ops(), true),
        (name::UNKNOWN_OPS, driven.unknown_ops, false),
        (name::DROPPED_OPS, driven.dropped_ops, false),
        (name::ABANDONED_OPS, driven.abandoned_ops, false),
    ] {
        if always || ops > 0 {
            let metric = Metric::number(name, "ops", Better::Lower, ops as f64);
            draft.metrics.push(metric.with_n(driven.offered_ops));
        }
    }
    for (name, histogram) in [
        (name::DELAY, &driven.delay),
        (name::SERVICE, &driven.service),
        (name::RESPONSE, &driven.response),
    ] {
        draft.metrics.push(
            Metric::histogram(name, "us", Better::Lower, histogram.clone())
                .with_window(driven.window)
                .with_clock("the generator's monotonic clock, ops due in the window"),
        );
    }
}
