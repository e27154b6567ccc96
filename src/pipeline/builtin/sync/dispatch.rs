//! Between reader and workers: finds each row's worker, and the barriers around it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::mysql::Position;
use crate::pipeline::builtin::checkpoint::{Checkpoint, Checkpoints, PendingDdl};
use crate::pipeline::builtin::sync::change::{Change, RowChange};
use crate::pipeline::builtin::sync::compact::Compactor;
use crate::pipeline::builtin::sync::conflict::{Conflicts, Place};
use crate::pipeline::builtin::sync::define::Definer;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::safety::Safety;
use crate::pipeline::builtin::sync::saver::Saver;
use crate::pipeline::builtin::sync::stage::{Counters, count};
use crate::pipeline::builtin::sync::tracker::Tracker;
use crate::pipeline::builtin::sync::worker::Job;

/// How often it is looked whether everything before an asynchronous checkpoint is applied.
const LOOK: Duration = Duration::from_millis(5);

/// The one task that sees all changes in order.
pub(super) struct Dispatcher<C, D> {
    pub(super) chunks: mpsc::Receiver<Vec<Change>>,
    pub(super) queues: Vec<mpsc::Sender<Job>>,
    /// Workers answer barriers here.
    pub(super) passed: mpsc::Receiver<()>,
    /// Where rows wait for room in the queues, with `compact`.
    pub(super) compactor: Option<Compactor>,
    pub(super) conflicts: Conflicts,
    pub(super) tracker: Arc<Tracker>,
    pub(super) counters: Arc<Counters>,
    pub(super) saver: Saver<C>,
    pub(super) definer: D,
    /// Time between checkpoints.
    pub(super) interval: Duration,
    /// Whether rows go on while a checkpoint is due.
    pub(super) asynchronous: bool,
    /// The asynchronous checkpoint that is due, once everything before is applied.
    pub(super) snapshot: Option<Position>,
    /// End of the last transaction, or of what was passed since: where one could resume.
    pub(super) boundary: Position,
    /// Position of the stored checkpoint.
    pub(super) saved: Position,
    pub(super) safety: Safety,
    /// The DDL that comes next and may be executed already.
    pub(super) pending: Option<PendingDdl>,
    pub(super) flushed: Instant,
    /// Ticket and changes of the transaction at hand.
    pub(super) open: Option<(u64, u64)>,
    pub(super) keys: Vec<u64>,
    /// Keys over expressions for which a table's rows keep their order.
    pub(super) serial: BTreeSet<String>,
}

impl<C: Checkpoints, D: Definer> Dispatcher<C, D> {
    /// Works until `drain` is ready; then stops at the end of the transaction at hand, waits until
    /// all is applied and stores a last checkpoint. Gives the keys over expressions that it met.
    ///
    /// # Errors
    /// When the reader ended, a worker is gone, a DDL fails or a checkpoint cannot be stored.
    pub(super) async fn run(
        mut self,
        drain: impl Future<Output = ()>,
    ) -> Result<BTreeSet<String>, Error> {
        let mut drain = pin!(drain);
        let mut draining = false;
        while !(draining && self.open.is_none()) {
            self.look_at_snapshot();
            let full = self.pump().await?;
            let waited = Instant::now();
            let at_rest = self.open.is_none() && self.snapshot.is_none();
            let stale = at_rest && self.boundary != self.saved && !self.saver.is_busy();
            tokio::select! {
                biased;
                () = &mut drain, if !draining => draining = true,
                saved = self.saver.finished(), if self.saver.is_busy() => self.has_saved(saved?),
                () = tokio::time::sleep_until(self.flushed + self.interval), if stale => {
                    self.flush_when_due().await?;
                }
                () = tokio::time::sleep(LOOK), if self.snapshot.is_some() => {}
                ready = room(&self.queues, full), if full.is_some() => ready?,
                chunk = self.chunks.recv() => {
                    self.counters.conflict.add_blocked_in(waited.elapsed());
                    let Some(chunk) = chunk else {
                        if self.open.is_none() {
                            self.flush(true).await?;
                        }
                        return Err(Error::Ended { part: "the reader" });
                    };
                    self.counters.chunks.fetch_sub(1, Relaxed);
                    self.take(chunk, draining).await?;
                }
            }
        }
        self.flush(true).await?;
        Ok(self.serial)
    }

