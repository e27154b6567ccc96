//! Integration tests, in one binary.
#![expect(unreachable_pub, reason = "a test binary has no outside; `pub` means shared by modules")]

mod cli;
mod documents;
mod exits;
mod fixtures;
mod import;
mod lab;
mod layers;
mod own;
mod preflight;
mod probe;
mod raw;
mod run;
mod support;
mod sync;
mod verify;
mod workload;
