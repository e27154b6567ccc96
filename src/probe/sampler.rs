//! The owner of all probes of one trial.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mysql::Endpoint;
use crate::probe::jobs::{
    CheckpointProbe, count_statements, follow_source, open_samples, write_samples,
};
use crate::probe::line::{Failures, Line};
use crate::probe::observed::{Observed, observe};
use crate::probe::sample::Sample;
use crate::probe::state::{Hosts, Stage, State, Watched, lock};
use crate::probe::{Error, checkpoint, host, marker, statements};

/// What to watch.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// The source, reached directly.
    pub source: Endpoint,
    /// The target, reached directly.
    pub target: Endpoint,
    /// Schema of the checkpoint table at the target.
    pub meta_schema: String,
    /// The checkpoint table; `None` where the pipeline has none.
    pub checkpoint_table: Option<String>,
    /// Schema of the marker table, made by [`marker::create_table`].
    pub schema: String,
    /// Time between two markers; `None` writes none and measures no lag by markers.
    pub marker_interval: Option<Duration>,
    /// Processes on this machine by name (`source`, `target`, `pipeline`); this one, called
    /// `generator`, which holds the probes and the delay proxy too, is always watched.
    pub processes: Vec<(String, u32)>,
    /// Where samples go, one JSON object a line.
    pub samples: Option<PathBuf>,
}

/// The trial's side of sampling: counters of its work, which grow and never fall, and an ear.
pub struct Counters {
    /// Ops that the workload has committed on the source.
    pub committed_ops: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Row changes that the pipeline says are applied.
    pub applied_rows: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Told each sample; must not block.
    pub on_sample: Box<dyn Fn(&Sample) + Send + Sync>,
}

impl Counters {
    /// Counters that stay at 0, and nobody who listens.
    pub fn none() -> Counters {
        Counters {
            committed_ops: Box::new(|| 0),
            applied_rows: Box::new(|| 0),
            on_sample: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counters")
    }
}

/// The probes of one trial, running. Dropping it ends them and loses what they saw.
pub struct Sampler {
    state: Arc<State>,
    jobs: JoinSet<()>,
    writer: JoinSet<()>,
    no_more_markers: CancellationToken,
    cancel: CancellationToken,
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Connects and begins to watch; nothing counts before [`Sampler::mark_window_begin`].
    /// Cancelling ends the probes; [`Sampler::stop`] still tells what they saw.
    ///
    /// # Errors
    /// When an end cannot be reached, the marker table is not there, or the samples file cannot be
    /// made. What fails later is counted and becomes a finding.
    pub async fn start(
        plan: ProbePlan,
        counters: Counters,
        cancel: &CancellationToken,
    ) -> Result<Sampler, Error> {
        let cancel = cancel.child_token();
        let no_more_markers = cancel.child_token();
        let samples = match &plan.samples {
            Some(path) => Some(
                open_samples(path)
                    .await
                    .map_err(|source| Error::Samples { path: path.clone(), source })?,
            ),
            None => None,
        };
        let markers = match plan.marker_interval {
            Some(every) => Some(marker::open_writer(&plan.source, &plan.schema, every).await?),
            None => None,
        };
        let (writer, shared) = markers.unzip();
        let state = Arc::new(state(&plan, counters, shared));
        let mut sampler = Sampler {
            state: Arc::clone(&state),
            jobs: JoinSet::new(),
            writer: JoinSet::new(),
            no_more_markers,
            cancel,
        };
        sampler.spawn_readers(&plan).await?;
        sampler.jobs.spawn(write_samples(samples, state, sampler.cancel.clone()));
        if let Some(writer) = writer {
            sampler.writer.spawn(writer.run(sampler.no_more_markers.clone()));
        }
        Ok(sampler)
    }

