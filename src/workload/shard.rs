//! Where clients leave what became of their ops.
//!
//! One shard serves one client, or a few where there are very many, so its lock is hardly ever
//! waited for; the shards are merged at the end. They outlive a client that is stopped by force.

use std::collections::BTreeMap;
use std::time::Instant;

use super::effect::Effect;
use super::offer::{Due, Window};
use crate::stats::Histogram;

/// Most shards: three histograms are half a megabyte, and what does not fit a core's cache makes
/// every op wait for memory.
pub(super) const MOST: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Ops committed.
    pub(super) committed: u64,
    /// Of these, within the window.
    pub(super) window_committed: u64,
    /// What they changed.
    pub(super) effect: Effect,
    /// Ops given up and certainly not committed, by the last error code; 0 = connection.
    pub(super) failed: BTreeMap<u16, u64>,
    /// Tries repeated, by the error code that the server gave.
    pub(super) retried: BTreeMap<u16, u64>,
    /// Connections lost, by the server's last code; 0 = none.
    pub(super) lost: BTreeMap<u16, u64>,
    /// Connections made again.
    pub(super) reconnects: u64,
    /// Ops whose commit was never answered and that could not be settled.
    pub(super) unknown: u64,
    /// Committed ops that changed more or fewer rows than they should.
    pub(super) odd: u64,
    /// Started − due.
    pub(super) delay: Histogram,
    /// Finished − started.
    pub(super) service: Histogram,
    /// Finished − due.
    pub(super) response: Histogram,
}

impl Shard {
    /// Counts a committed op; `started` is `None` in a closed loop, where ops begin when they are due.
    pub(super) fn commit(
        &mut self,
        effect: Effect,
        due: Due,
        started: Option<Instant>,
        finished: Instant,
        window: &Window,
    ) {
        self.committed += 1;
        self.effect += effect;
        self.window_committed += u64::from(window.holds(finished));
        if window.holds(due.at) {
            self.service.record_duration(finished - started.unwrap_or(due.at));
            if let Some(started) = started {
                self.delay.record_duration(started.saturating_duration_since(due.at));
                self.response.record_duration(finished.saturating_duration_since(due.at));
            }
        }
    }

    /// Gives the ops of a closed loop the delay and the response that all of them have: none, and
    /// their service.
    pub(super) fn close_loop(&mut self) {
        self.delay.record_n(0, self.service.n());
        self.response.merge(&self.service);
    }

    /// Counts an op that nobody began before the drive ended: its age so far is the least that its
    /// delay and response would have been.
    pub(super) fn abandon(&mut self, due: Instant, now: Instant, window: &Window) {
        if window.holds(due) {
            self.delay.record_duration(now.saturating_duration_since(due));
            self.response.record_duration(now.saturating_duration_since(due));
        }
    }

    /// Counts an op that was under way when the drive ended by force.
    pub(super) fn cut_off(&mut self, due: Instant, now: Instant, window: &Window) {
        self.unknown += 1;
        if window.holds(due) {
            self.response.record_duration(now.saturating_duration_since(due));
        }
    }

    /// Adds all of `other`.
    pub(super) fn merge(&mut self, other: &Shard) {
        self.committed += other.committed;
        self.window_committed += other.window_committed;
        self.effect += other.effect;
        for (mine, theirs) in [
            (&mut self.failed, &other.failed),
            (&mut self.retried, &other.retried),
            (&mut self.lost, &other.lost),
        ] {
            for (code, n) in theirs {
                *mine.entry(*code).or_default() += n;
            }
        }
        self.reconnects += other.reconnects;
        self.unknown += other.unknown;
        self.odd += other.odd;
        self.delay.merge(&other.delay);
        self.service.merge(&other.service);
        self.response.merge(&other.response);
    }
}
