//! Between reader and workers: finds each row's worker, and the barriers around it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::mysql::Position;
use crate::pipeline::builtin::checkpoint::{Checkpoint, Checkpoints};
use crate::pipeline::builtin::sync::apply::Applier;
use crate::pipeline::builtin::sync::change::{Change, Ddl, RowChange};
use crate::pipeline::builtin::sync::conflict::{Conflicts, Place};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::retry::Retry;
use crate::pipeline::builtin::sync::stage::{Counters, count};
use crate::pipeline::builtin::sync::tracker::Tracker;
use crate::pipeline::builtin::sync::worker::Job;

/// The one task that sees all changes in order.
pub(super) struct Dispatcher<C, A> {
    pub(super) chunks: mpsc::Receiver<Vec<Change>>,
    pub(super) queues: Vec<mpsc::Sender<Job>>,
    /// Workers answer barriers here.
    pub(super) passed: mpsc::Receiver<()>,
    pub(super) conflicts: Conflicts,
    pub(super) tracker: Arc<Tracker>,
    pub(super) counters: Arc<Counters>,
    pub(super) checkpoints: C,
    /// A connection for DDL.
    pub(super) definer: A,
    /// Time between checkpoints.
    pub(super) interval: Duration,
    /// End of the last transaction, or of what was passed since: where one could resume.
    pub(super) boundary: Position,
    /// Position of the stored checkpoint.
    pub(super) saved: Position,
    /// Changes before this may be on the target already; `None` when that is over.
    pub(super) safe_until: Option<Position>,
    pub(super) flushed: Instant,
    /// Ticket and rows of the transaction at hand.
    pub(super) open: Option<(u64, u64)>,
    pub(super) keys: Vec<u64>,
}

impl<C: Checkpoints, A: Applier> Dispatcher<C, A> {
    /// Works until `drain` is ready; then stops at the end of the transaction at hand, waits until
    /// all is applied and stores a last checkpoint.
    ///
    /// # Errors
    /// When the reader ended, a worker is gone, a DDL fails or a checkpoint cannot be stored.
    pub(super) async fn run(mut self, drain: impl Future<Output = ()>) -> Result<(), Error> {
        let mut drain = pin!(drain);
        let mut draining = false;
        while !(draining && self.open.is_none()) {
            let waited = Instant::now();
            let stale = self.open.is_none() && self.boundary != self.saved;
            tokio::select! {
                biased;
                () = &mut drain, if !draining => draining = true,
                () = tokio::time::sleep_until(self.flushed + self.interval), if stale => {
                    self.flush(false).await?;
                }
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
        self.flush(true).await
    }

    async fn take(&mut self, chunk: Vec<Change>, draining: bool) -> Result<(), Error> {
        let began = Instant::now();
        for change in chunk {
            match change {
                Change::Row(row) => self.dispatch(row).await?,
                Change::Commit { end } => {
                    if let Some((ticket, rows)) = self.open.take() {
                        self.tracker.close(ticket, rows, end.clone());
                    }
                    self.come_to(end);
                    if self.flushed.elapsed() >= self.interval {
                        self.flush(false).await?;
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

    fn come_to(&mut self, end: Position) {
        if self.safe_until.as_ref().is_some_and(|until| end.reached(until)) {
            self.safe_until = None;
        }
        self.boundary = end;
    }

    async fn dispatch(&mut self, mut row: RowChange) -> Result<(), Error> {
        let (ticket, rows) = match &mut self.open {
            Some(open) => open,
            None => {
                self.counters.idle.store(false, Relaxed);
                self.open.insert((self.tracker.begin(), 0))
            }
        };
        *rows += 1;
        row.ticket = *ticket;
        row.safe = self.safe_until.is_some();
        let worker = self.place(&row).await?;
        self.counters.conflict.add_items(1);
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

    /// The worker for a row, behind as many barriers as it needs.
    async fn place(&mut self, row: &RowChange) -> Result<usize, Error> {
        loop {
            self.keys.clear();
            if !row.images().all(|image| row.table.add_keys(image, &mut self.keys)) {
                self.barrier().await?;
                continue;
            }
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

    /// A barrier, then a checkpoint at the boundary. `orderly`: nothing is applied behind it.
    async fn flush(&mut self, orderly: bool) -> Result<(), Error> {
        self.flushed = Instant::now();
        if self.boundary == self.saved && !orderly {
            return Ok(());
        }
        self.barrier().await?;
        if self.open.is_some() || !self.tracker.is_idle() {
            return Err(Error::Order { what: "rows are under way behind a barrier" });
        }
        let began = Instant::now();
        let checkpoint = Checkpoint {
            position: self.boundary.clone(),
            exit_safe: orderly.then(|| self.boundary.clone()),
        };
        self.save(&checkpoint).await?;
        self.saved = checkpoint.position;
        self.counters.durable.set(self.saved.clone());
        self.counters.checkpoint.add_busy(began.elapsed());
        self.counters.checkpoint.add_items(1);
        self.flushed = Instant::now();
        Ok(())
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let mut retry = Retry::new();
        while let Err(error) = self.checkpoints.save(checkpoint).await {
            retry.after(error).await?;
            while let Err(error) = self.checkpoints.recover().await {
                retry.after(error).await?;
            }
        }
        Ok(())
    }

    /// Executes a DDL between two checkpoints, so that a crash repeats nothing but itself.
    async fn define(&mut self, mut ddl: Ddl) -> Result<(), Error> {
        self.flush(false).await?;
        let mut retry = Retry::new();
        let mut safe = self.safe_until.is_some();
        while let Err(error) = self.definer.define(&ddl, safe).await {
            // A connection may break behind the DDL as well as before it.
            safe = true;
            retry.after(error).await?;
            while let Err(error) = self.definer.recover().await {
                retry.after(error).await?;
            }
        }
        count(&self.counters.ddl, 1);
        self.tracker.pass(ddl.end.clone());
        self.come_to(ddl.end.clone());
        self.flush(false).await?;
        if let Some(executed) = ddl.executed.take() {
            let _ = executed.send(());
        }
        Ok(())
    }
}
