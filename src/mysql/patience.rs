//! How long dmbench waits for a server: every deadline that a fault runs into, in one place.
//!
//! What may go away by itself ([`ErrorClass::Transient`]: a lost connection, a refused one, too many
//! connections, a deadlock, a lock wait) is tried again, ever more rarely, until a limit of this file
//! has passed. Everything else (a wrong password, a read-only server, a full disk) fails at once. All
//! limits are measured by the monotonic clock.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::ErrorClass;

/// One attempt to connect, login included. A frozen server accepts connections and never greets.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The answer to a statement whose work does not grow with the tables.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The answer to a statement whose work grows with the tables: an index, a DDL that is replicated, a
/// part of a comparison. Only a bound on a hang.
pub const WORK_LIMIT: Duration = Duration::from_secs(3_600);

/// Saying goodbye to a server.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long a session waits for the lock on a table's definition (`lock_wait_timeout`), which servers
/// would wait for as long as a year. Row locks keep the server's own limit.
pub const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// How long a step of a trial is tried again: connecting, clearing the target, an untimed copy, the
/// begin of a timed dump, the source's end position, a part of the comparison.
pub const RETRY_LIMIT: Duration = Duration::from_secs(60);

/// How long sync and load try to bring the same rows to the target, load to make its tables, and sync to
/// read the binlog.
pub const APPLY_LIMIT: Duration = Duration::from_secs(120);

/// How long a client of the workload tries to connect again.
pub const RECONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long a server may leave a trial's ping without an answer, or refuse connections, before the
/// trial ends. Longer than a server frozen for 20 s, shorter than a person's patience.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// Pauses between tries: the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];

/// Tries of one thing.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    began: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// For something that may be tried again until `limit` has passed since its first failure.
    pub fn new(limit: Duration) -> Patience {
        Patience { limit, began: None, pause: PAUSES[0] }
    }

    /// After a failure: waits until the next try is due, or answers `false` at once when trying again
    /// cannot help or has not helped for the whole limit.
    pub async fn allows(&mut self, class: ErrorClass) -> bool {
        let began = *self.began.get_or_insert_with(Instant::now);
        if class != ErrorClass::Transient || began.elapsed() >= self.limit {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        true
    }

    /// How long it has been tried.
    pub fn waited(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_may_pass_is_tried_again_and_not_for_ever() {
        let mut patience = Patience::new(RETRY_LIMIT);
        let mut tries = 0;
        while patience.allows(ErrorClass::Transient).await {
            tries += 1;
        }
        assert!(tries > 20, "{tries}");
        assert!(patience.waited() >= RETRY_LIMIT && patience.waited() < RETRY_LIMIT + PAUSES[1]);
        for class in [ErrorClass::User, ErrorClass::Lab, ErrorClass::Bug] {
            let mut patience = Patience::new(RETRY_LIMIT);
            assert!(!patience.allows(class).await, "{class:?}");
            assert_eq!(patience.waited(), Duration::ZERO);
        }
    }
}
