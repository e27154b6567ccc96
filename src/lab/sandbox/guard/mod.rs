//! The guard: a small process that starts the servers as its children and outlives dmbench just
//! long enough to stop them.
//!
//! dmbench holds the writing end of the guard's standard input and says what to start. When that
//! pipe closes, for whatever reason (a good end, a panic, kill -9), the guard stops the servers and
//! removes what it was told to. It runs in a process group of its own with the servers, so that
//! Ctrl-C at a terminal reaches dmbench alone, which can then drain. Each server also carries the
//! kernel's parent-death signal, so it ends even when the guard itself is killed, and the ledger on
//! disk lets a later start clear away what even that left.

mod leash;
mod service;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::lab::sandbox::process::Process;

pub(super) use leash::Leash;
pub use service::run;

/// Name of the hidden subcommand that ends in [`run`].
pub const SUBCOMMAND: &str = "sandbox-guard";

/// What dmbench says to the guard: one JSON object a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    /// Start a program.
    Start(Launch),
    /// Remove this file or folder at the end.
    Remove(PathBuf),
    /// Leave the servers running and end now.
    Release,
    /// Become this program; only ever the first line, from the guard to a copy of itself.
    Become(Launch),
}

/// A program to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Launch {
    /// What dmbench calls it.
    pub name: String,
    /// Path.
    pub program: PathBuf,
    /// Arguments; no secrets, since every user of the machine can read them.
    pub arguments: Vec<String>,
    /// Environment variables beside the inherited ones.
    pub environment: BTreeMap<String, String>,
    /// File that standard output and error are appended to.
    pub output: PathBuf,
    /// Process that it must not outlive, filled in by the guard; `None` where it may be released.
    pub parent: Option<u32>,
}

/// What the guard says to dmbench: one JSON object a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Report {
    /// A program runs.
    Started { name: String, process: Process },
    /// A program could not be started.
    Failed { name: String, why: String },
    /// A program ended.
    Exited { name: String, success: bool, how: String },
    /// The servers are on their own now.
    Released,
}
