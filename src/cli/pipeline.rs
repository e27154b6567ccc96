//! `dmbench pipeline`: the built-in pipeline as a process of its own, driven over its standard input.

use clap::Args;

use crate::error::Exit;
use crate::pipeline::builtin::child;

/// Run the built-in pipeline: configuration and commands as JSON lines on standard input, progress
/// as JSON lines on standard output. Trials start it; it ends when its standard input does
#[derive(Debug, Args)]
pub(super) struct Arguments {}

pub(super) async fn run(_: &Arguments) -> anyhow::Result<Exit> {
    // What failed is told on standard output already, to whoever reads it.
    Ok(child::run_child().await.map_or(Exit::TrialFailed, |()| Exit::Ok))
}
