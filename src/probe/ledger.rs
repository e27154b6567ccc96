//! What is known of each marker row: when its commit was acknowledged, when the target first had it.
//!
//! Pure bookkeeping on instants of one monotonic clock; [`super::marker`] writes and polls.

use std::time::Duration;

use tokio::time::Instant;

use crate::stats::Histogram;

/// A stretch of time that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// First instant that counts.
    pub(super) from: Instant,
    /// First instant that does not count any more.
    pub(super) to: Instant,
}

impl Window {
    /// Whether an instant lies in the window.
    pub(super) fn contains(&self, at: Instant) -> bool {
        self.from <= at && at < self.to
    }

    /// Length.
    pub(super) fn length(&self) -> Duration {
        self.to.saturating_duration_since(self.from)
    }
}

/// The times at which a reading was due after `last` and before the one that came at `now`. One that
/// comes late by less than a whole interval has missed none.
pub(super) fn missed(
    last: Instant,
    now: Instant,
    every: Duration,
) -> impl Iterator<Item = Instant> {
    (1u32..).map(move |i| last + every * i).take_while(move |due| *due + every <= now)
}

#[derive(Debug, Clone, Copy, Default)]
struct Marker {
    acknowledged: Option<Instant>,
    seen: Option<Instant>,
    failed: bool,
}

impl Marker {
    /// Whether there is nothing more to wait for.
    fn is_settled(&self) -> bool {
        self.seen.is_some() || self.failed
    }
}

/// All markers of one trial, by number from `first`.
#[derive(Debug)]
pub(super) struct Ledger {
    first: u64,
    markers: Vec<Marker>,
    /// All markers before this index are settled.
    settled: usize,
    /// Commit acknowledgement of the newest marker before `settled`.
    newest: Option<Instant>,
    age: Histogram,
    /// When ages count.
    window_of_ages: Option<(Instant, Option<Instant>)>,
    /// When the age was sampled last.
    sampled: Option<Instant>,
}

/// Lags of the markers committed in a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Lags {
    /// Lag of each (µs); of an unseen one its age so far.
    pub(super) lag: Histogram,
    /// Markers that the target had not shown when it was asked last.
    pub(super) unseen: u64,
    /// Markers that the target showed before the source acknowledged their commit; counted as 0.
    pub(super) ahead: u64,
    /// Each marker's commit in seconds since the window's begin and its lag in seconds. Unlike the
    /// target's age this does not rise between markers.
    pub(super) series: Vec<(f64, f64)>,
}

impl Ledger {
    /// A ledger for markers numbered from `first`.
    pub(super) fn new(first: u64) -> Ledger {
        Ledger {
            first,
            markers: Vec::new(),
            settled: 0,
            newest: None,
            age: Histogram::default(),
            window_of_ages: None,
            sampled: None,
        }
    }

    /// Takes the next number for a marker about to be written.
    pub(super) fn next(&mut self) -> u64 {
        self.markers.push(Marker::default());
        self.first + self.markers.len() as u64 - 1
    }

    /// The source acknowledged the commit of a marker.
    pub(super) fn acknowledged(&mut self, id: u64, at: Instant) {
        if let Some(marker) = self.of(id) {
            marker.acknowledged = Some(at);
        }
        self.settle();
    }

    /// A marker was not acknowledged and is not waited for. It may still turn up at the target when
    /// the connection was lost after the commit; it has no lag then.
    pub(super) fn failed(&mut self, id: u64) {
        if let Some(marker) = self.of(id) {
            marker.failed = true;
        }
        self.settle();
    }

    /// The target showed a marker in an answer that came at `at`. Repeated sightings do not count.
    pub(super) fn seen(&mut self, id: u64, at: Instant) {
        if let Some(marker) = self.of(id) {
            marker.seen.get_or_insert(at);
        }
        self.settle();
    }

    /// All markers up to this number are settled: what the target is still asked for lies above.
    pub(super) fn floor(&self) -> u64 {
        (self.first + self.settled as u64).saturating_sub(1)
    }

