//! What can end the sync unit.

use std::time::Duration;

use tokio::task::JoinError;

use crate::error::ErrorClass;
use crate::mysql::{binlog, owner, session};
use crate::pipeline::builtin::checkpoint;

/// A failure of the sync unit. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The binlog cannot be read.
    #[error(transparent)]
    Binlog(#[from] binlog::Error),
    /// A server refused a statement.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// A schema on the target is not ours.
    #[error(transparent)]
    Owner(#[from] owner::Error),
    /// The checkpoint cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// A row change was refused.
    #[error("apply {change}: {source}")]
    Apply {
        /// Kind of change, table and key.
        change: String,
        /// What the target says.
        source: Box<session::Error>,
    },
    /// Trying again did not help.
    #[error("go on with sync within {} s: {source}", after.as_secs())]
    GaveUp {
        /// How long it was tried.
        after: Duration,
        /// The last failure.
        source: Box<Error>,
    },
    /// A DDL was refused.
    #[error("execute the DDL that ends at {position}: {source}")]
    Ddl {
        /// Its end in the binlog.
        position: String,
        /// What the target says.
        source: Box<session::Error>,
    },
    /// It cannot be told whether a DDL was executed before a crash.
    #[error(
        "tell whether \"{sql}\" before {position} was executed: execute it by hand or not, as its tables need, and set binlog_name, binlog_pos and both exit_safe columns of the checkpoint to {position}, table_info to null"
    )]
    Unclear {
        /// The statement, shortened.
        sql: String,
        /// Its end in the binlog.
        position: String,
    },
    /// A session of an earlier process does not end.
    #[error("become the only one that executes DDL: an earlier session on the target does not end")]
    Locked,
    /// Rows may be on the target already, and safe mode is forbidden.
    #[error(
        "resume at {position}: rows behind it may be on the target already, and safe-mode-duration 0s forbids safe mode"
    )]
    SafeModeForbidden {
        /// Where it would resume.
        position: String,
    },
    /// A statement cannot be replicated.
    #[error("replicate \"{sql}\" before {position}: {why}")]
    Statement {
        /// The statement, shortened.
        sql: String,
        /// Its end in the binlog.
        position: String,
        /// Why not.
        why: &'static str,
    },
    /// A row changed others through a foreign key, and those are not in the binlog.
    #[error("replicate a change of table {table}: {why}")]
    Cascade {
        /// `schema.table`.
        table: String,
        /// What is missing.
        why: &'static str,
    },
    /// It was told to stop at once.
    #[error("go on with replication: it was cancelled")]
    Cancelled,
    /// A part of the unit ended although it was needed.
    #[error("keep all parts of sync running: {part} ended")]
    Ended {
        /// Which part.
        part: &'static str,
    },
    /// Order was broken: an invariant does not hold.
    #[error("keep rows in order: {what}")]
    Order {
        /// Which invariant.
        what: &'static str,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Binlog(error) => error.class(),
            Error::Session(error) => error.class(),
            Error::Owner(error) => error.class(),
            Error::Checkpoint(error) => error.class(),
            Error::Apply { source, .. } | Error::Ddl { source, .. } => source.class(),
            Error::GaveUp { .. }
            | Error::Unclear { .. }
            | Error::Locked
            | Error::SafeModeForbidden { .. }
            | Error::Statement { .. }
            | Error::Cascade { .. }
            | Error::Cancelled => ErrorClass::Lab,
            Error::Ended { .. } | Error::Order { .. } => ErrorClass::Bug,
        }
    }
}

/// What the end of a task means that was joined.
pub(super) fn ended(error: JoinError) -> Error {
    if error.is_panic() {
        // A broken invariant must not look like a lost connection.
        std::panic::resume_unwind(error.into_panic());
    }
    Error::Ended { part: "a task" }
}
