//! The parts of the sync unit put together, run and taken apart.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::pipeline::Progress;
use crate::pipeline::builtin::Sync;
use crate::pipeline::builtin::checkpoint::Checkpoints;
use crate::pipeline::builtin::sync::apply::{Applier, Timing};
use crate::pipeline::builtin::sync::change::{Change, ChangeStream};
use crate::pipeline::builtin::sync::compact::Compactor;
use crate::pipeline::builtin::sync::conflict::Conflicts;
use crate::pipeline::builtin::sync::define::Definer;
use crate::pipeline::builtin::sync::dispatch::Dispatcher;
use crate::pipeline::builtin::sync::error::{Error, ended};
use crate::pipeline::builtin::sync::reader::{ROOM, Reader};
use crate::pipeline::builtin::sync::run::Synced;
use crate::pipeline::builtin::sync::safety::Safety;
use crate::pipeline::builtin::sync::saver::Saver;
use crate::pipeline::builtin::sync::stage::{Counters, get};
use crate::pipeline::builtin::sync::start::Start;
use crate::pipeline::builtin::sync::tracker::Tracker;
use crate::pipeline::builtin::sync::watch::Watched;
use crate::pipeline::builtin::sync::worker::{Job, Worker};

/// The exchangeable parts of the unit.
pub(super) struct Parts<S, A, D, C> {
    pub(super) stream: S,
    /// One for each worker.
    pub(super) appliers: Vec<A>,
    pub(super) definer: D,
    pub(super) checkpoints: C,
}

/// How much may wait where. As in DM (`calculateChanSize` in `dm/syncer/syncer.go`) about `queue-size`
/// times `worker-count` rows wait on their way to the workers and `queue-size` between. What DM keeps
/// behind its compactor waits ahead of it here: in both places nothing is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Capacity {
    /// Changes in a chunk.
    chunk: usize,
    /// Chunks between reader and dispatcher.
    chunks: usize,
    /// Changes that wait to be compacted; `None` without `compact`.
    waiting: Option<usize>,
    /// Rows in one worker's queue.
    queue: usize,
}

impl Capacity {
    fn of(settings: &Sync, worker_count: usize) -> Capacity {
        let size = settings.queue_size.max(1) as usize;
        let read = size * worker_count / 2 + size;
        let chunk = (read / 16).clamp(1, 128);
        let share = if settings.compact { 4 } else { 2 };
        Capacity {
            chunk,
            chunks: (read / chunk).max(1),
            waiting: settings.compact.then(|| (size * worker_count / 4).max(1)),
            queue: (size / share).max(1),
        }
    }
}

/// What all parts share.
#[derive(Debug, Clone)]
struct Shared {
    counters: Arc<Counters>,
    tracker: Arc<Tracker>,
}

/// Runs reader, dispatcher and workers until `drain` is ready and all is applied.
pub(super) async fn drive<S: ChangeStream, A: Applier, D: Definer, C: Checkpoints>(
    settings: &Sync,
    start: Start,
    parts: Parts<S, A, D, C>,
    progress: &watch::Sender<Progress>,
    drain: impl Future<Output = ()>,
) -> Result<Synced, Error> {
    let worker_count = parts.appliers.len();
    let capacity = Capacity::of(settings, worker_count);
    let tracker = Arc::new(Tracker::new(start.position.clone()));
    let shared = Shared { counters: Arc::default(), tracker };
    let mut running = Running::default();
    let chunks = running.start_reader(parts.stream, capacity, &shared);
    let (queues, passed) = running.start_workers(parts.appliers, settings, capacity, &shared);
    let lines = Lines { chunks, queues, passed };
    let saver = Saver::new(parts.checkpoints);
    let dispatcher = dispatcher(settings, start, capacity, &shared, lines, parts.definer, saver);
    let watched = Watched {
        counters: &shared.counters,
        tracker: &shared.tracker,
        chunks: capacity.chunks as u64,
        queue_cap: (capacity.queue * worker_count + capacity.waiting.unwrap_or(0)) as u64,
        progress,
    };
    let ended_with = tokio::select! {
        result = running.join(dispatcher.run(drain)) => result,
        never = watched.publish_forever() => match never {},
    };
    watched.publish();
    let (timing, serial) = ended_with?;
    Ok(shared.synced(timing, serial))
}

impl Shared {
    /// What was done, now that all of it is.
    fn synced(&self, timing: Timing, serial: BTreeSet<String>) -> Synced {
        let counters = &self.counters;
        Synced {
            rows: get(&counters.rows),
            bytes: counters.reader.bytes(),
            statements: get(&counters.statements),
            transactions: get(&counters.transactions),
            transaction: timing.transaction,
            statement: timing.statement,
            conflicts: get(&counters.conflicts),
            mismatched: get(&counters.mismatched),
            repeated: get(&counters.repeated),
            compacted: get(&counters.compacted),
            serial: serial.into_iter().collect(),
            retries: counters.retries().total(),
            ddl: get(&counters.ddl),
            source_transactions: self.tracker.completed(),
            position: self.tracker.applied(),
        }
    }
}

