//! `dmbench completions SHELL`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::output;
use crate::error::Exit;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Shell to complete in
    shell: Shell,
}

/// Prints the script that the shell reads.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut super::Arguments::command(),
        "dmbench",
        &mut script,
    );
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
