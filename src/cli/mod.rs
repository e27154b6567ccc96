//! The command line: one file per command, progress, and the only place that prints.
//!
//! A command parses its options, calls one function of the modules below and lays out what comes
//! back. It decides nothing about measuring: what a flag means is written where it is acted upon.

mod check;
mod clean;
mod completions;
mod conclude;
mod demo;
mod drive;
mod ends;
mod failure;
mod interrupt;
mod list;
pub mod log;
mod metrics;
mod output;
mod pipeline;
mod preflight;
mod progress;
mod report;
mod run;
mod sandbox;
mod verify;

use std::ffi::OsString;

use clap::{Parser, Subcommand};
use tokio_util::sync::CancellationToken;

use crate::error::Exit;
use crate::lab::sandbox::guard;
pub use failure::guarded;
use log::Log;

/// What was asked on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "dmbench",
    version,
    about = "How fast, and how far behind, is a MySQL to TiDB replication, and which settings should it use?",
    after_help = exits(),
    max_term_width = 100,
    propagate_version = true
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Say more on stderr: -v for what happens, -vv for every step (RUST_LOG goes before both)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure import, worker-count and lag on private servers of this machine
    Demo(demo::Arguments),
    /// Run task files
    Run(run::Arguments),
    /// Make the report of a run again, from its records
    Report(report::Arguments),
    /// Keep private servers for manual work
    Sandbox(sandbox::Arguments),
    /// Say what running task files would do and how long it would take
    Check(check::Arguments),
    /// Drive a workload against any MySQL server, without a pipeline
    Drive(drive::Arguments),
    /// Compare the rows of source and target
    Verify(verify::Arguments),
    /// List and drop what crashed runs left on your own servers
    Clean(clean::Arguments),
    /// Show the tasks that are here and the runs that were made
    List(list::Arguments),
    /// Print completions for a shell
    Completions(completions::Arguments),
    /// The built-in pipeline as a process of its own: trials start it
    #[command(hide = true)]
    Pipeline,
    /// What watches over a sandbox's servers: sandboxes start it
    #[command(hide = true, name = guard::SUBCOMMAND)]
    Guard,
}

/// What every command is given.
struct Context {
    cancel: CancellationToken,
    log: Log,
    /// How often `-v` was given.
    verbosity: u8,
}

impl Arguments {
    /// Reads a command line. Where there is nothing to run, because it is wrong or asks for help,
    /// prints what there is to say and returns how to exit.
    ///
    /// # Errors
    /// The exit to end with.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, Exit> {
        Arguments::try_parse_from(words).map_err(|error| {
            let printed = output::written(error.print());
            match printed {
                // Where stderr is closed there is nobody to tell.
                _ if error.use_stderr() => Exit::Usage,
                Err(unwritten) => failure::present(&unwritten),
                Ok(()) => Exit::Ok,
            }
        })
    }

    /// Runs the guard of a sandbox, where this is the command line of one.
    pub fn guard(&self) -> Option<Exit> {
        matches!(self.command, Command::Guard).then(guard::run)
    }

    /// Whether this process is a pipeline, apart from generator and probes.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.command, Command::Pipeline)
    }

    /// How often `-v` was given.
    pub fn verbosity(&self) -> u8 {
        self.verbose
    }
}

/// Runs a command to its end. Ctrl-C once asks it to stop in good order; twice abandons it.
pub async fn run(arguments: Arguments, log: Log) -> Exit {
    let cancel = CancellationToken::new();
    let verbosity = arguments.verbose;
    let context = Context { cancel: cancel.clone(), log: log.clone(), verbosity };
    tokio::select! {
        result = perform(arguments.command, &context) => match result {
            Ok(exit) => exit,
            Err(error) => failure::present(&error),
        },
        () = interrupt::twice(&cancel, &log) => Exit::Interrupted,
    }
}

async fn perform(command: Command, context: &Context) -> anyhow::Result<Exit> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments, context).await,
        Command::Run(arguments) => run::run(&arguments, context).await,
        Command::Report(arguments) => report::run(&arguments),
        Command::Sandbox(arguments) => sandbox::run(&arguments, context).await,
        Command::Check(arguments) => check::run(&arguments, context).await,
        Command::Clean(arguments) => clean::run(&arguments, context).await,
        Command::List(arguments) => list::run(&arguments),
        Command::Drive(arguments) => drive::run(&arguments, context).await,
        Command::Verify(arguments) => verify::run(&arguments, context).await,
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Pipeline => pipeline::run().await,
        Command::Guard => Ok(guard::run()),
    }
}

/// The part of `--help` on exit codes.
fn exits() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for (exit, sentence) in Exit::ALL {
        text.push_str(&format!("  {:>3}  {sentence}\n", exit as u8));
    }
    text.push_str("Where several apply: 1 before 4 before 6 before 5 before 7.");
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_names_every_exit_code() {
        let help = Arguments::command().render_help().to_string();
        for (exit, sentence) in Exit::ALL {
            assert!(help.contains(&format!("{:>3}  {sentence}", exit as u8)), "{help}");
        }
    }
}
