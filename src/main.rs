//! The `dmbench` program: parses the command line, starts the runtime, ends with an exit code.

use std::process::ExitCode;

use dmbench::error::Exit;
use dmbench::lab::sandbox::guard;

fn main() -> ExitCode {
    let subcommand = std::env::args().nth(1);
    let exit = match subcommand.as_deref() {
        Some(guard::SUBCOMMAND) => guard::run(),
        Some("pipeline") => pipeline(),
        _ => Exit::Usage,
    };
    ExitCode::from(exit as u8)
}

fn pipeline() -> Exit {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| Ok(runtime.block_on(dmbench::pipeline::builtin::child::run_child())?));
    ended.map_or(Exit::TrialFailed, |()| Exit::Ok)
}
