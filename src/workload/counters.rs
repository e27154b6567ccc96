//! Figures that can be read while ops run, without disturbing them.
//!
//! Clients add with relaxed atomics; a reader takes [`Counters::snapshot`] whenever it likes and
//! subtracts an earlier one. These are for samples and progress; results come from
//! [`crate::workload::Driven`], whose histograms are finer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::effect::Effect;

/// Cells of the coarse latency distribution: sixteen equal ones to an octave of microseconds.
const CELLS: usize = 512;
const PER_OCTAVE_LOG2: u32 = 4;

/// See the module.
#[derive(Debug)]
pub struct Counters {
    started: CancellationToken,
    offered: AtomicU64,
    committed: AtomicU64,
    row_changes: AtomicU64,
    statements: AtomicU64,
    failed: AtomicU64,
    retried: AtomicU64,
    reconnects: AtomicU64,
    backlog: AtomicU64,
    service: [AtomicU64; CELLS],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            started: CancellationToken::new(),
            offered: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            row_changes: AtomicU64::new(0),
            statements: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            backlog: AtomicU64::new(0),
            service: [const { AtomicU64::new(0) }; CELLS],
        }
    }
}

impl Counters {
    /// Waits until the drive's clock starts: all clients are connected and the first op may be due.
    pub async fn started(&self) {
        self.started.cancelled().await;
    }

    pub(super) fn start(&self) {
        self.started.cancel();
    }

    /// Ops due so far.
    pub fn offered(&self) -> u64 {
        self.offered.load(Relaxed)
    }

    /// Ops committed so far.
    pub fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// Rows inserted, updated and deleted by committed ops so far.
    pub fn row_changes(&self) -> u64 {
        self.row_changes.load(Relaxed)
    }

    /// Ops given up so far, those of unknown fate included.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Ops due and not yet taken by a client, now. Always 0 for a closed loop.
    pub fn backlog(&self) -> u64 {
        self.backlog.load(Relaxed)
    }

    /// All figures at once. They are read one after another, so they may differ by the ops that
    /// ended in between.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            offered: self.offered(),
            committed: self.committed(),
            row_changes: self.row_changes(),
            statements: self.statements.load(Relaxed),
            failed: self.failed(),
            retried: self.retried.load(Relaxed),
            reconnects: self.reconnects.load(Relaxed),
            backlog: self.backlog(),
            service: self.service.iter().map(|cell| cell.load(Relaxed)).collect(),
        }
    }

    pub(super) fn add_offered(&self, ops: u64) {
        self.offered.fetch_add(ops, Relaxed);
    }

    pub(super) fn add_committed(&self, effect: &Effect, service: Duration) {
        self.committed.fetch_add(1, Relaxed);
        self.row_changes.fetch_add(effect.row_changes(), Relaxed);
        self.statements.fetch_add(effect.statements, Relaxed);
        self.service[cell_of(service)].fetch_add(1, Relaxed);
    }

    pub(super) fn add_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(super) fn add_retried(&self) {
        self.retried.fetch_add(1, Relaxed);
    }

    pub(super) fn add_reconnect(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }

    pub(super) fn set_backlog(&self, ops: u64) {
        self.backlog.store(ops, Relaxed);
    }
}

/// All counters at one moment, or what was counted between two moments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Ops due.
    pub offered: u64,
    /// Ops committed.
    pub committed: u64,
    /// Row changes of committed ops.
    pub row_changes: u64,
    /// Statements of committed ops.
    pub statements: u64,
    /// Ops given up, those of unknown fate included.
    pub failed: u64,
    /// Tries repeated after a deadlock or the like.
    pub retried: u64,
    /// Connections made again.
    pub reconnects: u64,
    /// Ops due and not yet taken, at the (later) moment.
    pub backlog: u64,
    service: Vec<u64>,
}

impl Snapshot {
    /// What was counted from `earlier` to `self`.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let before = |i: usize| earlier.service.get(i).copied().unwrap_or(0);
        Snapshot {
            offered: self.offered - earlier.offered,
            committed: self.committed - earlier.committed,
            row_changes: self.row_changes - earlier.row_changes,
            statements: self.statements - earlier.statements,
            failed: self.failed - earlier.failed,
            retried: self.retried - earlier.retried,
            reconnects: self.reconnects - earlier.reconnects,
            backlog: self.backlog,
            service: self.service.iter().enumerate().map(|(i, n)| n - before(i)).collect(),
        }
    }

    /// A quantile (0 to 1) of service times, true to about 3 %; `None` when nothing was committed.
    pub fn service_quantile(&self, quantile: f64) -> Option<Duration> {
        let n: u64 = self.service.iter().sum();
        let rank = ((n as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let cell = self.service.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_nanos((middle_of(cell) * 1e3) as u64))
    }
}

/// The octave and, within it, the sixteenth. Whole numbers only: this runs for every op.
fn cell_of(service: Duration) -> usize {
    let micros = service.as_micros().clamp(1, u128::from(u32::MAX)) as u64;
    let octave = micros.ilog2();
    let within = ((micros << PER_OCTAVE_LOG2) >> octave) & ((1 << PER_OCTAVE_LOG2) - 1);
    ((octave << PER_OCTAVE_LOG2) as usize) | within as usize
}

/// The middle of a cell, in microseconds.
fn middle_of(cell: usize) -> f64 {
    let cells = f64::from(1u32 << PER_OCTAVE_LOG2);
    let (octave, within) = (cell >> PER_OCTAVE_LOG2, cell & ((1 << PER_OCTAVE_LOG2) - 1));
    2f64.powi(octave as i32) * (1.0 + (within as f64 + 0.5) / cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_only_what_happened_in_it() {
        let counters = Counters::default();
        let effect = Effect { inserted: 1, statements: 1, ..Effect::default() };
        for _ in 0..100 {
            counters.add_committed(&effect, Duration::from_millis(50));
        }
        let earlier = counters.snapshot();
        for micros in 1..=1000 {
            counters.add_committed(&effect, Duration::from_micros(micros));
        }
        let interval = counters.snapshot().since(&earlier);
        assert_eq!((interval.committed, interval.row_changes), (1000, 1000));
        let p95 = interval.service_quantile(0.95).expect("ops").as_secs_f64() * 1e6;
        assert!((p95 / 950.0 - 1.0).abs() < 0.035, "{p95}");
    }

    #[test]
    fn every_time_has_a_cell_whose_middle_is_near_it() {
        for micros in [17, 31, 32, 1_000, 65_535, 65_536, 3_599_999_999_u64] {
            let middle = middle_of(cell_of(Duration::from_micros(micros)));
            assert!((middle / micros as f64 - 1.0).abs() < 0.035, "{micros}: {middle}");
        }
        assert_eq!(cell_of(Duration::ZERO), 0);
        assert_eq!(cell_of(Duration::MAX), CELLS - 1);
    }

    #[test]
    fn nothing_committed_has_no_quantile() {
        assert_eq!(Counters::default().snapshot().service_quantile(0.95), None);
    }
}
