//! Starting the sync unit, watching it, ending it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mysql::{Endpoint, Position, Session, owner};
use crate::pipeline::builtin::Sync;
use crate::pipeline::builtin::checkpoint::{Checkpoint, Checkpoints, TableCheckpoints};
use crate::pipeline::builtin::sync::apply::{Applier, SqlApplier, Timing};
use crate::pipeline::builtin::sync::change::ChangeStream;
use crate::pipeline::builtin::sync::conflict::Conflicts;
use crate::pipeline::builtin::sync::dispatch::Dispatcher;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::reader::{CHUNKS, ROOM, Reader};
use crate::pipeline::builtin::sync::stage::{Counters, get};
use crate::pipeline::builtin::sync::stream::{LiveChanges, Origin};
use crate::pipeline::builtin::sync::tracker::Tracker;
use crate::pipeline::builtin::sync::worker::Worker;
use crate::pipeline::{Progress, State, Unit};
use crate::stats::Histogram;

/// How often progress is published.
const PUBLISH: Duration = Duration::from_millis(20);

/// From where to where, and under which names.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Source.
    pub source: Endpoint,
    /// Target.
    pub target: Endpoint,
    /// Schemas to replicate; they exist on the target.
    pub schemas: Vec<String>,
    /// Names the checkpoint table.
    pub name: String,
    /// Schema of the checkpoint table on the target; made when it is missing.
    pub meta_schema: String,
    /// Written into the owner table of the meta schema.
    pub run: String,
    /// Id to register with at the source; no other replica may have it.
    pub server_id: u32,
    /// Where to begin when there is no checkpoint: the position of a snapshot that the target holds.
    pub from: Position,
}

/// What the unit did.
#[derive(Debug, Clone, PartialEq)]
pub struct Synced {
    /// Row changes committed on the target, each counted once per position.
    pub rows: u64,
    /// Bytes of binlog read.
    pub bytes: u64,
    /// Statements that changed rows.
    pub statements: u64,
    /// Transactions committed on the target.
    pub transactions: u64,
    /// Time of a transaction on the target, begin to commit (µs).
    pub transaction: Histogram,
    /// Time of a statement that changes a row (µs).
    pub statement: Histogram,
    /// Barriers over all workers because of shared keys.
    pub conflicts: u64,
    /// Updates and deletes that found no row outside safe mode: the ends differ.
    pub mismatched: u64,
    /// Inserts into tables without a key that may have been executed twice.
    pub repeated: u64,
    /// Transactions on the target that were tried again.
    pub retries: u64,
    /// DDL executed.
    pub ddl: u64,
    /// Source transactions with replicated rows, applied whole.
    pub source_transactions: u64,
    /// Everything before is applied and stored as checkpoint.
    pub position: Position,
}

/// Replicates until `drain` is ready. Resumes from the checkpoint where there is one, else begins at
/// `setup.from`. Connects everything, asks for the binlog, reports [`State::Held`] and waits for
/// `released` before the first event is read. When `drain` is ready it stops at the next
/// transaction's end, waits until all is applied, stores a checkpoint and returns. Progress is
/// published about every 20 ms. After an error or when this future is dropped, running it again
/// goes on from the last checkpoint.
///
/// # Errors
/// [`Error::Cancelled`] at once when `cancel` is; else what could not be read, applied or stored.
pub async fn run(
    settings: &Sync,
    setup: &Setup,
    released: impl Future<Output = ()>,
    progress: &watch::Sender<Progress>,
    drain: impl Future<Output = ()>,
    cancel: &CancellationToken,
) -> Result<Synced, Error> {
    progress.send_replace(Progress::new(Unit::Sync));
    let result = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Error::Cancelled),
        result = replicate(settings, setup, released, progress, drain) => result,
    };
    progress.send_modify(|progress| match &result {
        Ok(_) => progress.state = State::Finished,
        Err(error) => {
            progress.state = State::Failed;
            progress.error = Some(error.to_string());
        }
    });
    result
}

/// Sync writes only into schemas that dmbench made. One that is missing is told by its first table.
async fn refuse_foreign_schemas(setup: &Setup) -> Result<(), Error> {
    let mut target = Session::connect(&setup.target).await?;
    for schema in &setup.schemas {
        if owner::is_ours(&mut target, schema).await? == Some(false) {
            let (schema, endpoint) = (schema.clone(), setup.target.to_string());
            return Err(owner::Error::NotOurs { schema, endpoint }.into());
        }
    }
    target.close().await;
    Ok(())
}

