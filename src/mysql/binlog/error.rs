//! What can go wrong while a binlog is read.

use crate::error::ErrorClass;
use crate::mysql::session;

/// A failure to read a binlog. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused a statement or the connection.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// The stream broke.
    #[error("read the binlog of {endpoint} at {position}: {source}")]
    Read {
        /// `user@address`.
        endpoint: String,
        /// Where the reader stood.
        position: String,
        /// What the driver says.
        source: Box<mysql_async::Error>,
    },
    /// The server ended the stream.
    #[error("read the binlog of {endpoint} at {position}: {why}")]
    Ended {
        /// `user@address`.
        endpoint: String,
        /// Where the reader stood.
        position: String,
        /// How it ended.
        why: &'static str,
    },
    /// The bytes do not make sense.
    #[error("understand the {what} event before {position}: {why}")]
    Malformed {
        /// Where the reader stood.
        position: String,
        /// Kind of event.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Something that cannot be replicated exactly.
    #[error("replicate {what} before {position}: {hint}")]
    Unsupported {
        /// Where the reader stood.
        position: String,
        /// What, with the table's name.
        what: String,
        /// What the user may do.
        hint: &'static str,
    },
    /// A table on the target has not the shape that the binlog describes.
    #[error("match table {table} with the binlog: {why}")]
    Shape {
        /// `schema.table`.
        table: String,
        /// What differs.
        why: String,
    },
    /// A column's type cannot be replicated exactly.
    #[error("replicate column {column} of table {table}: {why}")]
    Column {
        /// `schema.table`.
        table: String,
        /// Column.
        column: String,
        /// Why not.
        why: String,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::Read { source, .. } => match &**source {
                mysql_async::Error::Io(_) => ErrorClass::Transient,
                _ => ErrorClass::Lab,
            },
            Error::Ended { .. } => ErrorClass::Transient,
            Error::Malformed { .. } => ErrorClass::Bug,
            Error::Unsupported { .. } | Error::Shape { .. } | Error::Column { .. } => {
                ErrorClass::Lab
            }
        }
    }
}
