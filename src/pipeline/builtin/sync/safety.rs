//! Which rows may be on the target already.
//!
//! DM's rules (`dm/syncer/safe_mode.go`) by the checkpoint that it starts from: an exit point equal to
//! the start needs no safe mode; one behind it means safe mode until it is passed; none means safe mode
//! for `safe-mode-duration`. A time alone is no promise, so here the last lasts at least until the
//! source's end at the start is passed, which nothing applied before can be behind.

use tokio::time::Instant;

use crate::mysql::Position;
use crate::pipeline::builtin::sync::change::Mode;

/// See the module.
#[derive(Debug)]
pub(super) struct Safety {
    always: bool,
    /// Rows before this may be there.
    replay_until: Option<Position>,
    lasts_until: Option<Instant>,
}

impl Safety {
    /// `always`: the setting `safe-mode`.
    pub(super) fn new(
        always: bool,
        replay_until: Option<Position>,
        lasts_until: Option<Instant>,
    ) -> Safety {
        Safety { always, replay_until, lasts_until }
    }

    /// For the next row.
    pub(super) fn mode(&self) -> Mode {
        if self.replay_until.is_some() {
            Mode::Replay
        } else if self.always || self.lasts_until.is_some() {
            Mode::Safe
        } else {
            Mode::Plain
        }
    }

    /// A transaction has ended there, or the time has gone on. Gives `true` when that ended what was
    /// no setting.
    pub(super) fn come_to(&mut self, end: &Position) -> bool {
        let was_on = self.is_on();
        if self.replay_until.as_ref().is_some_and(|until| end.reached(until)) {
            self.replay_until = None;
        }
        self.look_at_the_clock();
        was_on && !self.is_on()
    }

    /// Ends what has lasted long enough.
    pub(super) fn look_at_the_clock(&mut self) {
        if self.lasts_until.is_some_and(|until| Instant::now() >= until) {
            self.lasts_until = None;
        }
    }

    fn is_on(&self) -> bool {
        self.replay_until.is_some() || self.lasts_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(offset: u64) -> Position {
        Position::new("bin.000001", offset).expect("position")
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_replayed_until_the_exit_point_and_safe_until_the_time_is_over() {
        let lasts = Instant::now() + Duration::from_secs(60);
        let mut safety = Safety::new(false, Some(at(100)), Some(lasts));
        assert_eq!(safety.mode(), Mode::Replay);
        assert!(!safety.come_to(&at(99)));
        assert_eq!(safety.mode(), Mode::Replay);
        assert!(!safety.come_to(&at(100)));
        assert_eq!(safety.mode(), Mode::Safe);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(safety.come_to(&at(101)), "both are over");
        assert_eq!(safety.mode(), Mode::Plain);
        assert!(!safety.come_to(&at(102)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_replay_outlasts_the_time() {
        let mut safety = Safety::new(true, Some(at(100)), Some(Instant::now()));
        safety.look_at_the_clock();
        assert_eq!(safety.mode(), Mode::Replay);
        assert!(safety.come_to(&at(200)));
        assert_eq!(safety.mode(), Mode::Safe, "the setting stays");
    }
}
