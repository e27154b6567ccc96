//! Model `drive`: the workload alone, without a pipeline.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::record::{Outcome, Phase, Verdict};
use crate::task::Task;
use crate::trial::bench::{Bench, settings};
use crate::trial::draft::Draft;
use crate::trial::judge::judge_drive;
use crate::trial::watch::{Watched, watch};
use crate::trial::{Error, drive_metrics, settle};
use crate::workload::{self, Counters};

pub(super) async fn run(
    bench: &mut Bench,
    task: &Task,
    draft: &mut Draft,
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    draft.verdict =
        Verdict::Unchecked { reason: "model drive has no target to compare with".to_owned() };
    draft.phases.enter(Phase::Seed, None);
    bench.seed(task, cancel).await?;
    bench.spoil();
    draft.phases.enter(Phase::Settle, None);
    settle::rest(&bench.lab, cancel).await?;
    draft.phases.enter(Phase::Measure, Some(task.phases.warm + task.phases.measure));
    let counters = Arc::new(Counters::default());
    let watched = Watched {
        process: None,
        progress: None,
        counters: Some(Arc::clone(&counters)),
        marker_interval: None,
        checkpoint_table: None,
        samples: None,
    };
    let sampler = watch(bench, &watched).await?;
    let by_ops = task.phases.ops.is_some();
    let plan = workload::DrivePlan {
        settings: settings(task)?.clone(),
        pace: task.pace.clone(),
        schema: bench.schema.clone(),
        seed: task.repeat.seed,
        stop: workload::Stop {
            time: (!by_ops).then_some(task.phases.measure),
            ops: task.phases.ops,
        },
        warm: if by_ops { Duration::ZERO } else { task.phases.warm },
    };
    let drive = workload::drive(&plan, &bench.lab.source, &counters, &bench.events, cancel);
    tokio::pin!(drive);
    let mark = async {
        counters.started().await;
        tokio::time::sleep(plan.warm).await;
        sampler.mark_window_begin();
        std::future::pending::<()>().await;
    };
    let driven = tokio::select! {
        driven = &mut drive => driven,
        () = mark => return Err(Error::Interrupted),
    };
    sampler.mark_window_end();
    let observed = sampler.stop().await;
    draft.metrics.extend(observed.metrics);
    draft.findings.extend(observed.findings);
    let driven = driven?;
    drive_metrics(draft, &driven);
    if driven.interrupted {
        return Err(Error::Interrupted);
    }
    Ok(judge_drive(&driven))
}
