//! Model `backlog`: every trial replays the same committed range of the source's binlog onto a
//! target restored from one dump.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::pipeline::{Progress, Start};
use crate::record::{Better, Metric, Outcome, Phase, Replayed, Verdict, name};
use crate::task::Task;
use crate::trial::bench::{Bench, Range};
use crate::trial::draft::Draft;
use crate::trial::replica::Replica;
use crate::trial::watch::{Watched, watch};
use crate::trial::{Error, bytes_rate, retry_metrics, settle, sync_metrics, verify_ends};

pub(super) async fn run(
    bench: &mut Bench,
    task: &Task,
    draft: &mut Draft,
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    draft.phases.enter(Phase::Provision, None);
    bench.clear_target(cancel).await?;
    draft.phases.enter(Phase::Seed, None);
    let range = bench.range(task, cancel).await?;
    draft.source_end = Some(range.to.clone());
    draft.replayed = Some(Replayed {
        from: range.from.to_string(),
        to: range.to.to_string(),
        ops: range.ops,
        rows: range.effect.row_changes(),
    });
    bench.restore(&range.dump, cancel).await?;
    let pipeline = bench.pipeline(&task.pipeline, "trial", &bench.scratch, false);
    let start = Start::Incremental { from: range.from.clone() };
    let mut replica = Replica::start(pipeline, start, true).await?;
    replica.ready(cancel).await?;
    draft.phases.enter(Phase::Settle, None);
    settle::rest(&bench.lab, cancel).await?;

    draft.phases.enter(Phase::Measure, Some(task.phases.drain_limit));
    let sampler = watch(bench, &Watched::without_marker(&replica)).await?;
    sampler.mark_window_begin();
    let released = Instant::now();
    replica.release().await?;
    let reached = replica.applied(&range.to, task.phases.drain_limit, cancel).await;
    let ended = Instant::now();
    sampler.mark_window_end();
    let observed = sampler.stop().await;
    draft.metrics.extend(observed.metrics);
    draft.findings.extend(observed.findings);
    let last = replica.progress().borrow().clone();
    let Some(at) = reached? else {
        let outcome = fell_short(draft, &last, ended.duration_since(released));
        replica.halt().await?;
        return Ok(outcome);
    };

    draft.phases.enter(Phase::Drain, None);
    let window = at.duration_since(released);
    let end = replica.drain(task.phases.drain_limit, cancel).await?;
    let end = end.ok_or(Error::TooLate {
        what: "the pipeline's end",
        seconds: task.phases.drain_limit.as_secs_f64(),
    })?;
    let rate = end.rows as f64 / window.as_secs_f64();
    draft.metrics.push(rate_metric(rate, end.rows, window));
    if let Some(bytes) = range.to.bytes_since(&range.from) {
        draft.metrics.push(bytes_rate(name::SYNC_APPLIED_BYTES_RATE, bytes, window));
    }
    retry_metrics(draft, &replica.progress().borrow());
    draft.note(replica.remarks());
    sync_metrics(draft, &end, &last);
    counts(draft, &range, end.rows);

    draft.phases.enter(Phase::Verify, None);
    verify_ends(bench, draft, cancel).await?;
    let committed = range.effect.row_changes();
    if end.rows != committed {
        return Ok(Outcome::Invalid {
            reason: format!("{committed} row changes were committed and {} applied", end.rows),
        });
    }
    Ok(Outcome::Finished { rate, dimension: "rows/s".to_owned() })
}

/// What is known of a range that was not replayed to its end within the limit.
fn fell_short(draft: &mut Draft, last: &Progress, window: Duration) -> Outcome {
    let rate = last.rows as f64 / window.as_secs_f64();
    let until = "from release until the limit, without reaching the end";
    draft.metrics.push(rate_metric(rate, last.rows, window).with_clock(until));
    draft.verdict =
        Verdict::Unchecked { reason: "the range was not replayed to its end".to_owned() };
    retry_metrics(draft, last);
    draft.blame(last);
    Outcome::Saturated { rate, dimension: "rows/s".to_owned() }
}

fn rate_metric(rate: f64, rows: u64, window: Duration) -> Metric {
    Metric::number(name::SYNC_ROWS_RATE, "rows/s", Better::Higher, rate)
        .with_n(rows)
        .with_window(window)
        .with_clock(
            "from release until the last row of the range was applied, progress every 20 ms",
        )
}

fn counts(draft: &mut Draft, range: &Range, applied: u64) {
    let committed = range.effect.row_changes();
    draft.metrics.extend([
        Metric::number(name::COMMITTED_ROWS, "rows", Better::Neither, committed as f64)
            .with_n(range.ops),
        Metric::number(name::APPLIED_ROWS, "rows", Better::Neither, applied as f64),
    ]);
}
