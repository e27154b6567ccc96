//! `dmbench demo`: import, a sweep over `sync.worker-count`, and lag at half of the picked rate, or at a
//! quarter where the machine cannot do half.

use std::path::Path;

use super::{Context, conclude, metrics, progress};
use crate::advise;
use crate::error::Exit;
use crate::event::{Event, Events};
use crate::record::Outcome;
use crate::sweep::{self, Ran, Sweep};
use crate::task::{Task, demo};

const WORKER_COUNT: &str = "pipeline.sync.worker-count";

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Program of the source: mysql or mariadb; the best one found where not said
    #[arg(long, value_name = "PROGRAM")]
    source: Option<String>,
    /// Program of the target: tidb, mysql or mariadb; the best one found where not said
    #[arg(long, value_name = "PROGRAM")]
    target: Option<String>,
    #[command(flatten)]
    place: conclude::Place,
    #[command(flatten)]
    metrics: metrics::Asked,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the tasks into one folder.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let mut servers = Vec::new();
    for (end, program) in [("source", &arguments.source), ("target", &arguments.target)] {
        servers.extend(program.as_ref().map(|program| format!("sandbox.{end}={program}")));
    }
    let folder = arguments.place.new_folder("demo");
    context.log.keep_in(&folder);
    let served = arguments.metrics.serve(&context.log).await?;
    let options = conclude::options(&folder, &served)?;
    let work = async |events: Events| all(&servers, options, &events, context).await;
    let ran = progress::around(&context.log, work).await?;
    conclude::conclude(&ran, arguments.json, context)
}

async fn all(
    servers: &[String],
    options: sweep::Options,
    events: &Events,
    context: &Context,
) -> Result<Ran, sweep::Error> {
    let mut sweep = Sweep::begin(options, events)?;
    let result = tasks(&mut sweep, servers, events, context).await;
    conclude::finish(sweep, result, context).await
}

async fn tasks(
    sweep: &mut Sweep,
    servers: &[String],
    events: &Events,
    context: &Context,
) -> Result<(), sweep::Error> {
    let parse =
        |name: &str, text, overrides: &[String]| Task::parse(Path::new(name), text, overrides);
    for (name, text) in [("import.toml", demo::IMPORT), ("worker-count.toml", demo::WORKER_COUNT)] {
        sweep.run_task(&parse(name, text, servers)?, &context.cancel).await?;
        if context.cancel.is_cancelled() {
            return Ok(());
        }
    }
    let Some((workers, rate)) = pick(sweep) else {
        let text = "no worker-count can be recommended, so lag is not measured".to_owned();
        events.send(Event::Remark { text });
        return Ok(());
    };
    let lag = parse("lag.toml", demo::LAG, servers)?;
    let rows_per_op = lag.workload.map_or(1, |workload| workload.row_changes_per_op()) as f64;
    for (name, part, divisor) in [("lag.toml", "half", 2.0), ("lag-quarter.toml", "a quarter", 4.0)]
    {
        let mut overrides = servers.to_vec();
        overrides.push(format!("sync.worker-count={workers}"));
        overrides.push(format!("pace.rate={:.0}", (rate / divisor / rows_per_op).max(1.0)));
        sweep.run_task(&parse(name, demo::LAG, &overrides)?, &context.cancel).await?;
        let Some(outcome) = too_much(sweep) else { break };
        let text = format!("{part} of what sync applied while the source was idle: {outcome}");
        events.send(Event::Remark { text });
        if context.cancel.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// The last trial's outcome where the rate was too much for the pipeline or the generator: they share the
/// machine with source and target.
fn too_much(sweep: &Sweep) -> Option<&'static str> {
    let (_, trials) = sweep.so_far();
    let outcome = &trials.last()?.outcome;
    let too_much = matches!(
        outcome,
        Outcome::Saturated { .. } | Outcome::Bounded { .. } | Outcome::GeneratorBound { .. }
    );
    too_much.then(|| outcome.word())
}

/// The picked worker-count and the rate that it reached, as the report states it.
fn pick(sweep: &Sweep) -> Option<(String, f64)> {
    let (run, trials) = sweep.so_far();
    let advice = advise::advise(run, trials);
    let sweep = advice.iter().find(|advice| advice.task == "worker-count")?;
    let pick = sweep.pick.as_ref()?;
    let point = sweep.points.iter().find(|point| point.point == pick.point)?;
    Some((pick.point.get(WORKER_COUNT)?.clone(), point.value(sweep.objective.rate)?))
}
