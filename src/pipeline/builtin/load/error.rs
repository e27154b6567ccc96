//! What can go wrong while loading.

use std::path::PathBuf;

use crate::error::ErrorClass;
use crate::mysql::owner;
use crate::mysql::session::Error as SessionError;

/// A failure of the load unit. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target refused something.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A schema of the target is not ours.
    #[error(transparent)]
    Owner(#[from] owner::Error),
    /// A file of the dump could not be read.
    #[error("read {path}: {source}")]
    File {
        /// Path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file of the dump is no whole SQL text.
    #[error("read {path}: {why}")]
    Text {
        /// Path.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Trying again did not help.
    #[error("load {path} within {} s: {source}", after.as_secs())]
    GaveUp {
        /// The file.
        path: PathBuf,
        /// How long it was tried.
        after: std::time::Duration,
        /// The last failure.
        source: SessionError,
    },
    /// The connection was lost during an INSERT into a table without a key.
    #[error(
        "load {path}: the connection was lost during an INSERT and the table has no key to tell whether its rows arrived ({source})"
    )]
    UnknownFate {
        /// The file.
        path: PathBuf,
        /// How it was lost.
        source: SessionError,
    },
    /// The load was told to stop.
    #[error("finish the load: it was told to stop")]
    Cancelled,
    /// A writer ended by a panic.
    #[error("finish the load: a writer ended abnormally: {why}")]
    Writer {
        /// What the runtime says.
        why: String,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::Owner(error) => error.class(),
            Error::File { .. }
            | Error::Text { .. }
            | Error::GaveUp { .. }
            | Error::UnknownFate { .. } => ErrorClass::Lab,
            Error::Cancelled => ErrorClass::Transient,
            Error::Writer { .. } => ErrorClass::Bug,
        }
    }
}
