//! What can go wrong while dumping.

use std::path::PathBuf;

use crate::error::ErrorClass;
use crate::mysql::session::Error as SessionError;

/// A failure of the dump unit. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source refused something.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// No read lock was to be had in time.
    #[error(
        "lock the source's tables for the start of the dump within {seconds} s (a statement or transaction that runs for longer holds them): {source}"
    )]
    Lock {
        /// How long it waited.
        seconds: u64,
        /// What the server says.
        source: SessionError,
    },
    /// Tables came and went while they were being locked.
    #[error("lock the source's tables: the list of tables kept changing")]
    TablesChange,
    /// A schema does not exist on the source.
    #[error("dump schema {schema}: the source has none of that name")]
    NoSchema {
        /// Schema.
        schema: String,
    },
    /// A table's shape or its statement cannot be understood.
    #[error("dump table {table}: {why}")]
    Table {
        /// Schema and table.
        table: String,
        /// What is wrong.
        why: String,
    },
    /// A file could not be written.
    #[error("write {path}: {source}")]
    File {
        /// Path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The dump was told to stop.
    #[error("finish the dump: it was told to stop")]
    Cancelled,
    /// A reader ended by a panic.
    #[error("finish the dump: a reader ended abnormally: {why}")]
    Reader {
        /// What the runtime says.
        why: String,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) | Error::Lock { source: error, .. } => error.class(),
            Error::TablesChange | Error::Cancelled => ErrorClass::Transient,
            Error::NoSchema { .. } | Error::Table { .. } | Error::File { .. } => ErrorClass::Lab,
            Error::Reader { .. } => ErrorClass::Bug,
        }
    }
}
