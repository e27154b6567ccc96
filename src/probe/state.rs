//! What the sampler's jobs share while they run.
//!
//! Each part has a lock of its own, held for a few instructions and never across an await.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use tokio::time::Instant;

use crate::probe::checkpoint::{Moves, Reading, Standing};
use crate::probe::jobs::CHECKPOINT_EVERY;
use crate::probe::ledger::{Window, missed};
use crate::probe::line::Failures;
use crate::probe::position::SourceTrack;
use crate::probe::sampler::Counters;
use crate::probe::{host, marker};
use crate::stats::Histogram;

/// Locks a part of the state.
pub(super) fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().expect("nobody panics while holding it")
}

/// Whether readings count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The window has not begun.
    Before,
    /// Readings count.
    Within,
    /// The window has ended.
    After,
}

/// Readings of the checkpoint row.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    pub(super) moves: Moves,
    /// The latest reading and when it came.
    pub(super) latest: Option<(Instant, Reading)>,
    /// Lag within the window (µs).
    pub(super) lag: Histogram,
    /// Bytes behind within the window.
    pub(super) bytes: Histogram,
    /// Readings within the window that lie before the track of the source: their lag is unknown.
    pub(super) too_old: u64,
    /// Readings of each standing within the window.
    pub(super) standings: Vec<(Standing, u64)>,
}

impl Checkpoints {
    /// Takes in a reading that came at `at`; it counts when that lies in the window.
    pub(super) fn take(
        &mut self,
        reading: Reading,
        at: Instant,
        marks: Marks,
        track: &SourceTrack,
    ) {
        self.fill(at, reading.bytes_behind, marks, track);
        if marks.hold(at) {
            match reading.lag {
                Some(lag) => self.lag.record_duration(lag),
                None => self.too_old += 1,
            }
            if let Some(bytes) = reading.bytes_behind {
                self.bytes.record(bytes);
            }
            match self.standings.iter_mut().find(|(known, _)| *known == reading.standing) {
                Some((_, count)) => *count += 1,
                None => self.standings.push((reading.standing, 1)),
            }
        }
        self.latest = Some((at, reading));
    }

    /// Counts the readings that were due before `now` and did not come, since the target did not
    /// answer: the checkpoint seen last has grown older until then, and the bytes behind count as the
    /// larger of those before and after. Otherwise a long silence would weigh as much as one reading.
    pub(super) fn fill(
        &mut self,
        now: Instant,
        bytes: Option<u64>,
        marks: Marks,
        track: &SourceTrack,
    ) {
        let Some((last, reading)) = &self.latest else { return };
        for due in missed(*last, now, CHECKPOINT_EVERY).filter(|due| marks.hold(*due)) {
            if let Some(time) = track.time_of(&reading.position, due) {
                self.lag.record_duration(due.duration_since(time));
            }
            if let Some(bytes) = bytes.max(reading.bytes_behind) {
                self.bytes.record(bytes);
            }
        }
    }
}

/// The target's count of statements at one time, with the probes' own share of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatementCount {
    pub(super) at: Instant,
    pub(super) all: u64,
    pub(super) own: u64,
}

/// Counts at the begin and the end of the window.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) begin: Option<StatementCount>,
    pub(super) end: Option<StatementCount>,
    /// Why there is nothing to count, as a sentence, where that is known.
    pub(super) uncounted: Option<&'static str>,
}

/// One watched process.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) begin: Option<host::ProcessUse>,
    /// The last reading, frozen when the window ends; a process that is gone keeps its last one.
    pub(super) latest: Option<host::ProcessUse>,
}

/// Use of the machine and of processes.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) processes: Vec<Watched>,
    pub(super) begin: Option<host::MachineUse>,
    pub(super) end: Option<host::MachineUse>,
}

impl Hosts {
    /// Reads every process that is still there.
    pub(super) fn read(&mut self) {
        for watched in &mut self.processes {
            watched.latest = host::process(watched.pid).or(watched.latest);
        }
    }
}

/// Numbers that grow with the trial's work.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) committed_ops: u64,
    pub(super) applied_rows: u64,
}

/// Begin and end of the window with the counters there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    pub(super) begin: Option<(Instant, Counts)>,
    pub(super) end: Option<(Instant, Counts)>,
}

impl Marks {
    /// Whether a reading at that time counts.
    pub(super) fn hold(&self, at: Instant) -> bool {
        self.begin.is_some_and(|(begin, _)| begin <= at) && self.end.is_none_or(|(end, _)| at < end)
    }

    /// The window, once both marks are set.
    pub(super) fn window(&self) -> Option<Window> {
        Some(Window { from: self.begin?.0, to: self.end?.0 })
    }
}

/// See the module.
pub(super) struct State {
    pub(super) started: Instant,
    pub(super) stage: watch::Sender<Stage>,
    pub(super) marks: Mutex<Marks>,
    pub(super) counters: Counters,
    pub(super) track: Mutex<SourceTrack>,
    pub(super) checkpoints: Mutex<Checkpoints>,
    pub(super) statements: Mutex<Statements>,
    pub(super) hosts: Mutex<Hosts>,
    pub(super) markers: Option<Arc<marker::Shared>>,
    /// Statements of probes that the target executed.
    pub(super) own_statements: AtomicU64,
    pub(super) position_failures: Failures,
    pub(super) checkpoint_failures: Failures,
    pub(super) statement_failures: Failures,
    pub(super) sample_failure: Mutex<Option<std::io::Error>>,
}

impl State {
    /// The counters now.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            committed_ops: (self.counters.committed_ops)(),
            applied_rows: (self.counters.applied_rows)(),
        }
    }

    /// Whether readings count now.
    pub(super) fn counts_now(&self) -> bool {
        *self.stage.borrow() == Stage::Within
    }

    /// Counts a statement of a probe that the target executed, and so counted itself: one that
    /// fails while it is prepared is in none of the target's counters.
    pub(super) fn executed_by_target(&self) {
        self.own_statements.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The target answers at 0 and 100 ms and then not before 5,100 ms, while the source goes on.
    #[test]
    fn a_silent_target_counts_for_as_long_as_it_was_silent() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let position = |offset| crate::mysql::Position::new("b.000001", offset).expect("position");
        let mut track = SourceTrack::default();
        for (ms, offset) in [(0, 100), (100, 200), (5_100, 900)] {
            track.add(at(ms), at(ms), position(offset));
        }
        let marks = Marks { begin: Some((at(0), Counts::default())), end: None };
        let reading = |lag, bytes| Reading {
            position: position(200),
            lag: Some(Duration::from_millis(lag)),
            bytes_behind: Some(bytes),
            standing: Standing::Lagging,
        };
        let mut checkpoints = Checkpoints::default();
        checkpoints.take(reading(0, 0), at(100), marks, &track);
        checkpoints.take(reading(5_000, 700), at(5_100), marks, &track);
        // Due at 200, 300, … 5,000 ms, and the two that came.
        assert_eq!((checkpoints.lag.n(), checkpoints.bytes.n()), (51, 51));
        let median = checkpoints.lag.quantile(0.5).expect("51 lags") as f64;
        assert!((median / 2_500_000.0 - 1.0).abs() < 2e-3, "{median} µs");
        assert_eq!(checkpoints.bytes.quantile(0.5), Some(700), "the larger of before and after");
    }
}
