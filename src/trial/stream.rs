//! Model `stream`: the workload writes at its pace while sync applies, and lag is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::mysql::{Position, Session};
use crate::pipeline::builtin::checkpoint;
use crate::pipeline::{self, Progress, Start};
use crate::probe::{Sampler, marker};
use crate::record::{Better, Level, Metric, Outcome, Phase, Verdict, name};
use crate::task::Task;
use crate::trial::bench::{Bench, settings};
use crate::trial::draft::Draft;
use crate::trial::judge::{Evidence, Growth, judge};
use crate::trial::replica::{self, Replica};
use crate::trial::watch::{Watched, watch};
use crate::trial::{
    Error, again, bytes_rate, drive_metrics, retry_metrics, settle, sync_metrics, verify_ends,
};
use crate::workload::{self, Counters, Driven, PaceKind};

/// Marker transactions are planned as at most this share of the offered ones. They may be 1 % of the
/// committed ones, and not all that is offered is committed, nor does Poisson offer exactly its rate.
const MARKER_SHARE: f64 = 0.008;
/// How long a trial may still drain after Ctrl-C.
const INTERRUPTED_DRAIN: Duration = Duration::from_secs(10);

pub(super) async fn run(
    bench: &mut Bench,
    task: &Task,
    draft: &mut Draft,
    samples: std::path::PathBuf,
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    let from = prepare(bench, task, draft, cancel).await?;
    let idle = matches!(task.pipeline, pipeline::Settings::Idle {});
    let pipeline = bench.pipeline(&task.pipeline, "trial", &bench.scratch, false);
    let mut replica = Replica::start(pipeline, Start::Incremental { from }, false).await?;
    if !idle {
        replica.ready(cancel).await?;
    }
    draft.phases.enter(Phase::Settle, None);
    settle::rest(&bench.lab, cancel).await?;

    let counters = Arc::new(Counters::default());
    let watched = Watched {
        process: replica.process_id(),
        progress: Some(replica.progress()),
        counters: Some(Arc::clone(&counters)),
        marker_interval: (!idle).then(|| marker_interval(task)),
        checkpoint_table: (!idle).then(|| checkpoint::table_name("trial")),
        samples: Some(samples),
    };
    draft.phases.enter(Phase::Warm, Some(task.phases.warm));
    let mut sampler = watch(bench, &watched).await?;
    let life = CancellationToken::new();
    let (driven, window) = load(bench, task, draft, &replica, &sampler, &counters, cancel).await?;
    let stopped = Instant::now();
    // Nothing is written to the source after the last marker.
    sampler.end_markers().await;
    let source_end = bench.source_position(&life).await?;
    draft.source_end = Some(source_end.clone());
    if driven.interrupted {
        draft.interrupted_in = Some(draft.phase());
    }

    draft.phases.enter(Phase::Drain, Some(task.phases.drain_limit));
    let limit = task.phases.drain_limit;
    let reached = match idle {
        true => Ok(None),
        // Ctrl-C cuts it short without ending it: what was written before has yet to drain.
        false => briefly(replica.applied(&source_end, limit, &life), cancel).await,
    };
    let observed = sampler.stop().await;
    draft.metrics.extend(observed.metrics);
    draft.findings.extend(observed.findings);
    drive_metrics(draft, &driven);
    window.report(draft);
    let drain = reached?.map(|at| at.duration_since(stopped));
    if idle {
        draft.verdict =
            Verdict::Unchecked { reason: "pipeline idle replicates nothing".to_owned() };
        return idle_outcome(&driven);
    }
    draft.metrics.extend(drain.map(drain_metric));
    let last = replica.progress().borrow().clone();
    let end = briefly(replica.drain(limit, &life), cancel).await?;
    match &end {
        Some(end) => sync_metrics(draft, end, &last),
        None => draft.blame(&last),
    }
    let applied = end.map(|end| end.rows);
    retry_metrics(draft, &replica.progress().borrow());
    draft.note(replica.remarks());
    if cancel.is_cancelled() {
        draft.verdict = Verdict::Unchecked { reason: "interrupted".to_owned() };
        return Err(Error::Interrupted);
    }
    settle_up(bench, task, draft, &driven, observed.markers, (drain, applied), cancel).await
}

/// Makes both ends hold the workload's tables; returns the position to replicate from.
async fn prepare(
    bench: &mut Bench,
    task: &Task,
    draft: &mut Draft,
    cancel: &CancellationToken,
) -> Result<Position, Error> {
    draft.phases.enter(Phase::Provision, None);
    bench.clear_target(cancel).await?;
    draft.phases.enter(Phase::Seed, None);
    bench.spoil();
    bench.seed(task, cancel).await?;
    again(cancel, async || {
        let mut session = Session::connect(&bench.lab.source).await?;
        marker::create_table(&mut session, &bench.schema).await?;
        session.close().await;
        Ok(())
    })
    .await?;
    let (dump, from) = bench.dump(cancel).await?;
    bench.spoil();
    bench.restore(&dump, cancel).await?;
    Ok(from)
}

