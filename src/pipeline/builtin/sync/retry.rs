//! Trying again: only what may go away by itself, ever more rarely, and not for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::ErrorClass;
use crate::pipeline::builtin::sync::error::Error;

/// How long something is tried again before the unit gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Tries of one thing.
#[derive(Debug)]
pub(super) struct Retry {
    began: Option<Instant>,
    pause: Duration,
}

impl Retry {
    pub(super) fn new() -> Retry {
        Retry { began: None, pause: Duration::from_millis(20) }
    }

    /// Waits until the next try is due.
    ///
    /// # Errors
    /// The failure itself when trying again cannot help; [`Error::GaveUp`] when it has not helped for
    /// two minutes.
    pub(super) async fn after(&mut self, failure: impl Into<Error>) -> Result<(), Error> {
        let failure = failure.into();
        if failure.class() != ErrorClass::Transient {
            return Err(failure);
        }
        if self.began.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(Error::GaveUp { after: PATIENCE, source: Box::new(failure) });
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::builtin::sync::memory::broken;

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_after_two_minutes_and_at_once_where_nothing_helps() {
        let mut retry = Retry::new();
        let began = Instant::now();
        let mut tries = 0;
        let last = loop {
            match retry.after(broken()).await {
                Ok(()) => tries += 1,
                Err(last) => break last,
            }
        };
        assert!(matches!(last, Error::GaveUp { .. }), "{last}");
        assert!(tries > 50 && began.elapsed() < PATIENCE + LONGEST_PAUSE * 2);
        let hopeless = Error::Order { what: "x" };
        assert!(matches!(retry.after(hopeless).await, Err(Error::Order { .. })));
    }
}