async fn replicate(
    settings: &Sync,
    setup: &Setup,
    released: impl Future<Output = ()>,
    progress: &watch::Sender<Progress>,
    drain: impl Future<Output = ()>,
) -> Result<Synced, Error> {
    refuse_foreign_schemas(setup).await?;
    let mut checkpoints =
        TableCheckpoints::open(&setup.target, &setup.meta_schema, &setup.name, &setup.run).await?;
    let start = Start::find(setup, &mut checkpoints).await?;
    let mut appliers = JoinSet::new();
    for _ in 0..=settings.worker_count.max(1) {
        let target = setup.target.clone();
        appliers.spawn(async move { SqlApplier::connect(&target).await });
    }
    let mut connected = Vec::new();
    while let Some(applier) = appliers.join_next().await {
        connected.push(applier.map_err(ended)??);
    }
    let origin = Origin {
        source: setup.source.clone(),
        target: setup.target.clone(),
        schemas: setup.schemas.clone(),
        server_id: setup.server_id,
    };
    let stream = LiveChanges::open(origin, &start.position).await?;
    progress.send_modify(|progress| {
        progress.state = State::Held;
        progress.read = Some(start.position.clone());
        progress.applied = Some(start.position.clone());
        progress.durable = Some(start.position.clone());
    });
    let mut drain = pin!(drain);
    let drained_while_held = tokio::select! {
        () = released => false,
        () = &mut drain => true,
    };
    progress.send_modify(|progress| progress.state = State::Running);
    let definer = connected.pop().ok_or(Error::Ended { part: "the DDL connection" })?;
    let parts = Parts { stream, appliers: connected, definer, checkpoints };
    let drain = async {
        if !drained_while_held {
            drain.await;
        }
    };
    drive(settings, start, parts, progress, drain).await
}

/// Where replication begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) position: Position,
    /// Changes before this may be on the target already.
    pub(super) safe_until: Option<Position>,
}

impl Start {
    /// From the checkpoint, or from the set position, which is then stored as the first checkpoint:
    /// a crash before the second must not look like a fresh start.
    async fn find(setup: &Setup, checkpoints: &mut impl Checkpoints) -> Result<Start, Error> {
        let Some(found) = checkpoints.load().await? else {
            let first = Checkpoint { position: setup.from.clone(), exit_safe: None };
            checkpoints.save(&first).await?;
            return Ok(Start { position: first.position, safe_until: None });
        };
        let safe_until = if found.exit_safe.as_ref() == Some(&found.position) {
            // Nothing is applied behind it, but from now on that is no longer sure.
            let unsure = Checkpoint { position: found.position.clone(), exit_safe: None };
            checkpoints.save(&unsure).await?;
            None
        } else {
            // What was applied before a crash was committed on the source before now.
            let mut source = Session::connect(&setup.source).await?;
            let now = source.binlog_position().await?;
            source.close().await;
            Some(now).filter(|now| !found.position.reached(now))
        };
        Ok(Start { position: found.position, safe_until })
    }
}

/// The exchangeable parts of the unit.
pub(super) struct Parts<S, A, C> {
    pub(super) stream: S,
    /// One for each worker.
    pub(super) appliers: Vec<A>,
    pub(super) definer: A,
    pub(super) checkpoints: C,
}

