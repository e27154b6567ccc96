//! The `dmbench` program: parses the command line, starts the runtime, ends with an exit code.

// A command is one future, from its options down to the socket: deeper than the compiler's default.
#![recursion_limit = "256"]

use std::process::ExitCode;
use std::time::Duration;

use dmbench::cli::{self, Arguments, log::Log};
use dmbench::error::Exit;

fn main() -> ExitCode {
    ExitCode::from(exit() as u8)
}

fn exit() -> Exit {
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(exit) => return exit,
    };
    // The guard of a sandbox becomes other programs, which must not inherit a runtime's threads.
    if let Some(exit) = arguments.guard() {
        return exit;
    }
    let log = Log::start(arguments.verbosity());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("failed to start the runtime: {error}");
            return Exit::Lab;
        }
    };
    let exit = runtime.block_on(cli::run(arguments, log));
    // What an abandoned command left running must not hold the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit
}
