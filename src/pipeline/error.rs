//! What can go wrong with a pipeline, as whoever runs it sees it.

use std::path::PathBuf;

use crate::error::ErrorClass;

/// A failure of a pipeline. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pipeline's process could not be started.
    #[error("start the pipeline process {executable}: {source}")]
    Start {
        /// The program.
        executable: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The process could not be spoken to.
    #[error("talk to the pipeline process: {source}")]
    Talk {
        /// What the system says.
        source: std::io::Error,
    },
    /// What was read from the other side is not of the agreed form.
    #[error("understand a line between dmbench and its pipeline process: {why}")]
    Line {
        /// What is wrong.
        why: String,
    },
    /// A unit failed.
    #[error("{text}")]
    Unit {
        /// The unit's own error.
        text: String,
        /// Its class.
        class: ErrorClass,
    },
    /// The process ended without a word.
    #[error("keep the pipeline process running: it ended with {status}{}", told(last_words))]
    Died {
        /// Exit status or signal.
        status: String,
        /// The line of its log that says most; the log itself goes with the trial's other files.
        last_words: String,
    },
    /// Asked for while there is nothing that runs, or started twice.
    #[error("{action}: the pipeline is {state}")]
    State {
        /// What was asked.
        action: &'static str,
        /// Why it cannot be.
        state: &'static str,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Start { .. } | Error::Talk { .. } | Error::Died { .. } => ErrorClass::Lab,
            Error::Line { .. } | Error::State { .. } => ErrorClass::Bug,
            Error::Unit { class, .. } => *class,
        }
    }
}

fn told(last_words: &str) -> String {
    if last_words.is_empty() { String::new() } else { format!("; its log says: {last_words}") }
}
