//! `dmbench report RUN`: the report again, from the records alone.

use std::path::PathBuf;

use super::{conclude, output};
use crate::error::Exit;
use crate::record::Store;
use crate::report::{self, Document};
use crate::sweep;

/// How a report may look.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    Terminal,
    Markdown,
    Json,
}

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The run's folder, or its name under --out
    run: PathBuf,
    /// How it should look
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
    #[command(flatten)]
    place: conclude::Place,
}

/// Prints a report; the exit code is that of the run.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let folder = arguments.place.find(&arguments.run)?;
    let store = Store::open(&folder);
    let (run, trials) = (store.run()?, store.trials()?);
    let document = Document::of(&run, &trials);
    output::print(&match arguments.format {
        Format::Terminal => report::terminal::render(&document, output::width(), output::color()),
        Format::Markdown => report::markdown::render(&document),
        Format::Json => report::json::render(&run, &trials),
    })?;
    Ok(sweep::exit(&run, &trials))
}
