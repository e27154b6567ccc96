//! The `dmbench` program: parses the command line, starts the runtime, ends with an exit code.

fn main() {}
