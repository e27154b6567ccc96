//! What all commands that run trials share: where the run's folder is, and how a run ends.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::failure::Usage;
use super::metrics::Served;
use super::{Context, output};
use crate::error::Exit;
use crate::report::{self, Document};
use crate::sweep::{self, Options, Ran, Sweep};

/// Where runs go.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Place {
    /// Folder of runs
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

impl Place {
    /// A new run's folder, such as `out/2026-11-30T21-04-05-demo`. Sorts by time.
    pub(super) fn new_folder(&self, name: &str) -> PathBuf {
        let now = jiff::Zoned::now();
        self.out.join(format!("{}-{name}", now.strftime("%Y-%m-%dT%H-%M-%S")))
    }

    /// The folder of a run that was made before.
    pub(super) fn find(&self, run: &Path) -> anyhow::Result<PathBuf> {
        let found =
            [run.to_owned(), self.out.join(run)].into_iter().find(|f| f.join("run.json").is_file());
        found.ok_or_else(|| {
            Usage::error(
                format!("find the run {}", run.display()),
                "name its folder, or its name as dmbench list shows it",
            )
        })
    }
}

/// How a sweep is run from the command line.
pub(super) fn options(folder: &Path, served: &Served) -> anyhow::Result<Options> {
    Ok(Options {
        folder: folder.to_owned(),
        executable: std::env::current_exe().context("find the dmbench program")?,
        // Passwords are never part of a command line, so nothing has to be left out.
        command: std::env::args().collect(),
        gauges: served.gauges.clone(),
        lab: None,
    })
}

/// Ends a sweep whose tasks gave `result`. Servers are stopped and the record is completed whatever
/// it was; what fails because of Ctrl-C is no failure, since the record is marked.
pub(super) async fn finish(
    sweep: Sweep,
    result: Result<(), sweep::Error>,
    context: &Context,
) -> Result<Ran, sweep::Error> {
    let folder = sweep.folder().display().to_string();
    let ran = sweep.finish(&context.cancel).await;
    let is_refused = matches!(result, Err(sweep::Error::Resume { .. }));
    if (result.is_err() && !is_refused) || ran.is_err() {
        context.log.note(&format!("records so far: {folder}; go on with --resume {folder}"));
    }
    if context.cancel.is_cancelled() {
        return ran;
    }
    result.and(ran)
}

/// Writes the reports beside the records, prints one of them, says where everything is.
pub(super) fn conclude(ran: &Ran, as_json: bool, context: &Context) -> anyhow::Result<Exit> {
    let document = Document::of(&ran.run, &ran.trials);
    let markdown = ran.store.save_text("report.md", &report::markdown::render(&document))?;
    let json = report::json::render(&ran.run, &ran.trials);
    ran.store.save_text("report.json", &json)?;
    let printed = if as_json {
        output::print(&json)
    } else {
        output::print(&report::terminal::render(&document, output::width(), output::color()))
    };
    context.log.note(&format!("report: {}", markdown.display()));
    context.log.note(&format!("records: {}", ran.store.folder().display()));
    printed?;
    Ok(sweep::exit(&ran.run, &ran.trials))
}
