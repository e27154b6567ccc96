//! What can go wrong with a lab.

use std::path::{Path, PathBuf};

use crate::error::ErrorClass;
use crate::lab::sandbox::Program;
use crate::mysql::{owner, session};

/// A failure to have or to reach a lab. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such program on this machine.
    #[error("find {wanted} on this machine: {hint}")]
    Missing {
        /// What was looked for.
        wanted: String,
        /// What to install, or which variable to set.
        hint: String,
    },
    /// The settings ask for what the chosen servers cannot do.
    #[error("set up the sandbox: {why}")]
    Settings {
        /// What does not fit.
        why: String,
    },
    /// A file or folder could not be made, read or removed.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// Present tense verb.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The process that watches over the servers did not do its part.
    #[error("run the guard of the sandbox's servers: {why}")]
    Guard {
        /// What happened.
        why: String,
    },
    /// A server's data folder could not be made.
    #[error("initialise the data folder of {server}: {why}{}", tail(log))]
    Initialise {
        /// Such as `MySQL 9.7.4 (source)`.
        server: String,
        /// How the program ended.
        why: String,
        /// Last lines of its log.
        log: String,
    },
    /// A server did not start.
    #[error("start {server}: {why}{}", tail(log))]
    Start {
        /// Such as `MySQL 9.7.4 (source)`.
        server: String,
        /// How the program ended, or what it did not do in time.
        why: String,
        /// Last lines of its log.
        log: String,
    },
    /// The relay between the pipeline and a server failed.
    #[error("relay connections to the {end}: {source}")]
    Proxy {
        /// `source` or `target`.
        end: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// A server could not be talked to.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// Another run has the lab.
    #[error("take the lock \"{}\" on the {end} {endpoint}: {why}", crate::lab::LOCK)]
    Held {
        /// `source` or `target`.
        end: &'static str,
        /// `user@address`.
        endpoint: String,
        /// Who has it, as far as it is known.
        why: String,
    },
    /// Two addresses of one end lead to servers that know nothing of each other.
    #[error(
        "use {first} and {other} as one: a lock taken on the first is free on the second, so they \
         are neither one server nor one cluster"
    )]
    NoCluster {
        /// `user@address`.
        first: String,
        /// `user@address`.
        other: String,
    },
    /// The lock that keeps other runs off the lab was lost while a run went on.
    #[error("keep the lock \"{}\" {why}", crate::lab::LOCK)]
    LockLost {
        /// Where and why.
        why: String,
    },
    /// A schema could not be dropped.
    #[error(transparent)]
    Owner(#[from] owner::Error),
    /// Ctrl-C while the servers were being started.
    #[error("start the sandbox: interrupted")]
    Interrupted,
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Settings { .. } => ErrorClass::User,
            Error::Session(error) => error.class(),
            Error::Owner(error) => error.class(),
            Error::Missing { .. }
            | Error::File { .. }
            | Error::Guard { .. }
            | Error::Initialise { .. }
            | Error::Start { .. }
            | Error::Proxy { .. }
            | Error::Held { .. }
            | Error::NoCluster { .. }
            | Error::LockLost { .. }
            | Error::Interrupted => ErrorClass::Lab,
        }
    }

    /// Whether it is no failure but Ctrl-C.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Error::Interrupted)
    }

    pub(crate) fn file(action: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::File { action, path: path.to_owned(), source }
    }

    pub(crate) fn missing(programs: &[Program], hint: String) -> Error {
        let names: Vec<_> = programs.iter().map(|p| p.command()).collect();
        Error::Missing { wanted: names.join(" or "), hint }
    }
}

fn tail(log: &str) -> String {
    if log.is_empty() {
        "; its log is empty".to_owned()
    } else {
        format!("; its log ends with:\n{log}")
    }
}
