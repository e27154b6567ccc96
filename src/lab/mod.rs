//! Where a trial runs: the user's own servers, or the private ones of a sandbox with the network put
//! between them.
//!
//! A lab names both ends and how a pipeline reaches them. It knows nothing of workloads, pipelines
//! or probes.

mod error;
pub mod facts;
pub mod file;
mod hold;
pub mod leftover;
pub mod prompt;
pub mod proxy;
pub mod sandbox;
pub mod survey;

use std::collections::BTreeMap;

pub use error::Error;
pub use file::LabFile;
pub use hold::{Hold, LOCK, are_one_cluster};

use crate::mysql::{Endpoint, Session};
use crate::record::LabFacts;

/// Both ends of a trial, as each party reaches them.
#[derive(Debug, Clone)]
pub struct Lab {
    /// The source, directly: for workload, probes and verification.
    pub source: Endpoint,
    /// The target, directly: for probes and verification.
    pub target: Endpoint,
    /// The source as the pipeline reaches it: through the delay proxy where one is asked for.
    pub source_for_pipeline: Endpoint,
    /// The target as the pipeline reaches it: through the delay proxy where one is asked for.
    pub target_for_pipeline: Endpoint,
    /// Processes of this machine that belong to the lab: `source` or `target`, and the process id.
    pub processes: Vec<(String, u32)>,
    /// What is emulated, ready to print: `target-round-trip` = `2 ms asked, 2.09 ms measured …`.
    pub emulated: BTreeMap<String, String>,
    /// [`Lab::SANDBOX`] or [`Lab::OWN`].
    pub kind: String,
}

impl Lab {
    /// The kind of labs that dmbench starts itself.
    pub const SANDBOX: &str = "sandbox";
    /// The kind of labs that dmbench does not start itself.
    pub const OWN: &str = LabFacts::OWN;

    /// Waits until both servers answer.
    ///
    /// # Errors
    /// When one does not within [`RETRY_LIMIT`](crate::mysql::patience::RETRY_LIMIT).
    pub async fn reach(&self) -> Result<(), Error> {
        for endpoint in [&self.source, &self.target] {
            Session::reach(endpoint).await?.close().await;
        }
        Ok(())
    }

    /// Connects to both ends as the pipeline does, which works on this machine. Once, since nobody
    /// says that they were there before.
    ///
    /// # Errors
    /// When one cannot be reached.
    pub async fn try_as_pipeline(&self) -> Result<(), Error> {
        for endpoint in [&self.source_for_pipeline, &self.target_for_pipeline] {
            Session::connect(endpoint).await?.close().await;
        }
        Ok(())
    }

    /// Whether these are the user's own servers.
    pub fn is_own(&self) -> bool {
        self.kind == Lab::OWN
    }
}