fn drain_metric(drain: Duration) -> Metric {
    Metric::number(name::DRAIN_TIME, "s", Better::Lower, drain.as_secs_f64()).with_clock(
        "from the workload's last answer until the source's end position was applied, progress \
         every 20 ms",
    )
}

/// Compares both ends and judges.
async fn settle_up(
    bench: &Bench,
    task: &Task,
    draft: &mut Draft,
    driven: &Driven,
    markers: u64,
    (drain, applied): (Option<Duration>, Option<u64>),
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    let committed = driven.effect.row_changes() + markers;
    draft.metrics.push(
        Metric::number(name::COMMITTED_ROWS, "rows", Better::Neither, committed as f64)
            .with_n(driven.committed_ops + markers),
    );
    if let Some(applied) = applied {
        draft.metrics.push(Metric::number(
            name::APPLIED_ROWS,
            "rows",
            Better::Neither,
            applied as f64,
        ));
    }
    if drain.is_some() {
        draft.phases.enter(Phase::Verify, None);
        verify_ends(bench, draft, cancel).await?;
    } else {
        draft.verdict = Verdict::Unchecked {
            reason: "the pipeline had not applied everything when the drain's limit passed"
                .to_owned(),
        };
    }
    if driven.unknown_ops > 0 {
        return Ok(Outcome::Invalid {
            reason: format!("the commit of {} ops is of unknown fate", driven.unknown_ops),
        });
    }
    if drain.is_some() && applied != Some(committed) {
        let applied = applied.map_or("nobody knows how many".to_owned(), |n| n.to_string());
        return Ok(Outcome::Invalid {
            reason: format!(
                "{committed} row changes were committed (markers included) and {applied} applied"
            ),
        });
    }
    Ok(weighed(task, draft, driven, drain))
}

/// The outcome by the figures alone, with what bears on it as findings.
fn weighed(task: &Task, draft: &mut Draft, driven: &Driven, drain: Option<Duration>) -> Outcome {
    let lag = draft.metrics.iter().find(|m| m.name == name::LAG_MARKER);
    let evidence = Evidence {
        offered_ops: driven.window_offered,
        committed_ops: driven.window_committed,
        failed_ops: driven.failed_ops(),
        window: driven.window,
        growth: draft
            .number(name::LAG_SLOPE_LOWER)
            .zip(draft.number(name::LAG_SLOPE_UPPER))
            .map(|(lower, upper)| Growth { lower, upper }),
        lag_p99_s: lag
            .and_then(Metric::as_histogram)
            .and_then(|h| h.quantile(0.99))
            .map(|us| us as f64 / 1e6),
        drain,
        flush_interval: match &task.pipeline {
            pipeline::Settings::Builtin(s) => s.sync.checkpoint_flush_interval,
            pipeline::Settings::Idle {} => Duration::ZERO,
        },
    };
    let needed = evidence.window_needed();
    if driven.window < needed {
        draft.find(
            Level::Note,
            "window-short",
            "the window is too short to prove a sustained rate".to_owned(),
            format!(
                "{:.0} s measured; 60 s and 4 checkpoint-flush-intervals, here {:.0} s, needed",
                driven.window.as_secs_f64(),
                needed.as_secs_f64()
            ),
            "set phases.measure to that or more",
        );
    }
    judge(&evidence, &task.limits)
}

/// Runs the workload and marks the window's begin and end on the sampler.
async fn load(
    bench: &Bench,
    task: &Task,
    draft: &mut Draft,
    replica: &Replica,
    sampler: &Sampler,
    counters: &Arc<Counters>,
    cancel: &CancellationToken,
) -> Result<(Driven, Window), Error> {
    let plan = workload::DrivePlan {
        settings: settings(task)?.clone(),
        pace: task.pace.clone(),
        schema: bench.schema.clone(),
        seed: task.repeat.seed,
        stop: workload::Stop { time: Some(task.phases.measure), ops: None },
        warm: task.phases.warm,
    };
    let drive = workload::drive(&plan, &bench.lab.source, counters, &bench.events, cancel);
    tokio::pin!(drive);
    let progress = replica.progress();
    let mut window = Window::default();
    let measure = async {
        counters.started().await;
        tokio::time::sleep(task.phases.warm).await;
        window.begin(&progress.borrow());
        sampler.mark_window_begin();
        draft.phases.enter(Phase::Measure, Some(task.phases.measure));
        tokio::time::sleep(task.phases.measure).await;
        window.end(&progress.borrow());
        sampler.mark_window_end();
        std::future::pending::<()>().await;
    };
    let driven = tokio::select! {
        driven = &mut drive => driven?,
        () = measure => return Err(Error::Interrupted),
        error = replica::failure(replica.progress()) => return Err(error),
    };
    // The drive may end a little before the timer beside it: the window ends now, not with the drain.
    if window.is_open() {
        window.end(&progress.borrow());
        sampler.mark_window_end();
    }
    Ok((driven, window))
}

