//! What can be wrong with a task, and where in its text.
//!
//! `Display` is one line that reads after "failed to"; the excerpt with its caret and the advice are
//! separate, so that whoever prints can lay them out.

use std::io;
use std::path::PathBuf;

use crate::error::ErrorClass;
use crate::place::Place;

/// A failure to read a task.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("read task {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file's name cannot name records and tables.
    #[error(
        "name task {path} after its file: a name has only letters, digits, \"-\" and \"_\", at \
         most 40 of them"
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// Two files of one invocation have one name.
    #[error("tell two tasks named {name} apart: {first} and {second}")]
    SameName {
        /// The name.
        name: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A point that is none of the task's grid.
    #[error("find the point in the task: {name} is no knob of it, or has no such value")]
    Point {
        /// The knob.
        name: String,
    },
    /// A `--set` that is not `KEY=VALUE`, or names a key that no task has.
    #[error("understand --set {text}: {what}")]
    Override {
        /// As given.
        text: String,
        /// What is wrong.
        what: String,
        /// What to do; may be empty.
        help: String,
    },
    /// The text is not a task.
    #[error("understand {place}: {what}")]
    Invalid {
        /// Where.
        place: Box<Place>,
        /// What is wrong.
        what: String,
        /// What to do; may be empty.
        help: String,
    },
}

impl Error {
    /// What may be done about it: almost all of these are the user's to mend.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Point { .. } => ErrorClass::Bug,
            _ => ErrorClass::User,
        }
    }

    /// The offending line with a caret, where there is one.
    pub fn excerpt(&self) -> Option<String> {
        match self {
            Error::Invalid { place, .. } => Some(place.excerpt()),
            _ => None,
        }
    }

    /// What to do about it, where something can be said.
    pub fn help(&self) -> Option<&str> {
        match self {
            Error::Invalid { help, .. } | Error::Override { help, .. } => {
                (!help.is_empty()).then_some(help.as_str())
            }
            Error::Read { .. } => Some("dmbench list shows the tasks that are here"),
            Error::Point { .. } => None,
            Error::Name { .. } => Some("rename the file"),
            Error::SameName { .. } => Some("rename one of the files, or run them one by one"),
        }
    }
}