    /// How many were acknowledged and not seen.
    pub(super) fn outstanding(&self) -> u64 {
        let rest = &self.markers[self.settled..];
        rest.iter().filter(|m| m.acknowledged.is_some() && m.seen.is_none()).count() as u64
    }

    /// How many were acknowledged.
    pub(super) fn acknowledged_count(&self) -> u64 {
        self.markers.iter().filter(|m| m.acknowledged.is_some()).count() as u64
    }

    /// The target's age: time since the commit of the newest marker up to which it has all.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        self.newest.map(|newest| now.saturating_duration_since(newest))
    }

    /// Ages from now on count.
    pub(super) fn begin_ages(&mut self, from: Instant) {
        self.window_of_ages = Some((from, None));
        self.age = Histogram::default();
    }

    /// Ages from now on do not count any more.
    pub(super) fn end_ages(&mut self, to: Instant) {
        if let Some((_, end)) = &mut self.window_of_ages {
            *end = Some(to);
        }
    }

    /// Records the target's age at `now`, where it is known and lies in the window.
    pub(super) fn sample_age(&mut self, now: Instant) {
        self.sampled = Some(now);
        let counts = self
            .window_of_ages
            .is_some_and(|(from, to)| from <= now && to.is_none_or(|to| now < to));
        if let Some(age) = self.age(now).filter(|_| counts) {
            self.age.record_duration(age);
        }
    }

    /// Samples the age at every time at which it was due before `now` and was not sampled, since a
    /// question hung. Without that a target that answers nothing for five seconds would have one
    /// large age beside hundreds of small ones. To be called before what the answer shows is noted.
    pub(super) fn sample_missed_ages(&mut self, every: Duration, now: Instant) {
        for due in self.sampled.map(|last| missed(last, now, every)).into_iter().flatten() {
            self.sample_age(due);
        }
    }

    /// The distribution of sampled ages (µs).
    pub(super) fn ages(&self) -> &Histogram {
        &self.age
    }

    /// The lags of all markers whose commit was acknowledged in the window, as known at `now`.
    pub(super) fn lags(&self, window: Window, now: Instant) -> Lags {
        let mut lags = Lags::default();
        for marker in &self.markers {
            let Some(acknowledged) = marker.acknowledged.filter(|at| window.contains(*at)) else {
                continue;
            };
            let seen = marker.seen.unwrap_or(now);
            lags.unseen += u64::from(marker.seen.is_none());
            lags.ahead += u64::from(seen < acknowledged);
            let lag = seen.saturating_duration_since(acknowledged);
            lags.lag.record_duration(lag);
            let committed = acknowledged.saturating_duration_since(window.from);
            lags.series.push((committed.as_secs_f64(), lag.as_secs_f64()));
        }
        lags
    }

    fn of(&mut self, id: u64) -> Option<&mut Marker> {
        let index = id.checked_sub(self.first)?;
        self.markers.get_mut(usize::try_from(index).ok()?)
    }

    /// Moves the floor. A marker seen before its acknowledgement waits for it.
    fn settle(&mut self) {
        while let Some(marker) = self.markers.get(self.settled).filter(|m| m.is_settled()) {
            if marker.acknowledged.is_none() && !marker.failed {
                return;
            }
            self.newest = marker.acknowledged.filter(|_| marker.seen.is_some()).or(self.newest);
            self.settled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |ms| start + Duration::from_millis(ms)
    }

    fn always(at: &impl Fn(u64) -> Instant) -> Window {
        Window { from: at(0), to: at(1_000_000) }
    }

    #[test]
    fn lag_is_the_first_sighting_minus_the_acknowledgement() {
        let at = clock();
        let mut ledger = Ledger::new(5);
        for ms in [100, 200, 300] {
            let id = ledger.next();
            ledger.acknowledged(id, at(ms));
        }
        assert_eq!((ledger.floor(), ledger.outstanding()), (4, 3));
        ledger.seen(6, at(250));
        ledger.seen(6, at(900));
        assert_eq!(ledger.floor(), 4, "marker 5 has not arrived");
        assert_eq!(ledger.age(at(260)), None);
        ledger.seen(5, at(350));
        assert_eq!((ledger.floor(), ledger.age(at(360))), (6, Some(Duration::from_millis(160))));
        ledger.seen(7, at(310));
        let lags = ledger.lags(always(&at), at(400));
        assert_eq!((lags.lag.n(), lags.unseen, lags.ahead), (3, 0, 0));
        assert_eq!((lags.lag.min(), lags.lag.sum()), (Some(10_000), 310_000));
    }

    #[test]
    fn an_unseen_marker_counts_with_its_age_and_only_the_window_counts() {
        let at = clock();
        let mut ledger = Ledger::new(1);
        for ms in [100, 200, 300] {
            let id = ledger.next();
            ledger.acknowledged(id, at(ms));
        }
        ledger.seen(1, at(101));
        let lags = ledger.lags(Window { from: at(200), to: at(300) }, at(5_200));
        assert_eq!((lags.lag.n(), lags.unseen, lags.lag.sum()), (1, 1, 5_000_000));
    }

    #[test]
    fn a_marker_seen_before_its_acknowledgement_is_told_apart() {
        let at = clock();
        let mut ledger = Ledger::new(1);
        let id = ledger.next();
        ledger.seen(id, at(10));
        assert_eq!(ledger.floor(), 0);
        ledger.acknowledged(id, at(12));
        assert_eq!(ledger.floor(), 1);
        let lags = ledger.lags(always(&at), at(20));
        assert_eq!((lags.ahead, lags.lag.sum(), lags.unseen), (1, 0, 0));
    }

    #[test]
    fn a_failed_marker_holds_nothing_up_and_has_no_lag() {
        let at = clock();
        let mut ledger = Ledger::new(1);
        let (first, second) = (ledger.next(), ledger.next());
        ledger.failed(first);
        ledger.acknowledged(second, at(10));
        ledger.seen(second, at(15));
        assert_eq!((ledger.floor(), ledger.acknowledged_count()), (2, 1));
        assert_eq!(ledger.lags(always(&at), at(20)).lag.n(), 1);
    }

    #[test]
    fn ages_count_only_between_begin_and_end() {
        let at = clock();
        let mut ledger = Ledger::new(1);
        let id = ledger.next();
        ledger.acknowledged(id, at(0));
        ledger.seen(id, at(5));
        ledger.sample_age(at(10));
        ledger.begin_ages(at(100));
        for ms in [90, 100, 110, 200] {
            ledger.sample_age(at(ms));
        }
        ledger.end_ages(at(250));
        ledger.sample_age(at(300));
        assert_eq!((ledger.ages().n(), ledger.ages().sum()), (3, 410_000));
    }

    #[test]
    fn a_question_that_hangs_counts_for_as_long_as_it_hung() {
        let at = clock();
        let mut ledger = Ledger::new(1);
        for ms in [0, 5_000] {
            let id = ledger.next();
            ledger.acknowledged(id, at(ms));
        }
        ledger.begin_ages(at(0));
        ledger.seen(1, at(5));
        let poll = |ledger: &mut Ledger, ms| {
            ledger.sample_missed_ages(Duration::from_millis(10), at(ms));
            ledger.seen(2, at(ms));
            ledger.sample_age(at(ms));
        };
        ledger.sample_age(at(10));
        poll(&mut ledger, 29);
        assert_eq!(ledger.ages().n(), 2, "late by less than an interval");
        ledger.end_ages(at(6_000));
        let before = ledger.ages().n();
        poll(&mut ledger, 9_029);
        // Due at 39, 49, … 5,999: the window has ended before the answer came.
        assert_eq!(ledger.ages().n() - before, 597);
    }
}