/// The dispatcher's ends of all queues.
struct Lines {
    chunks: mpsc::Receiver<Vec<Change>>,
    queues: Vec<mpsc::Sender<Job>>,
    passed: mpsc::Receiver<()>,
}

fn dispatcher<C: Checkpoints, D: Definer>(
    settings: &Sync,
    start: Start,
    capacity: Capacity,
    shared: &Shared,
    lines: Lines,
    definer: D,
    saver: Saver<C>,
) -> Dispatcher<C, D> {
    let lasts_until = start.safe_for.map(|duration| Instant::now() + duration);
    Dispatcher {
        chunks: lines.chunks,
        conflicts: Conflicts::new(lines.queues.len()),
        queues: lines.queues,
        passed: lines.passed,
        compactor: capacity.waiting.map(Compactor::new),
        tracker: Arc::clone(&shared.tracker),
        counters: Arc::clone(&shared.counters),
        saver,
        definer,
        interval: settings.checkpoint_flush_interval,
        asynchronous: settings.async_checkpoint_flush,
        snapshot: None,
        boundary: start.position.clone(),
        saved: start.position,
        safety: Safety::new(settings.safe_mode, start.replay_until, lasts_until),
        pending: start.pending,
        flushed: Instant::now(),
        open: None,
        keys: Vec::new(),
        serial: BTreeSet::new(),
    }
}

/// Reader and workers.
#[derive(Default)]
struct Running {
    reader: JoinSet<Result<(), Error>>,
    workers: JoinSet<Result<Timing, Error>>,
}

impl Running {
    fn start_reader(
        &mut self,
        stream: impl ChangeStream,
        capacity: Capacity,
        shared: &Shared,
    ) -> mpsc::Receiver<Vec<Change>> {
        let (sender, chunks) = mpsc::channel(capacity.chunks);
        let reader = Reader {
            chunks: sender,
            chunk: capacity.chunk,
            room: Arc::new(Semaphore::new(ROOM)),
            counters: Arc::clone(&shared.counters),
        };
        self.reader.spawn(reader.run(stream));
        chunks
    }

    fn start_workers<A: Applier>(
        &mut self,
        appliers: Vec<A>,
        settings: &Sync,
        capacity: Capacity,
        shared: &Shared,
    ) -> (Vec<mpsc::Sender<Job>>, mpsc::Receiver<()>) {
        let (sender, passed) = mpsc::channel(appliers.len());
        let mut queues = Vec::with_capacity(appliers.len());
        for applier in appliers {
            let (queue_sender, queue) = mpsc::channel(capacity.queue);
            queues.push(queue_sender);
            let worker = Worker {
                queue,
                passed: sender.clone(),
                batch: settings.batch.max(1) as usize,
                tracker: Arc::clone(&shared.tracker),
                counters: Arc::clone(&shared.counters),
            };
            self.workers.spawn(worker.run(applier));
        }
        (queues, passed)
    }

    /// Runs the dispatcher to its end, then lets the workers end. The error of the part that failed
    /// first in the chain of causes wins over "it ended".
    async fn join<T>(
        &mut self,
        dispatch: impl Future<Output = Result<T, Error>>,
    ) -> Result<(Timing, T), Error> {
        // A worker that ends while the dispatcher runs failed; waiting for the dispatcher could be
        // for ever, since it may wait for that worker.
        let dispatched = tokio::select! {
            dispatched = dispatch => dispatched,
            Some(worker) = self.workers.join_next() => {
                worker.map_err(ended)??;
                return Err(Error::Ended { part: "a worker" });
            }
        };
        if let Err(Error::Ended { .. }) = dispatched {
            while let Some(worker) = self.workers.join_next().await {
                worker.map_err(ended)??;
            }
            while let Some(reader) = self.reader.join_next().await {
                reader.map_err(ended)??;
            }
        }
        let dispatched = dispatched?;
        self.reader.shutdown().await;
        let mut timing = Timing::default();
        while let Some(worker) = self.workers.join_next().await {
            let worker = worker.map_err(ended)??;
            timing.transaction.merge(&worker.transaction);
            timing.statement.merge(&worker.statement);
        }
        Ok((timing, dispatched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of DM's queues in all (16,384 + 1,024 at defaults).
    #[test]
    fn as_many_rows_wait_as_in_dm() {
        for compact in [false, true] {
            let settings = Sync { compact, ..Sync::default() };
            let capacity = Capacity::of(&settings, 16);
            let read = capacity.chunk * capacity.chunks;
            let all = read + capacity.waiting.unwrap_or(0) + capacity.queue * 16;
            assert_eq!(all, 16 * 1024 + 1024, "{capacity:?}");
            assert_eq!(capacity.queue, if compact { 256 } else { 512 });
        }
        let least = Capacity::of(&Sync { queue_size: 1, compact: true, ..Sync::default() }, 1);
        assert_eq!(least, Capacity { chunk: 1, chunks: 1, waiting: Some(1), queue: 1 });
    }
}
