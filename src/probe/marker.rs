//! Marker rows: written to the source on a schedule, looked for at the target.
//!
//! This is the headline clock of lag: both ends are timed by this process's monotonic clock, no
//! server's clock takes part, and a marker travels the pipeline as any other row does. It is not a
//! load: a few rows per second.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::mysql::session::{Error as SessionError, Session, quote_name};
use crate::mysql::{Endpoint, owner};
use crate::probe::Error;
use crate::probe::ledger::Ledger;
use crate::probe::line::{Failures, Line, is_not_there_yet};
use crate::stats::Histogram;

/// Name of the table of markers.
pub const MARKER_TABLE: &str = "_dmbench_marker";

/// The target is asked this often.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(10);

/// Most markers in one answer.
const MOST_ROWS: u64 = 10_000;

/// Makes the table of markers in a schema that is ours, unless it is there already. Do so before
/// the pipeline starts, so that it is dumped or replicated like any other table.
///
/// # Errors
/// [`Error::NotOurs`] for a schema without the owner table, or what the server refuses.
pub async fn create_table(session: &mut Session, schema: &str) -> Result<(), Error> {
    if owner::is_ours(session, schema).await? != Some(true) {
        let endpoint = session.endpoint().to_string();
        return Err(Error::NotOurs { schema: schema.to_owned(), endpoint });
    }
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {} (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, written_us BIGINT \
         UNSIGNED NOT NULL COMMENT 'microseconds since 1970 by the clock of dmbench')",
        quoted(schema)
    );
    session.execute(&sql).await?;
    Ok(())
}

fn quoted(schema: &str) -> String {
    format!("{}.{}", quote_name(schema), quote_name(MARKER_TABLE))
}

/// What the writer and the poller share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) ledger: Mutex<Ledger>,
    /// From the question before to the answer that may show a marker first (µs): how far a lag may
    /// be too large.
    pub(super) spans: Mutex<Histogram>,
    pub(super) writing: Failures,
    pub(super) polling: Failures,
}

impl Shared {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody panics while holding it")
    }
}

/// Writes markers; ends when told to write no more.
pub(super) struct Writer {
    line: Line,
    sql: String,
    every: Duration,
    shared: Arc<Shared>,
}

/// Connects to the source and reads where the numbering of markers goes on.
pub(super) async fn open_writer(
    source: &Endpoint,
    schema: &str,
    every: Duration,
) -> Result<(Writer, Arc<Shared>), Error> {
    let mut line = Line::open(source).await?;
    let table = quoted(schema);
    let sql = format!("SELECT MAX(id) FROM {table}");
    let last: Option<u64> = line.session().await?.value(&sql).await?;
    let shared = Arc::new(Shared {
        ledger: Mutex::new(Ledger::new(last.unwrap_or(0) + 1)),
        spans: Mutex::new(Histogram::default()),
        writing: Failures::default(),
        polling: Failures::default(),
    });
    let sql = format!("INSERT INTO {table} (id, written_us) VALUES (?, ?)");
    Ok((Writer { line, sql, every, shared: Arc::clone(&shared) }, shared))
}

impl Writer {
    /// Writes marker *i* when it is due: at the start plus *i* intervals, whatever became of the
    /// ones before. A late marker does not move the schedule; its lag counts from its own commit.
    pub(super) async fn run(mut self, no_more: CancellationToken) {
        let start = Instant::now();
        for index in 0u32.. {
            tokio::select! {
                () = no_more.cancelled() => return,
                () = sleep_until(start + self.every * index) => {}
            }
            let id = self.shared.ledger().next();
            match self.write(id).await {
                Ok(()) => self.shared.ledger().acknowledged(id, Instant::now()),
                Err(error) => {
                    self.shared.writing.add(&error);
                    self.shared.ledger().failed(id);
                }
            }
        }
    }

    async fn write(&mut self, id: u64) -> Result<(), SessionError> {
        let written = jiff::Timestamp::now().as_microsecond();
        let session = self.line.session().await?;
        let outcome = session.rows_with(&self.sql, (id, written)).await;
        self.line.note(outcome).map(drop)
    }
}

/// Looks for markers at the target.
pub(super) struct Poller {
    line: Line,
    sql: String,
    shared: Arc<Shared>,
}

impl Poller {
    /// Connects to the target.
    pub(super) async fn open(
        target: &Endpoint,
        schema: &str,
        shared: Arc<Shared>,
    ) -> Result<Poller, Error> {
        let line = Line::open(target).await?;
        let table = quoted(schema);
        let sql = format!("SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT {MOST_ROWS}");
        Ok(Poller { line, sql, shared })
    }

    /// Polls until cancelled. Each poll is a statement of its own: an open transaction on the target
    /// would hold up DDL there. `answered_one` is called for every statement that the target executed.
    pub(super) async fn run(mut self, answered_one: impl Fn(), cancel: CancellationToken) {
        let mut ticks = interval_at(Instant::now(), POLL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = Instant::now();
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let floor = self.shared.ledger().floor();
            let began = Instant::now();
            let answer = tokio::select! {
                () = cancel.cancelled() => return,
                answer = self.ask(floor) => answer,
            };
            let answered = Instant::now();
            match answer {
                Ok(ids) => {
                    answered_one();
                    self.note(&ids, answered, answered - before);
                    before = began;
                }
                Err(error) if is_not_there_yet(&error) => {}
                Err(error) => self.shared.polling.add(&error),
            }
        }
    }

    async fn ask(&mut self, floor: u64) -> Result<Vec<u64>, SessionError> {
        let session = self.line.session().await?;
        let outcome = session.rows_with(&self.sql, (floor,)).await;
        let rows = self.line.note(outcome)?;
        Ok(rows.into_iter().filter_map(|row| row.get::<u64, usize>(0)).collect())
    }

    fn note(&self, ids: &[u64], answered: Instant, span: Duration) {
        let mut ledger = self.shared.ledger();
        ledger.sample_missed_ages(POLL_EVERY, answered);
        for &id in ids {
            ledger.seen(id, answered);
        }
        ledger.sample_age(answered);
        drop(ledger);
        self.shared.spans.lock().expect("nobody panics while holding it").record_duration(span);
    }
}