    async fn take(&mut self, chunk: Vec<Change>, draining: bool) -> Result<(), Error> {
        let began = Instant::now();
        self.safety.look_at_the_clock();
        for change in chunk {
            match change {
                Change::Row(row) => self.dispatch(row).await?,
                Change::Commit { end } => {
                    if let Some((ticket, changes)) = self.open.take() {
                        self.tracker.close(ticket, changes, end.clone());
                    }
                    if self.come_to(end) {
                        self.flush(false).await?;
                    } else if self.flushed.elapsed() >= self.interval {
                        self.flush_when_due().await?;
                    }
                }
                Change::Ddl(ddl) => self.define(ddl).await?,
                Change::Passed { end } => {
                    self.tracker.pass(end.clone());
                    self.come_to(end);
                }
                Change::Idle { end } => {
                    self.tracker.pass(end.clone());
                    self.come_to(end);
                    self.counters.idle.store(true, Relaxed);
                }
            }
            if draining && self.open.is_none() {
                break;
            }
        }
        self.counters.conflict.add_busy(began.elapsed());
        Ok(())
    }

    /// Gives `true` when that was the end of safe mode.
    pub(super) fn come_to(&mut self, end: Position) -> bool {
        let left = self.safety.come_to(&end);
        self.boundary = end;
        left
    }

    async fn dispatch(&mut self, mut row: RowChange) -> Result<(), Error> {
        row.ticket = match self.open {
            Some((ticket, _)) => ticket,
            None => {
                self.counters.idle.store(false, Relaxed);
                self.open.insert((self.tracker.begin(), 0)).0
            }
        };
        row.mode = self.safety.mode();
        for key in row.table.expression_keys() {
            let shape = &row.table.shape;
            self.serial.insert(format!("{}.{} ({key})", shape.schema, shape.name));
        }
        if self.compactor.is_none() {
            self.fold(&row).await?;
            self.count_one();
            let worker = self.place().await?;
            return self.send(worker, row).await;
        }
        let identity_changes = row.table.row_key.is_some() && !row.keeps_identity();
        if row.before.is_some() && row.after.is_some() && identity_changes {
            let mut gone = RowChange::new(Arc::clone(&row.table), row.before.take(), None);
            // Both are one change of the source.
            (gone.mode, gone.ticket, gone.weight) = (row.mode, row.ticket, 0);
            self.wait_in_line(gone).await?;
        }
        self.wait_in_line(row).await
    }

    /// One more change is under way for the transaction at hand.
    fn count_one(&mut self) {
        if let Some((_, changes)) = &mut self.open {
            *changes += 1;
        }
    }

    /// Puts a row behind those that wait for room in the queues.
    async fn wait_in_line(&mut self, row: RowChange) -> Result<(), Error> {
        let of_before = self.fold(&row).await?;
        self.count_one();
        let (base, now) = (self.keys[..of_before].to_vec(), self.keys[of_before..].to_vec());
        if let Some(compactor) = &mut self.compactor
            && compactor.push(row, base, now)
        {
            count(&self.counters.compacted, 1);
        }
        while let Some(full) = self.pump().await? {
            if self.compactor.as_ref().is_some_and(|compactor| !compactor.is_full()) {
                break;
            }
            let waited = Instant::now();
            room(&self.queues, Some(full)).await?;
            self.counters.conflict.add_blocked_out(waited.elapsed());
        }
        Ok(())
    }

    /// Hands on rows that wait while their queues have room. Gives the first queue without.
    async fn pump(&mut self) -> Result<Option<usize>, Error> {
        while let Some(waiting) = self.compactor.as_ref().and_then(Compactor::front) {
            waiting.keys(&mut self.keys);
            let worker = self.place().await?;
            if self.queues[worker].capacity() == 0 {
                return Ok(Some(worker));
            }
            if let Some(waiting) = self.compactor.as_mut().and_then(Compactor::pop) {
                self.send(worker, waiting.change).await?;
            }
        }
        Ok(None)
    }

    /// Hands on all rows that wait.
    async fn empty_line(&mut self) -> Result<(), Error> {
        while let Some(full) = self.pump().await? {
            room(&self.queues, Some(full)).await?;
        }
        Ok(())
    }

