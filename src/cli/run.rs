//! `dmbench run TASK…`: runs task files, leaves a folder, prints the report.

use std::path::PathBuf;

use super::{Context, conclude, metrics, progress};
use crate::error::Exit;
use crate::event::Events;
use crate::lab::LabFile;
use crate::sweep::{self, Ran, Sweep};
use crate::task::Task;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Task files
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<PathBuf>,
    /// Put a value into every task, as in --set sync.worker-count=8
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Run on your own servers, as a lab file names them (lab.example.toml), not on private ones
    #[arg(long, value_name = "FILE")]
    lab: Option<PathBuf>,
    /// Go on with a run that was stopped: its folder, or its name under --out
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    place: conclude::Place,
    #[command(flatten)]
    metrics: metrics::Asked,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs all trials of all tasks.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let tasks = Task::load_all(&arguments.tasks, &arguments.overrides)?;
    let lab = arguments.lab.as_deref().map(LabFile::load).transpose()?.map(|file| file.lab());
    let folder = match &arguments.resume {
        Some(run) => arguments.place.find(run)?,
        None => arguments.place.new_folder(&tasks[0].name),
    };
    let served = arguments.metrics.serve(&context.log).await?;
    let options = sweep::Options { lab, ..conclude::options(&folder, &served)? };
    let resume = arguments.resume.is_some();
    let work = async |events: Events| all(tasks, options, resume, &events, context).await;
    let ran = progress::around(&context.log, work).await?;
    conclude::conclude(&ran, arguments.json, context)
}

async fn all(
    tasks: Vec<Task>,
    options: sweep::Options,
    resume: bool,
    events: &Events,
    context: &Context,
) -> Result<Ran, sweep::Error> {
    let mut sweep =
        if resume { Sweep::resume(options, events)? } else { Sweep::begin(options, events)? };
    for task in &tasks {
        sweep.accepts(task)?;
    }
    let mut result = sweep.confirm(&tasks, &context.cancel).await;
    if result.is_ok() {
        // Not before: of a run that is not resumed nothing changes.
        context.log.keep_in(sweep.folder());
    }
    for task in &tasks {
        if result.is_err() || context.cancel.is_cancelled() {
            break;
        }
        result = sweep.run_task(task, &context.cancel).await;
    }
    conclude::finish(sweep, result, context).await
}
