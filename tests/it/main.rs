//! Integration tests, in one binary.
#![expect(unreachable_pub, reason = "a test binary has no outside; `pub` means shared by modules")]

mod import;
mod lab;
mod support;
mod workload;