    async fn send(&mut self, worker: usize, row: RowChange) -> Result<(), Error> {
        self.counters.conflict.add_items(row.weight);
        count(&self.counters.queued, 1);
        let ended = Error::Ended { part: "a worker" };
        match self.queues[worker].try_send(Job::Row(row)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(ended),
            Err(mpsc::error::TrySendError::Full(job)) => {
                let waited = Instant::now();
                let sent = self.queues[worker].send(job).await;
                self.counters.conflict.add_blocked_out(waited.elapsed());
                sent.map_err(|_| ended)
            }
        }
    }

    /// Sets `keys` to those of a row's images, and gives how many of them are of the row before. What
    /// makes a key coarse needs a barrier first.
    async fn fold(&mut self, row: &RowChange) -> Result<usize, Error> {
        loop {
            self.keys.clear();
            let keys = &mut self.keys;
            let mut all = row.before.iter().all(|image| row.table.add_keys(image, keys));
            let of_before = keys.len();
            all = all && row.after.iter().all(|image| row.table.add_keys(image, keys));
            if all {
                return Ok(of_before);
            }
            self.empty_line().await?;
            self.barrier().await?;
        }
    }

    /// The worker for a row with `keys`, behind as many barriers as it needs.
    async fn place(&mut self) -> Result<usize, Error> {
        loop {
            match self.conflicts.place(&self.keys) {
                Place::Worker(worker) => return Ok(worker),
                Place::Conflict => {
                    count(&self.counters.conflicts, 1);
                    self.barrier().await?;
                }
                Place::Full => self.barrier().await?,
            }
        }
    }

    /// Waits until all workers have applied all they have.
    async fn barrier(&mut self) -> Result<(), Error> {
        let waited = Instant::now();
        for queue in &self.queues {
            queue.send(Job::Barrier).await.map_err(|_| Error::Ended { part: "a worker" })?;
        }
        for _ in &self.queues {
            self.passed.recv().await.ok_or(Error::Ended { part: "the workers" })?;
        }
        self.conflicts.clear();
        self.counters.conflict.add_blocked_out(waited.elapsed());
        Ok(())
    }

    async fn flush_when_due(&mut self) -> Result<(), Error> {
        if !self.asynchronous {
            return self.flush(false).await;
        }
        self.flushed = Instant::now();
        if self.snapshot.is_none() && !self.saver.is_busy() && self.boundary != self.saved {
            self.conflicts.rotate();
            self.snapshot = Some(self.boundary.clone());
        }
        Ok(())
    }

    /// Stores the asynchronous checkpoint when everything before it is applied.
    fn look_at_snapshot(&mut self) {
        if !self.saver.is_busy()
            && let Some(snapshot) = self.snapshot.take_if(|at| self.tracker.applied().reached(at))
        {
            self.conflicts.forget_older();
            let pending = self.pending.clone();
            self.saver.begin(Checkpoint { position: snapshot, exit_safe: None, pending });
        }
    }

    fn has_saved(&mut self, checkpoint: Checkpoint) {
        self.saved = checkpoint.position;
        self.counters.durable.set(self.saved.clone());
        self.counters.checkpoint.add_items(1);
    }

    /// A barrier, then a checkpoint at the boundary. `orderly`: nothing is applied behind it.
    pub(super) async fn flush(&mut self, orderly: bool) -> Result<(), Error> {
        self.flushed = Instant::now();
        if self.boundary == self.saved && !orderly {
            return Ok(());
        }
        self.empty_line().await?;
        self.barrier().await?;
        self.snapshot = None;
        if self.open.is_some() || !self.tracker.is_idle() {
            return Err(Error::Order { what: "rows are under way behind a barrier" });
        }
        if self.saver.is_busy() {
            let earlier = self.saver.finished().await?;
            self.has_saved(earlier);
        }
        let began = Instant::now();
        self.saver.begin(Checkpoint {
            position: self.boundary.clone(),
            exit_safe: orderly.then(|| self.boundary.clone()),
            pending: self.pending.clone(),
        });
        let saved = self.saver.finished().await?;
        self.has_saved(saved);
        self.counters.checkpoint.add_busy(began.elapsed());
        self.flushed = Instant::now();
        Ok(())
    }
}

/// Waits until a queue has room; for ever without one.
async fn room(queues: &[mpsc::Sender<Job>], queue: Option<usize>) -> Result<(), Error> {
    match queue {
        Some(queue) => {
            queues[queue].reserve().await.map(drop).map_err(|_| Error::Ended { part: "a worker" })
        }
        None => std::future::pending().await,
    }
}
