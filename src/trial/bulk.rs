//! Model `bulk`: dump and load, timed apart.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::pipeline::{Start, Unit};
use crate::record::{Better, Metric, Outcome, Phase, name};
use crate::task::Task;
use crate::trial::bench::{Bench, COPY_LIMIT, clear};
use crate::trial::draft::Draft;
use crate::trial::replica::{Replica, UnitEnd};
use crate::trial::watch::{Watched, watch};
use crate::trial::{Error, settle, verify_ends};

pub(super) async fn run(
    bench: &mut Bench,
    task: &Task,
    draft: &mut Draft,
    cancel: &CancellationToken,
) -> Result<Outcome, Error> {
    draft.phases.enter(Phase::Provision, None);
    bench.clear_target(cancel).await?;
    let folder = bench.scratch.join("trial");
    clear(&folder)?;
    draft.phases.enter(Phase::Seed, None);
    let (seeded, _) = bench.seed(task, cancel).await?;
    draft.phases.enter(Phase::Settle, None);
    settle::rest(&bench.lab, cancel).await?;

    draft.phases.enter(Phase::Measure, None);
    let pipeline = bench.pipeline(&task.pipeline, "trial", &folder, false);
    let mut replica = Replica::start(pipeline, Start::Full, true).await?;
    let sampler = watch(bench, &Watched::without_marker(&replica)).await?;
    sampler.mark_window_begin();
    replica.release().await?;
    let ended = units(&mut replica, COPY_LIMIT, cancel).await;
    sampler.mark_window_end();
    let observed = sampler.stop().await;
    draft.metrics.extend(observed.metrics);
    draft.findings.extend(observed.findings);
    let Some((dump, load)) = ended? else {
        let seconds = COPY_LIMIT.as_secs_f64();
        replica.halt().await?;
        return Err(Error::TooLate { what: "the import's end", seconds });
    };
    draft.note(replica.remarks());
    report(draft, &dump, &load);

    draft.phases.enter(Phase::Verify, None);
    verify_ends(bench, draft, cancel).await?;
    if dump.rows != load.rows || dump.rows != seeded {
        return Ok(Outcome::Invalid {
            reason: format!(
                "{seeded} rows were seeded, {} dumped and {} loaded",
                dump.rows, load.rows
            ),
        });
    }
    let seconds = (dump.took + load.took).as_secs_f64();
    Ok(Outcome::Finished { rate: load.rows as f64 / seconds, dimension: "rows/s".to_owned() })
}

async fn units(
    replica: &mut Replica,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Option<(UnitEnd, UnitEnd)>, Error> {
    let Some(dump) = replica.unit_end(Unit::Dump, limit, cancel).await? else { return Ok(None) };
    let Some(load) = replica.unit_end(Unit::Load, limit, cancel).await? else { return Ok(None) };
    Ok(Some((dump, load)))
}

fn report(draft: &mut Draft, dump: &UnitEnd, load: &UnitEnd) {
    const TEXT: &str = "MB/s of SQL text";
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let rate = |name: &str, dimension: &str, amount: f64, unit: &UnitEnd| {
        let seconds = unit.took.as_secs_f64();
        Metric::number(name, dimension, Better::Higher, amount / seconds).with_window(unit.took)
    };
    let time = |name: &str, unit: &UnitEnd| {
        Metric::number(name, "s", Better::Lower, unit.took.as_secs_f64())
    };
    draft.metrics.extend([
        Metric::number(name::DUMP_BYTES, "MB of SQL text", Better::Neither, megabytes(dump.bytes)),
        time(name::DUMP_TIME, dump),
        rate(name::DUMP_ROWS_RATE, "rows/s", dump.rows as f64, dump).with_n(dump.rows),
        rate(name::DUMP_BYTES_RATE, TEXT, megabytes(dump.bytes), dump).with_n(dump.rows),
        time(name::LOAD_TIME, load),
        rate(name::LOAD_ROWS_RATE, "rows/s", load.rows as f64, load).with_n(load.rows),
        rate(name::LOAD_BYTES_RATE, TEXT, megabytes(load.bytes), load).with_n(load.rows),
        Metric::histogram(name::LOAD_TRANSACTION, "us", Better::Lower, load.transaction.clone()),
    ]);
    if load.statements > 0 {
        let rows = load.rows as f64 / load.statements as f64;
        draft.metrics.push(
            Metric::number(name::LOAD_ROWS_PER_STATEMENT, "rows", Better::Neither, rows)
                .with_n(load.statements),
        );
    }
    if load.statement.n() > 0 {
        let statement = load.statement.clone();
        draft.metrics.push(Metric::histogram(
            name::TARGET_STATEMENT,
            "us",
            Better::Lower,
            statement,
        ));
    }
}
