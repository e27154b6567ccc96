//! Which probes watch a trial.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::pipeline::Progress;
use crate::probe::{Counters, ProbePlan, Sampler};
use crate::trial::Error;
use crate::trial::bench::{Bench, META_SCHEMA};
use crate::trial::replica::Replica;

/// What the probes of a trial look at.
#[derive(Debug)]
pub(super) struct Watched {
    pub process: Option<u32>,
    pub progress: Option<channel::Receiver<Progress>>,
    pub counters: Option<std::sync::Arc<crate::workload::Counters>>,
    pub marker_interval: Option<Duration>,
    pub checkpoint_table: Option<String>,
    pub samples: Option<PathBuf>,
}

impl Watched {
    /// Processes and statement counters only.
    pub(super) fn without_marker(replica: &Replica) -> Watched {
        Watched {
            process: replica.process_id(),
            progress: Some(replica.progress()),
            counters: None,
            marker_interval: None,
            checkpoint_table: None,
            samples: None,
        }
    }
}

/// Name of the checkpoint table of a pipeline.
pub(super) fn checkpoint_table(pipeline: &str) -> String {
    format!("{pipeline}_syncer_checkpoint")
}

/// Starts the probes.
pub(super) async fn watch(
    bench: &Bench,
    watched: &Watched,
    cancel: &CancellationToken,
) -> Result<Sampler, Error> {
    let mut processes = bench.lab.processes.clone();
    if let Some(pid) = watched.process {
        processes.push(("pipeline".to_owned(), pid));
    }
    let (source, target) = bench.ends();
    let plan = ProbePlan {
        source: source.clone(),
        target: target.clone(),
        meta_schema: META_SCHEMA.to_owned(),
        checkpoint_table: watched.checkpoint_table.clone(),
        schema: bench.schema.clone(),
        marker_interval: watched.marker_interval,
        processes,
        samples: watched.samples.clone(),
    };
    let (workload, progress) = (watched.counters.clone(), watched.progress.clone());
    let counters = Counters {
        committed_ops: Box::new(move || workload.as_ref().map_or(0, |c| c.committed())),
        applied_rows: Box::new(move || progress.as_ref().map_or(0, |p| p.borrow().rows)),
    };
    Ok(Sampler::start(plan, counters, cancel).await?)
}
