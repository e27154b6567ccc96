//! Where the source's binlog stood at which time.
//!
//! The source's position is sampled on a schedule by one monotonic clock; a position read elsewhere
//! (a checkpoint row) is mapped to the last time at which the source was there. Within one file the
//! time between two samples is interpolated in bytes. This answers "how old is that position"; it
//! knows nothing of what was applied.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::mysql::Position;

/// Samples kept. At 50 ms they reach back an hour and a half.
const MOST_SAMPLES: usize = 100_000;

/// A stretch of time in which the source was seen at one position.
#[derive(Debug, Clone, PartialEq)]
struct Stay {
    position: Position,
    first: Instant,
    last: Instant,
}

/// Positions of the source with the times at which they were read.
#[derive(Debug, Clone, Default)]
pub struct SourceTrack {
    stays: VecDeque<Stay>,
    widest: Duration,
    asked_before: Option<Instant>,
}

impl SourceTrack {
    /// Adds a reading: the source answered `position` to a question asked at `asked`.
    ///
    /// A position behind the last one, or of another family of files (the source's log was reset),
    /// makes the track begin anew.
    pub fn add(&mut self, asked: Instant, answered: Instant, position: Position) {
        let since = self.asked_before.replace(asked).unwrap_or(asked);
        self.widest = self.widest.max(answered.saturating_duration_since(since));
        match self.stays.back_mut() {
            Some(stay) if stay.position == position => {
                stay.last = answered;
                return;
            }
            Some(stay) if !position.reached(&stay.position) => self.stays.clear(),
            _ => {}
        }
        if self.stays.len() == MOST_SAMPLES {
            self.stays.pop_front();
        }
        self.stays.push_back(Stay { position, first: answered, last: answered });
    }

    /// The last known position of the source.
    pub fn latest(&self) -> Option<&Position> {
        self.stays.back().map(|stay| &stay.position)
    }

    /// Since when the source has not moved.
    pub fn still_since(&self) -> Option<Instant> {
        self.stays.back().map(|stay| stay.first)
    }

    /// The longest stretch between asking once and the answer to asking again: the error of a
    /// mapped time.
    pub fn resolution(&self) -> Duration {
        self.widest
    }

    /// The last time at which the source was at `position`, at most `now`. At or ahead of the last
    /// known position that is `now` itself. `None` for a position older than the track, or of
    /// another family of files.
    pub fn time_of(&self, position: &Position, now: Instant) -> Option<Instant> {
        if position.reached(self.latest()?) {
            return Some(now);
        }
        let next = self.stays.partition_point(|stay| position.reached(&stay.position));
        let before = self.stays.get(next.checked_sub(1)?)?;
        let after = self.stays.get(next)?;
        let (Some(span), Some(done)) =
            (after.position.bytes_since(&before.position), position.bytes_since(&before.position))
        else {
            // A file ended between the two samples; nobody knows how long it was. The earlier time
            // never understates the lag.
            return Some(before.last.min(now));
        };
        let between = after.first.saturating_duration_since(before.last);
        let share = if span == 0 { 0.0 } else { done as f64 / span as f64 };
        Some((before.last + between.mul_f64(share.clamp(0.0, 1.0))).min(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(file: u32, offset: u64) -> Position {
        Position::new(&format!("binlog.{file:06}"), offset).expect("position")
    }

    fn track(samples: &[(u64, Position)]) -> (SourceTrack, Instant) {
        let start = Instant::now();
        let mut track = SourceTrack::default();
        for (ms, position) in samples {
            let answered = start + Duration::from_millis(*ms);
            track.add(answered, answered, position.clone());
        }
        (track, start)
    }

    fn ms(track: &SourceTrack, start: Instant, position: &Position, now: u64) -> Option<u128> {
        let now = start + Duration::from_millis(now);
        track.time_of(position, now).map(|time| (time - start).as_millis())
    }

    #[test]
    fn between_two_samples_time_follows_the_bytes() {
        let (track, start) = track(&[(0, at(1, 100)), (50, at(1, 300)), (100, at(1, 400))]);
        assert_eq!(ms(&track, start, &at(1, 100), 130), Some(0));
        assert_eq!(ms(&track, start, &at(1, 200), 130), Some(25));
        assert_eq!(ms(&track, start, &at(1, 375), 130), Some(87));
        assert_eq!(ms(&track, start, &at(1, 99), 130), None, "older than the track");
        assert_eq!(ms(&track, start, &Position::new("other.000001", 200).expect("p"), 130), None);
    }

    #[test]
    fn an_idle_source_is_at_its_position_until_it_moves() {
        let (track, start) = track(&[(0, at(1, 100)), (50, at(1, 100)), (90, at(1, 100))]);
        assert_eq!(ms(&track, start, &at(1, 100), 500), Some(500), "caught up: no lag");
        let (track, start) = track_of_moving_after_rest();
        assert_eq!(ms(&track, start, &at(1, 100), 500), Some(90));
    }

    fn track_of_moving_after_rest() -> (SourceTrack, Instant) {
        track(&[(0, at(1, 100)), (50, at(1, 100)), (90, at(1, 100)), (140, at(1, 200))])
    }

    #[test]
    fn over_a_change_of_files_the_earlier_time_counts() {
        let (track, start) = track(&[(0, at(1, 100)), (50, at(2, 300))]);
        assert_eq!(ms(&track, start, &at(1, 900), 130), Some(0));
        assert_eq!(ms(&track, start, &at(2, 4), 130), Some(0));
    }

    #[test]
    fn a_reset_source_begins_a_new_track() {
        let (track, start) = track(&[(0, at(3, 100)), (50, at(1, 4)), (100, at(1, 8))]);
        assert_eq!(ms(&track, start, &at(1, 4), 130), Some(50));
        assert_eq!(ms(&track, start, &at(3, 50), 130), Some(130), "ahead of all that is known");
    }

    #[test]
    fn the_widest_gap_is_the_resolution() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut track = SourceTrack::default();
        track.add(after(0), after(2), at(1, 4));
        track.add(after(50), after(53), at(1, 8));
        track.add(after(100), after(101), at(1, 9));
        assert_eq!(track.resolution(), Duration::from_millis(53));
    }

    proptest! {
        /// A later position never maps to an earlier time, and sampled positions map to the last
        /// time at which they were seen.
        #[test]
        fn mapping_is_monotone(steps in proptest::collection::vec((1u64..80, 0u64..500, 0u8..10), 1..40),
                               asked in proptest::collection::vec((1u32..6, 0u64..9_000), 2..40)) {
            let (mut time, mut file, mut offset) = (0, 1, 4);
            let mut samples = vec![(0, at(1, 4))];
            for (ms, bytes, rotate) in steps {
                time += ms;
                (file, offset) = if rotate == 0 { (file + 1, 4) } else { (file, offset + bytes) };
                samples.push((time, at(file, offset)));
            }
            let (track, start) = track(&samples);
            let now = start + Duration::from_millis(time + 10);
            let mut asked: Vec<Position> = asked.into_iter().map(|(f, o)| at(f, o)).collect();
            asked.sort_by(|a, b| a.partial_cmp(b).expect("one family"));
            let times: Vec<_> = asked.iter().map(|p| track.time_of(p, now)).collect();
            prop_assert!(times.is_sorted(), "{times:?}");
            for (index, (ms, position)) in samples.iter().enumerate() {
                if samples.get(index + 1).is_some_and(|(_, next)| next != position) {
                    let expected = start + Duration::from_millis(*ms);
                    prop_assert_eq!(track.time_of(position, now), Some(expected));
                }
            }
        }
    }
}
