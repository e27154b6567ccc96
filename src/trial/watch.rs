//! Which probes watch a trial.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch as channel;
use tokio_util::sync::CancellationToken;

use crate::pipeline::Progress;
use crate::probe::{Counters, ProbePlan, Sample, Sampler};
use crate::telemetry::Gauges;
use crate::trial::bench::{Bench, META_SCHEMA};
use crate::trial::replica::Replica;
use crate::trial::{Error, again};

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

/// Starts the probes. Ctrl-C does not end them: they watch an interrupted trial drain.
pub(super) async fn watch(bench: &Bench, watched: &Watched) -> Result<Sampler, Error> {
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
    // Nothing counts yet, so that probes may start twice.
    again(&CancellationToken::new(), async || {
        let counters = counters(watched, &bench.gauges);
        Ok(Sampler::start(plan.clone(), counters, &CancellationToken::new()).await?)
    })
    .await
}

fn counters(watched: &Watched, gauges: &Gauges) -> Counters {
    let (workload, progress) = (watched.counters.clone(), watched.progress.clone());
    let shown = watched.counters.clone();
    let (gauges, before) = (gauges.clone(), Mutex::new(None));
    Counters {
        committed_ops: Box::new(move || workload.as_ref().map_or(0, |c| c.committed())),
        applied_rows: Box::new(move || progress.as_ref().map_or(0, |p| p.borrow().rows)),
        on_sample: Box::new(move |sample| {
            let workload = shown.as_ref().map(|c| (c.offered(), c.committed(), c.row_changes()));
            let (offered, committed, rows) = workload.unwrap_or_default();
            gauges.set_workload(offered, committed, rows);
            let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
            show(&gauges, before.replace(sample.clone()).as_ref(), sample);
        }),
    }
}

/// Shows a sample on `/metrics`; rates are over the time since the sample before.
fn show(gauges: &Gauges, before: Option<&Sample>, now: &Sample) {
    gauges.set_applied_rows(now.applied_rows);
    let microseconds = |us: u128| Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX));
    for (clock, lag) in [("marker", now.marker_age_us), ("checkpoint", now.checkpoint_lag_us)] {
        if let Some(lag) = lag {
            gauges.set_lag(clock, microseconds(lag));
        }
    }
    if let Some(bytes) = now.bytes_behind {
        gauges.set_backlog_bytes(bytes);
    }
    let Some(before) = before else { return };
    let seconds = now.t_s - before.t_s;
    for (process, cpu_s) in &now.cpu_s {
        if let Some(earlier) = before.cpu_s.get(process)
            && seconds > 0.0
        {
            gauges.set_process_cpu(process, (cpu_s - earlier) / seconds);
        }
    }
}
