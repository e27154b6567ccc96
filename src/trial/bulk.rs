//! Model `bulk`: dump and load, timed apart.

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
    let dumped = replica.unit_end(Unit::Dump, COPY_LIMIT, cancel).await;
    let loaded = match &dumped {
        Ok(Some(dump)) => {
            // What was measured is kept, whatever becomes of the rest.
            report_dump(draft, dump);
            replica.unit_end(Unit::Load, COPY_LIMIT, cancel).await
        }
        _ => Ok(None),
    };
    sampler.mark_window_end();
    let observed = sampler.stop().await;
    draft.metrics.extend(observed.metrics);
    draft.findings.extend(observed.findings);
    draft.note(replica.remarks());
    let (Some(dump), Some(load)) = (dumped?, loaded?) else {
        let seconds = COPY_LIMIT.as_secs_f64();
        replica.halt().await?;
        return Err(Error::TooLate { what: "the import's end", seconds });
    };
    report_load(draft, &load);

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

const TEXT: &str = "MB/s of SQL text";

fn report_dump(draft: &mut Draft, dump: &UnitEnd) {
    let bytes = megabytes(dump);
    draft.metrics.extend([
        Metric::number(name::DUMP_BYTES, "MB of SQL text", Better::Neither, bytes),
        time(name::DUMP_TIME, dump),
        rate(name::DUMP_ROWS_RATE, "rows/s", dump.rows as f64, dump),
        rate(name::DUMP_BYTES_RATE, TEXT, bytes, dump),
    ]);
}

fn report_load(draft: &mut Draft, load: &UnitEnd) {
    draft.metrics.extend([
        time(name::LOAD_TIME, load),
        rate(name::LOAD_ROWS_RATE, "rows/s", load.rows as f64, load),
        rate(name::LOAD_BYTES_RATE, TEXT, megabytes(load), load),
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

fn megabytes(unit: &UnitEnd) -> f64 {
    unit.bytes as f64 / 1e6
}

fn time(name: &str, unit: &UnitEnd) -> Metric {
    Metric::number(name, "s", Better::Lower, unit.took.as_secs_f64())
}

/// An amount over the unit's whole time, in which nothing is left out.
fn rate(name: &str, dimension: &str, amount: f64, unit: &UnitEnd) -> Metric {
    Metric::number(name, dimension, Better::Higher, amount / unit.took.as_secs_f64())
        .with_n(unit.rows)
        .with_window(unit.took)
}