/// Runs reader, dispatcher and workers until `drain` is ready and all is applied.
pub(super) async fn drive<S: ChangeStream, A: Applier, C: Checkpoints>(
    settings: &Sync,
    start: Start,
    parts: Parts<S, A, C>,
    progress: &watch::Sender<Progress>,
    drain: impl Future<Output = ()>,
) -> Result<Synced, Error> {
    let counters = Arc::new(Counters::default());
    let tracker = Arc::new(Tracker::new(start.position.clone()));
    let (chunk_sender, chunks) = mpsc::channel(CHUNKS);
    let (passed_sender, passed) = mpsc::channel(parts.appliers.len());
    let worker_count = parts.appliers.len();
    let queue_size = settings.queue_size.max(1) as usize;
    let mut queues = Vec::with_capacity(worker_count);
    let mut workers = JoinSet::new();
    for applier in parts.appliers {
        let (sender, queue) = mpsc::channel(queue_size);
        queues.push(sender);
        let worker = Worker {
            queue,
            passed: passed_sender.clone(),
            batch: settings.batch.max(1) as usize,
            tracker: Arc::clone(&tracker),
            counters: Arc::clone(&counters),
        };
        workers.spawn(worker.run(applier));
    }
    drop(passed_sender);
    let mut reading = JoinSet::new();
    let room = Arc::new(Semaphore::new(ROOM));
    let reader = Reader { chunks: chunk_sender, room, counters: Arc::clone(&counters) };
    reading.spawn(reader.run(parts.stream));
    let dispatcher = Dispatcher {
        chunks,
        queues,
        passed,
        conflicts: Conflicts::new(worker_count),
        tracker: Arc::clone(&tracker),
        counters: Arc::clone(&counters),
        checkpoints: parts.checkpoints,
        definer: parts.definer,
        interval: settings.checkpoint_flush_interval,
        boundary: start.position.clone(),
        saved: start.position,
        safe_until: start.safe_until,
        flushed: Instant::now(),
        open: None,
        keys: Vec::new(),
    };
    let watched = Watched {
        counters: &counters,
        tracker: &tracker,
        queue_cap: (queue_size * worker_count) as u64,
        progress,
    };
    let mut timing = Timing::default();
    let ended_with = {
        let work =
            dispatch_and_join(dispatcher.run(drain), &mut reading, &mut workers, &mut timing);
        tokio::select! {
            result = work => result,
            never = watched.publish_forever() => match never {},
        }
    };
    watched.publish();
    ended_with?;
    Ok(Synced {
        rows: get(&counters.rows),
        bytes: counters.reader.bytes(),
        statements: get(&counters.statements),
        transactions: get(&counters.transactions),
        transaction: timing.transaction,
        statement: timing.statement,
        conflicts: get(&counters.conflicts),
        mismatched: get(&counters.mismatched),
        repeated: get(&counters.repeated),
        retries: get(&counters.retries),
        ddl: get(&counters.ddl),
        source_transactions: tracker.completed(),
        position: tracker.applied(),
    })
}

/// Runs the dispatcher to its end, then lets the workers end. The error of the part that failed
/// first in the chain of causes wins over "it ended".
async fn dispatch_and_join(
    dispatch: impl Future<Output = Result<(), Error>>,
    reading: &mut JoinSet<Result<(), Error>>,
    workers: &mut JoinSet<Result<Timing, Error>>,
    timing: &mut Timing,
) -> Result<(), Error> {
    // A worker that ends while the dispatcher runs failed; waiting for the dispatcher could be for
    // ever, since it may wait for that worker.
    let dispatched = tokio::select! {
        dispatched = dispatch => dispatched,
        Some(worker) = workers.join_next() => {
            worker.map_err(ended)??;
            return Err(Error::Ended { part: "a worker" });
        }
    };
    if let Err(Error::Ended { .. }) = dispatched {
        while let Some(worker) = workers.join_next().await {
            worker.map_err(ended)??;
        }
        while let Some(reader) = reading.join_next().await {
            reader.map_err(ended)??;
        }
    }
    dispatched?;
    reading.shutdown().await;
    while let Some(worker) = workers.join_next().await {
        let worker = worker.map_err(ended)??;
        timing.transaction.merge(&worker.transaction);
        timing.statement.merge(&worker.statement);
    }
    Ok(())
}

fn ended(error: JoinError) -> Error {
    if error.is_panic() {
        // A broken invariant must not look like a lost connection.
        std::panic::resume_unwind(error.into_panic());
    }
    Error::Ended { part: "a task" }
}

/// What the progress report reads.
struct Watched<'a> {
    counters: &'a Counters,
    tracker: &'a Tracker,
    queue_cap: u64,
    progress: &'a watch::Sender<Progress>,
}

impl Watched<'_> {
    async fn publish_forever(&self) -> std::convert::Infallible {
        let mut ticks = tokio::time::interval(PUBLISH);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.publish();
        }
    }

    fn publish(&self) {
        let counters = self.counters;
        // `applied` first: what is read afterwards can only be further.
        let (applied, all_applied) = (self.tracker.applied(), self.tracker.is_idle());
        let idle = counters.idle.load(Relaxed);
        let stages = vec![
            counters.reader.read("reader", 0, 0),
            counters.conflict.read("conflict", get(&counters.chunks), CHUNKS as u64),
            counters.workers.read("workers", get(&counters.queued), self.queue_cap),
            counters.checkpoint.read("checkpoint", 0, 0),
        ];
        self.progress.send_modify(|progress| {
            progress.state = if idle && all_applied { State::CaughtUp } else { State::Running };
            progress.applied = Some(applied);
            progress.read = counters.read.get().or_else(|| progress.read.take());
            progress.durable = counters.durable.get().or_else(|| progress.durable.take());
            progress.rows = get(&counters.rows);
            progress.bytes = counters.reader.bytes();
            progress.transactions = get(&counters.transactions);
            progress.statements = get(&counters.statements);
            progress.conflicts = get(&counters.conflicts);
            progress.stages = stages;
        });
    }
}