    async fn spawn_readers(&mut self, plan: &ProbePlan) -> Result<(), Error> {
        let (state, cancel) = (&self.state, &self.cancel);
        let line = Line::open(&plan.source).await?;
        self.jobs.spawn(follow_source(line, Arc::clone(state), cancel.clone()));
        match plan.target.cluster {
            None => {
                let line = Line::open(&plan.target).await?;
                self.jobs.spawn(count_statements(line, Arc::clone(state), cancel.clone()));
            }
            Some(_) => lock(&state.statements).uncounted = Some(statements::SEVERAL_ADDRESSES),
        }
        if let Some(table) = &plan.checkpoint_table {
            let probe = CheckpointProbe {
                target: Line::open(&plan.target).await?,
                source: Line::open(&plan.source).await?,
                sql: checkpoint::select(&plan.meta_schema, table),
                files: Vec::new(),
            };
            self.jobs.spawn(probe.run(Arc::clone(state), cancel.clone()));
        }
        if let Some(markers) = &state.markers {
            let markers = Arc::clone(markers);
            let poller = marker::Poller::open(&plan.target, &plan.schema, markers).await?;
            let state = Arc::clone(state);
            self.jobs.spawn(poller.run(move || state.executed_by_target(), cancel.clone()));
        }
        Ok(())
    }

    /// From now on readings count.
    pub fn mark_window_begin(&self) {
        let mut hosts = lock(&self.state.hosts);
        hosts.read();
        hosts.begin = Some(host::machine());
        for watched in &mut hosts.processes {
            watched.begin = watched.latest;
        }
        drop(hosts);
        let now = Instant::now();
        lock(&self.state.marks).begin = Some((now, self.state.counts()));
        if let Some(markers) = &self.state.markers {
            lock(&markers.ledger).begin_ages(now);
        }
        self.state.stage.send_replace(Stage::Within);
    }

    /// From now on readings do not count any more. A marker committed before still counts with the
    /// lag that it turns out to have. Markers go on until [`Sampler::end_markers`].
    pub fn mark_window_end(&self) {
        let now = Instant::now();
        self.state.stage.send_replace(Stage::After);
        lock(&self.state.marks).end = Some((now, self.state.counts()));
        if let Some(markers) = &self.state.markers {
            lock(&markers.ledger).end_ages(now);
        }
        let mut hosts = lock(&self.state.hosts);
        hosts.read();
        hosts.end = Some(host::machine());
    }

    /// Writes no more markers and waits until the last one is acknowledged, so that the source is
    /// quiet as far as probes go. To be called before the source's end position is read.
    pub async fn end_markers(&mut self) {
        self.no_more_markers.cancel();
        while self.writer.join_next().await.is_some() {}
    }

    /// Markers that were acknowledged and that the target has not shown yet.
    pub fn markers_outstanding(&self) -> u64 {
        self.state.markers.as_ref().map_or(0, |markers| lock(&markers.ledger).outstanding())
    }

    /// Ends all probes and tells what they saw.
    pub async fn stop(mut self) -> Observed {
        let stage = *self.state.stage.borrow();
        if stage == Stage::Within {
            self.mark_window_end();
        }
        self.end_markers().await;
        self.wait_for_statements().await;
        let now = Instant::now();
        self.cancel.cancel();
        while self.jobs.join_next().await.is_some() {}
        observe(&self.state, now)
    }

    /// The counters of the target are read by a job of their own after the window has ended: a
    /// sampler stopped at once waits for it, but not for a target that does not answer.
    async fn wait_for_statements(&self) {
        const MOST: Duration = Duration::from_secs(2);
        let began = Instant::now();
        let is_open = || {
            let statements = lock(&self.state.statements);
            let answered = statements.end.is_some() || statements.uncounted.is_some();
            *self.state.stage.borrow() == Stage::After
                && !answered
                && self.state.statement_failures.count() == 0
        };
        while is_open() && began.elapsed() < MOST && !self.cancel.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn watched(name: &str, pid: u32) -> Watched {
    let latest = host::process(pid);
    Watched { name: name.to_owned(), pid, begin: latest, latest }
}

fn state(plan: &ProbePlan, counters: Counters, markers: Option<Arc<marker::Shared>>) -> State {
    let own = ("generator".to_owned(), std::process::id());
    let processes = plan.processes.iter().chain([&own]);
    let processes = processes.map(|(name, pid)| watched(name, *pid)).collect();
    State {
        started: Instant::now(),
        stage: watch::Sender::new(Stage::Before),
        marks: std::sync::Mutex::default(),
        counters,
        track: std::sync::Mutex::default(),
        checkpoints: std::sync::Mutex::default(),
        statements: std::sync::Mutex::default(),
        hosts: std::sync::Mutex::new(Hosts { processes, ..Hosts::default() }),
        markers,
        own_statements: AtomicU64::new(0),
        position_failures: Failures::default(),
        checkpoint_failures: Failures::default(),
        statement_failures: Failures::default(),
        sample_failure: std::sync::Mutex::default(),
    }
}
