//! Counters that all parts of the sync unit write and the progress report reads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::mysql::Position;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::{Retries, Stage};

/// What one stage did.
#[derive(Debug, Default)]
pub(super) struct StageCounters {
    busy_ns: AtomicU64,
    blocked_in_ns: AtomicU64,
    blocked_out_ns: AtomicU64,
    items: AtomicU64,
    bytes: AtomicU64,
}

impl StageCounters {
    pub(super) fn add_busy(&self, time: Duration) {
        add(&self.busy_ns, time);
    }

    pub(super) fn add_blocked_in(&self, time: Duration) {
        add(&self.blocked_in_ns, time);
    }

    pub(super) fn add_blocked_out(&self, time: Duration) {
        add(&self.blocked_out_ns, time);
    }

    pub(super) fn add_items(&self, items: u64) {
        self.items.fetch_add(items, Relaxed);
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// A reading.
    pub(super) fn read(&self, name: &str, queue_len: u64, queue_cap: u64) -> Stage {
        let seconds = |counter: &AtomicU64| counter.load(Relaxed) as f64 / 1e9;
        Stage {
            name: name.to_owned(),
            busy_s: seconds(&self.busy_ns),
            blocked_in_s: seconds(&self.blocked_in_ns),
            blocked_out_s: seconds(&self.blocked_out_ns),
            items: self.items.load(Relaxed),
            bytes: self.bytes(),
            queue_len,
            queue_cap,
        }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
}

/// Counters of the whole unit.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) reader: StageCounters,
    pub(super) conflict: StageCounters,
    pub(super) workers: StageCounters,
    pub(super) checkpoint: StageCounters,
    /// Row changes whose transaction is committed on the target.
    pub(super) rows: AtomicU64,
    /// Transactions committed on the target.
    pub(super) transactions: AtomicU64,
    /// Statements that changed rows.
    pub(super) statements: AtomicU64,
    /// Barriers because of shared keys.
    pub(super) conflicts: AtomicU64,
    /// Updates and deletes that found no row outside safe mode.
    pub(super) mismatched: AtomicU64,
    /// Inserts into tables without a key that may have been executed twice.
    pub(super) repeated: AtomicU64,
    /// Changes that became part of another.
    pub(super) compacted: AtomicU64,
    /// Transactions tried again, by why.
    pub(super) retries: Mutex<Retries>,
    /// The last failure of a transaction that was tried again.
    pub(super) trouble: Mutex<Option<String>>,
    /// DDL executed.
    pub(super) ddl: AtomicU64,
    /// Row changes waiting in the workers' queues or being applied.
    pub(super) queued: AtomicU64,
    /// Chunks of changes waiting for conflict detection.
    pub(super) chunks: AtomicU64,
    /// The source has nothing that was not read.
    pub(super) idle: AtomicBool,
    /// Furthest boundary read.
    pub(super) read: Mark,
    /// Position of the stored checkpoint.
    pub(super) durable: Mark,
}

impl Counters {
    /// A transaction is tried again because of this failure.
    pub(super) fn try_again(&self, failure: &Error) {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let why = match failure {
            Error::Session(error) if error.is_conflict() => &mut retries.conflict,
            Error::Session(error) if error.is_disconnect() => &mut retries.connection,
            _ => &mut retries.busy,
        };
        *why += 1;
    }

    /// Transactions tried again so far.
    pub(super) fn retries(&self) -> Retries {
        *self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last failure of a transaction that was tried again.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A position that one part sets and others look at.
#[derive(Debug, Default)]
pub(super) struct Mark(Mutex<Option<Position>>);

impl Mark {
    pub(super) fn set(&self, position: Position) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(position);
    }

    pub(super) fn get(&self) -> Option<Position> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

/// Reads a counter.
pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::session::{CONFLICT_CODES, Error as SessionError, TRANSIENT_CODES};
    use crate::pipeline::builtin::sync::memory::broken;

    fn told(code: u16) -> Error {
        let (message, state) = (String::new(), "HY000".to_owned());
        Error::Session(SessionError::Statement {
            endpoint: "memory".to_owned(),
            statement: "COMMIT".to_owned(),
            source: Box::new(mysql_async::ServerError { code, message, state }.into()),
        })
    }

    /// Deadlock, lock wait and TiDB's write conflict; a killed session and silence; too many
    /// connections and a busy TiKV.
    #[test]
    fn each_retry_is_of_one_class() {
        let counters = Counters::default();
        for code in [1213, 1205, 9007, 1927, 1040, 9003] {
            counters.try_again(&told(code));
        }
        counters.try_again(&broken());
        let retries = counters.retries();
        assert_eq!(retries, Retries { conflict: 3, connection: 2, busy: 2 });
        assert_eq!(retries.total(), 7);
        assert!(CONFLICT_CODES.iter().all(|code| TRANSIENT_CODES.contains(code)));
    }
}
