//! The `dmbench` program: parses the command line, starts the runtime, ends with an exit code.

use std::process::ExitCode;
use std::time::Duration;

use dmbench::cli::{self, Arguments, log::Log};
use dmbench::error::Exit;
use dmbench::lab::sandbox::guard;

fn main() -> ExitCode {
    // The guard outlives what it guards against: it has no runtime that could fail.
    if std::env::args_os().nth(1).is_some_and(|name| name == guard::SUBCOMMAND) {
        return ExitCode::from(guard::run() as u8);
    }
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(exit) => return ExitCode::from(exit as u8),
    };
    let log = Log::start(arguments.verbosity());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("failed to start the runtime: {error}");
            return ExitCode::from(Exit::Bug as u8);
        }
    };
    let exit = runtime.block_on(cli::run(arguments, log));
    // What an abandoned command left running must not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ExitCode::from(exit as u8)
}
