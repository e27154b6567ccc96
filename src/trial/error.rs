//! Why a trial can fail.

use crate::error::ErrorClass;
use crate::mysql::{owner, session};
use crate::{pipeline, probe, workload};

/// A failure inside a trial. It ends the trial, not the sweep.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A session failed.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// A schema could not be taken.
    #[error(transparent)]
    Owner(#[from] owner::Error),
    /// The workload failed.
    #[error(transparent)]
    Workload(#[from] workload::Error),
    /// The pipeline failed.
    #[error(transparent)]
    Pipeline(#[from] pipeline::Error),
    /// A probe could not start.
    #[error(transparent)]
    Probe(#[from] probe::Error),
    /// Verification failed to run.
    #[error(transparent)]
    Verify(#[from] super::verify::Error),
    /// The pipeline ended by itself.
    #[error("keep the pipeline running: {why}")]
    PipelineEnded {
        /// What it said last.
        why: String,
        /// Class of its failure.
        class: ErrorClass,
    },
    /// A server did not answer.
    #[error("reach the {end} for {seconds} s: {source}")]
    Silent {
        /// `source` or `target`.
        end: &'static str,
        /// How long it was silent.
        seconds: u64,
        /// What the last look at it gave.
        source: session::Error,
    },
    /// A server's process ended.
    #[error("keep the {end} running: its process {pid} ended")]
    Gone {
        /// `source` or `target`.
        end: String,
        /// Process id.
        pid: u32,
    },
    /// Something did not happen in time.
    #[error("see {what} within {seconds:.0} s")]
    TooLate {
        /// What was waited for.
        what: &'static str,
        /// The limit.
        seconds: f64,
    },
    /// Files of the trial could not be handled.
    #[error("{what} {path}: {source}")]
    Files {
        /// What was tried, such as `remove`.
        what: &'static str,
        /// Which.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The task cannot be run as asked.
    #[error("run model {model}: {why}")]
    Unfit {
        /// Model.
        model: &'static str,
        /// Why not.
        why: String,
    },
    /// Ctrl-C.
    #[error("finish: interrupted")]
    Interrupted,
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::Owner(error) => error.class(),
            Error::Workload(error) => error.class(),
            Error::Pipeline(error) => error.class(),
            Error::Probe(error) => error.class(),
            Error::Verify(error) => error.class(),
            Error::PipelineEnded { class, .. } => *class,
            Error::TooLate { .. }
            | Error::Interrupted
            | Error::Silent { .. }
            | Error::Gone { .. }
            | Error::Files { .. } => ErrorClass::Lab,
            Error::Unfit { .. } => ErrorClass::User,
        }
    }
}
