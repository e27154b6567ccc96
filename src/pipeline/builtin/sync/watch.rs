//! Publishing how far the sync unit is.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::watch;

use crate::pipeline::builtin::sync::stage::{Counters, get};
use crate::pipeline::builtin::sync::tracker::Tracker;
use crate::pipeline::{Progress, State};

/// How often progress is published.
const PUBLISH: Duration = Duration::from_millis(20);

/// What the progress report reads.
pub(super) struct Watched<'a> {
    pub(super) counters: &'a Counters,
    pub(super) tracker: &'a Tracker,
    /// Chunks between reader and conflict detection at most.
    pub(super) chunks: u64,
    /// Rows in all workers' queues at most.
    pub(super) queue_cap: u64,
    pub(super) progress: &'a watch::Sender<Progress>,
}

impl Watched<'_> {
    pub(super) async fn publish_forever(&self) -> std::convert::Infallible {
        let mut ticks = tokio::time::interval(PUBLISH);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.publish();
        }
    }

    pub(super) fn publish(&self) {
        let counters = self.counters;
        // `applied` first: what is read afterwards can only be further.
        let (applied, all_applied) = (self.tracker.applied(), self.tracker.is_idle());
        let idle = counters.idle.load(Relaxed);
        let stages = vec![
            counters.reader.read("reader", 0, 0),
            counters.conflict.read("conflict", get(&counters.chunks), self.chunks),
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
            progress.retries = counters.retries();
            progress.trouble = counters.trouble();
            progress.stages = stages;
        });
    }
}
