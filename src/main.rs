//! The `dmbench` program: parses the command line, starts the runtime, ends with an exit code.

// A command is one future, from its options down to the socket: deeper than the compiler's default.
#![recursion_limit = "256"]

use std::process::ExitCode;
use std::time::Duration;

use dmbench::cli::{self, Arguments, log::Log};
use dmbench::error::Exit;

fn main() -> ExitCode {
    ExitCode::from(cli::guarded(exit) as u8)
}

/// A pipeline may use every core. Generator and probes leave half of them to the servers, which run
/// here too in a sandbox; threads that wake each other for every answer cost more than they give, and
/// where one thread is all there is, it needs no queues that others could take from.
fn runtime(arguments: &Arguments) -> tokio::runtime::Builder {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if arguments.is_pipeline() { cores } else { cores.div_ceil(2) };
    let mut runtime = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.worker_threads(threads).enable_all();
    runtime
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
    let runtime = match runtime(&arguments).build() {
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
