//! Trying again: only what may go away by itself, ever more rarely, and not for ever.

use std::time::Duration;

use crate::error::ErrorClass;
use crate::mysql::patience::{APPLY_LIMIT, Patience};
use crate::pipeline::builtin::sync::error::Error;

/// Tries of one thing.
#[derive(Debug)]
pub(super) struct Retry {
    limit: Duration,
    patience: Patience,
}

impl Retry {
    /// For [`APPLY_LIMIT`].
    pub(super) fn new() -> Retry {
        Retry::within(APPLY_LIMIT)
    }

    pub(super) fn within(limit: Duration) -> Retry {
        Retry { limit, patience: Patience::new(limit) }
    }

    /// Waits until the next try is due.
    ///
    /// # Errors
    /// The failure itself when trying again cannot help; [`Error::GaveUp`] when it has not helped for
    /// the whole limit.
    pub(super) async fn after(&mut self, failure: impl Into<Error>) -> Result<(), Error> {
        let failure = failure.into();
        let class = failure.class();
        if self.patience.allows(class).await {
            return Ok(());
        }
        Err(match class {
            ErrorClass::Transient => Error::GaveUp { after: self.limit, source: Box::new(failure) },
            _ => failure,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

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
        assert!(tries > 50 && began.elapsed() < APPLY_LIMIT + Duration::from_secs(4));
        let hopeless = Error::Order { what: "x" };
        assert!(matches!(retry.after(hopeless).await, Err(Error::Order { .. })));
    }
}
