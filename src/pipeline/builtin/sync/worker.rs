//! A worker: takes row changes from its queue and applies them in batches.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::ErrorClass;
use crate::pipeline::builtin::sync::apply::{Applied, Applier, Fate, Timing};
use crate::pipeline::builtin::sync::change::{Mode, RowChange};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::retry::Retry;
use crate::pipeline::builtin::sync::stage::{Counters, count};
use crate::pipeline::builtin::sync::tracker::Tracker;

/// What a worker's queue holds.
#[derive(Debug)]
pub(super) enum Job {
    /// A row to apply.
    Row(RowChange),
    /// Say so when everything before is applied.
    Barrier,
}

/// The surroundings of a worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) passed: mpsc::Sender<()>,
    /// Most rows in one transaction.
    pub(super) batch: usize,
    pub(super) tracker: Arc<Tracker>,
    pub(super) counters: Arc<Counters>,
}

impl Worker {
    /// Works until the queue is closed and empty. As in DM, a batch is executed when it is full or
    /// when the queue has no more, whichever is first.
    ///
    /// # Errors
    /// When a batch cannot be applied; what the queue still holds is lost then.
    pub(super) async fn run(mut self, mut applier: impl Applier) -> Result<Timing, Error> {
        let mut timing = Timing::default();
        let mut jobs = Vec::with_capacity(self.batch);
        let mut rows = Vec::with_capacity(self.batch);
        loop {
            let waited = Instant::now();
            if self.queue.recv_many(&mut jobs, self.batch).await == 0 {
                return Ok(timing);
            }
            self.counters.workers.add_blocked_in(waited.elapsed());
            for job in jobs.drain(..) {
                match job {
                    Job::Row(row) => rows.push(row),
                    Job::Barrier => {
                        self.apply(&mut rows, &mut applier, &mut timing).await?;
                        if self.passed.send(()).await.is_err() {
                            return Ok(timing);
                        }
                    }
                }
            }
            self.apply(&mut rows, &mut applier, &mut timing).await?;
        }
    }

    /// Applies the rows, trying again where that may help, and counts them.
    async fn apply(
        &self,
        rows: &mut Vec<RowChange>,
        applier: &mut impl Applier,
        timing: &mut Timing,
    ) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let applied = self.persist(rows, applier, timing).await?;
        let counters = &self.counters;
        counters.workers.add_busy(began.elapsed());
        let changes = rows.iter().map(|row| row.weight).sum();
        counters.workers.add_items(changes);
        count(&counters.rows, changes);
        count(&counters.transactions, 1);
        count(&counters.statements, applied.statements);
        count(&counters.mismatched, applied.mismatched);
        counters.queued.fetch_sub(rows.len() as u64, std::sync::atomic::Ordering::Relaxed);
        self.tracker.done(tickets(rows));
        rows.clear();
        Ok(())
    }

    async fn persist(
        &self,
        rows: &[RowChange],
        applier: &mut impl Applier,
        timing: &mut Timing,
    ) -> Result<Applied, Error> {
        let mut retry = Retry::new();
        let mut replay = false;
        self.count_repeated(rows, replay);
        loop {
            let failure = match applier.apply(rows, replay, timing).await {
                Ok(applied) => return Ok(applied),
                Err(failure) => failure,
            };
            if failure.fate == Fate::Unknown && !replay {
                replay = true;
                self.count_repeated(rows, replay);
            }
            if failure.error.class() == ErrorClass::Transient {
                self.counters.try_again(&failure.error);
            }
            *self.counters.trouble.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(failure.error.to_string());
            retry.after(failure.error).await?;
            while let Err(error) = applier.recover().await {
                retry.after(error).await?;
            }
        }
    }

    /// Only keys make a repeated change harmless: an equal row takes what was meant for another.
    fn count_repeated(&self, rows: &[RowChange], replay: bool) {
        let repeated = |row: &&RowChange| {
            // Those that say so themselves were counted when the batch was tried first.
            (row.mode == Mode::Replay) != replay && row.table.row_key.is_none()
        };
        count(&self.counters.repeated, rows.iter().filter(repeated).count() as u64);
    }
}

/// How many changes there are of each ticket.
fn tickets(rows: &[RowChange]) -> VecDeque<(u64, u64)> {
    let mut counts = VecDeque::<(u64, u64)>::new();
    for ticket in rows.iter().flat_map(|row| row.absorbed.iter().chain([&row.ticket])) {
        match counts.back_mut() {
            Some((last, changes)) if last == ticket => *changes += 1,
            _ => counts.push_back((*ticket, 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Position;
    use crate::mysql::binlog::Row;
    use crate::mysql::value::Value;
    use crate::pipeline::Retries;
    use crate::pipeline::builtin::sync::apply::Failure;
    use crate::pipeline::builtin::sync::memory::{NamedKey, broken, table};
    use crate::pipeline::builtin::sync::stage::get;
    use crate::pipeline::builtin::sync::table::ReplicaTable;

    /// Its first COMMIT is never answered.
    struct Silent {
        is_first: bool,
    }

    impl Applier for Silent {
        async fn apply(
            &mut self,
            _: &[RowChange],
            replay: bool,
            _: &mut Timing,
        ) -> Result<Applied, Failure> {
            if std::mem::take(&mut self.is_first) {
                return Err(Failure { error: broken(), fate: Fate::Unknown });
            }
            assert!(replay, "all of it may be there");
            Ok(Applied::default())
        }

        async fn recover(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_change_without_a_key_is_counted_when_it_is_repeated() {
        let counters = Arc::new(Counters::default());
        let row = |id: i64| -> Row { [Value::Int(id)].into_iter().collect() };
        let change = |keys: &[NamedKey<'_>], before, after| {
            let table = Arc::new(ReplicaTable::new(table("t", &["id int"], keys)));
            RowChange::new(table, before, after)
        };
        let mut rows = Vec::new();
        for keys in [&[][..], &[("PRIMARY", &[(0, None)][..])]] {
            rows.push(change(keys, None, Some(row(1))));
            rows.push(change(keys, Some(row(1)), Some(row(2))));
            rows.push(change(keys, Some(row(2)), None));
        }
        let worker = Worker {
            queue: mpsc::channel(1).1,
            passed: mpsc::channel(1).0,
            batch: 10,
            tracker: Arc::new(Tracker::new(Position::new("b.000001", 4).expect("a position"))),
            counters: Arc::clone(&counters),
        };
        let mut applier = Silent { is_first: true };
        worker.persist(&rows, &mut applier, &mut Timing::default()).await.expect("applied");
        assert_eq!(get(&counters.repeated), 3);
        let lost = Retries { connection: 1, ..Retries::default() };
        assert_eq!(counters.retries(), lost);
    }
}
