//! The `dmbench` program: parses the command line, starts the runtime, ends with an exit code.

use std::process::ExitCode;

use dmbench::error::Exit;
use dmbench::lab::sandbox::guard;

fn main() -> ExitCode {
    let subcommand = std::env::args_os().nth(1);
    let exit = if subcommand.is_some_and(|name| name == guard::SUBCOMMAND) {
        guard::run()
    } else {
        Exit::Usage
    };
    ExitCode::from(exit as u8)
}
