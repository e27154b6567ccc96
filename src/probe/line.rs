//! A session that comes back: probes outlive the loss of a connection.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::mysql::session::Error;
use crate::mysql::{Endpoint, Session};

/// Whether a schema or table is unknown: the pipeline has not made it yet.
pub(super) fn is_not_there_yet(error: &Error) -> bool {
    matches!(error.code(), Some(1049 | 1146))
}

/// A session to one end for one probe. A statement that finds the connection lost fails; the next
/// one connects anew.
#[derive(Debug)]
pub(super) struct Line {
    endpoint: Endpoint,
    session: Option<Session>,
}

impl Line {
    /// Connects, so that an end that cannot be reached is known at the start.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Line, Error> {
        let session = Session::connect(endpoint).await?;
        Ok(Line { endpoint: endpoint.clone(), session: Some(session) })
    }

    /// The session, connected again where need be.
    pub(super) async fn session(&mut self) -> Result<&mut Session, Error> {
        if self.session.is_none() {
            self.session = Some(Session::connect(&self.endpoint).await?);
        }
        Ok(self.session.as_mut().expect("connected just now"))
    }

    /// Looks at the outcome of a statement and gives up a connection that is of no use any more.
    pub(super) fn note<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        if outcome.as_ref().is_err_and(Error::is_disconnect) {
            self.session = None;
        }
        outcome
    }
}

/// Reads of a probe that failed, with the last reason.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: AtomicU64,
    last: std::sync::Mutex<Option<String>>,
}

impl Failures {
    /// Counts a failure.
    pub(super) fn add(&self, error: &Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().expect("nobody panics while holding it") = Some(error.to_string());
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last reason.
    pub(super) fn last(&self) -> Option<String> {
        self.last.lock().expect("nobody panics while holding it").clone()
    }
}