/// What sync had read and applied at the window's begin and end.
#[derive(Debug, Default)]
struct Window {
    began: Option<(Instant, Progress)>,
    ended: Option<(Instant, Progress)>,
}

impl Window {
    fn begin(&mut self, progress: &Progress) {
        self.began = Some((Instant::now(), progress.clone()));
    }

    fn end(&mut self, progress: &Progress) {
        self.ended = Some((Instant::now(), progress.clone()));
    }

    fn is_open(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    fn report(&self, draft: &mut Draft) {
        let (Some((from, first)), Some((to, last))) = (&self.began, &self.ended) else { return };
        let window = to.duration_since(*from);
        let rows = last.rows - first.rows;
        draft.metrics.extend([
            Metric::number(
                name::SYNC_ROWS_RATE,
                "rows/s",
                Better::Higher,
                rows as f64 / window.as_secs_f64(),
            )
            .with_n(rows)
            .with_window(window)
            .with_clock("rows applied within the window, progress every 20 ms"),
            bytes_rate(name::SYNC_READ_BYTES_RATE, last.bytes - first.bytes, window),
        ]);
        // Not known where the window spans two files of the binlog.
        let ends = last.applied.as_ref().zip(first.applied.as_ref());
        if let Some(bytes) = ends.and_then(|(end, begin)| end.bytes_since(begin)) {
            draft.metrics.push(bytes_rate(name::SYNC_APPLIED_BYTES_RATE, bytes, window));
        }
    }
}

fn idle_outcome(driven: &Driven) -> Result<Outcome, Error> {
    if driven.interrupted {
        return Err(Error::Interrupted);
    }
    let rate = driven.window_committed as f64 / driven.window.as_secs_f64();
    Ok(Outcome::Finished { rate, dimension: "ops/s".to_owned() })
}

/// Lets a part of the drain go on for [`INTERRUPTED_DRAIN`] after Ctrl-C, no longer.
async fn briefly<T>(
    work: impl Future<Output = Result<T, Error>>,
    cancel: &CancellationToken,
) -> Result<T, Error> {
    let over = async {
        cancel.cancelled().await;
        tokio::time::sleep(INTERRUPTED_DRAIN).await;
    };
    tokio::select! {
        done = work => done,
        () = over => Err(Error::Interrupted),
    }
}

/// Markers every 100 ms, less often where the workload is so slow that they would be too large a
/// share of its transactions. With a closed pace the rate is not known beforehand.
fn marker_interval(task: &Task) -> Duration {
    let least = Duration::from_millis(100);
    match (task.pace.kind, task.pace.rate) {
        (PaceKind::Uniform | PaceKind::Poisson, Some(rate)) if rate > 0.0 => {
            least.max(Duration::from_secs_f64(1.0 / (rate * MARKER_SHARE)))
        }
        _ => least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Events;
    use crate::pipeline::Unit;
    use crate::telemetry::Gauges;

    #[test]
    fn bytes_read_and_bytes_applied_are_told_apart() {
        let progress = |bytes, applied| Progress {
            bytes,
            applied: Position::new("bin.000001", applied).ok(),
            ..Progress::new(Unit::Sync)
        };
        let from = Instant::now();
        let window = Window {
            began: Some((from, progress(1_000_000, 500_000))),
            ended: Some((from + Duration::from_secs(2), progress(9_000_000, 2_500_000))),
        };
        let mut draft = Draft::begin(&Events::none(), &Gauges::new());
        window.report(&mut draft);
        assert_eq!(draft.number(name::SYNC_READ_BYTES_RATE), Some(4.0));
        assert_eq!(draft.number(name::SYNC_APPLIED_BYTES_RATE), Some(1.0));
    }

    #[test]
    fn bytes_applied_over_two_files_are_not_guessed() {
        let progress = |file: &str, bytes| Progress {
            bytes,
            applied: Position::new(file, 4_000).ok(),
            ..Progress::new(Unit::Sync)
        };
        let from = Instant::now();
        let window = Window {
            began: Some((from, progress("bin.000001", 0))),
            ended: Some((from + Duration::from_secs(2), progress("bin.000002", 8_000_000))),
        };
        let mut draft = Draft::begin(&Events::none(), &Gauges::new());
        window.report(&mut draft);
        assert_eq!(draft.number(name::SYNC_READ_BYTES_RATE), Some(4.0));
        assert_eq!(draft.number(name::SYNC_APPLIED_BYTES_RATE), None);
    }
}
