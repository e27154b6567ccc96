//! `dmbench pipeline`: the built-in pipeline as a process of its own. Trials start it; by hand it
//! takes the same order as one line of JSON on its standard input.

use crate::error::Exit;
use crate::pipeline::builtin::child;

/// Runs what standard input orders, until it ends.
pub(super) async fn run() -> anyhow::Result<Exit> {
    child::run_child().await?;
    Ok(Exit::Ok)
}
