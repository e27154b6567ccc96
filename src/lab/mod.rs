//! Where a trial runs: the private servers of a sandbox, and the network put between them.
//!
//! A lab names both ends and how a pipeline reaches them. It knows nothing of workloads, pipelines
//! or probes.

mod error;
pub mod facts;
pub mod proxy;
pub mod sandbox;

use std::collections::BTreeMap;

pub use error::Error;

use crate::mysql::{Endpoint, Session};

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
    /// `sandbox`.
    pub kind: String,
}

impl Lab {
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
}
