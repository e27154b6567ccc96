//! Who watches: positions, checkpoint, markers, hosts, statements; and the sampler that owns them.
//!
//! A probe reads facts from outside on a schedule and states its resolution. It never decides
//! whether a trial is good, and a read that fails is counted and told, never hidden and never fatal.

mod checkpoint;
mod host;
mod jobs;
mod ledger;
mod line;
pub mod marker;
mod observed;
mod position;
mod sample;
mod sampler;
mod state;
mod statements;

pub use checkpoint::Standing;
pub use observed::Observed;
pub use position::SourceTrack;
pub use sample::Sample;
pub use sampler::{Counters, ProbePlan, Sampler};

use std::path::PathBuf;

use crate::error::ErrorClass;

/// A failure to begin watching. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server refused.
    #[error(transparent)]
    Session(#[from] crate::mysql::session::Error),
    /// The marker table would go into somebody else's schema.
    #[error("make the marker table in schema {schema} on {endpoint}: dmbench did not make it")]
    NotOurs {
        /// Schema.
        schema: String,
        /// `user@address`.
        endpoint: String,
    },
    /// The samples cannot be kept.
    #[error("write samples to {}: {source}", path.display())]
    Samples {
        /// File.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::NotOurs { .. } | Error::Samples { .. } => ErrorClass::Lab,
        }
    }
}
