//! Executing row changes on the target.

use std::time::Instant;

use crate::error::ErrorClass;
use crate::mysql::patience::APPLY_LIMIT;
use crate::mysql::session::Error as SessionError;
use crate::mysql::{Endpoint, Flavor, Session};
use crate::pipeline::builtin::sync::change::RowChange;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::plan::{Step, plan};
use crate::pipeline::builtin::sync::statement;
use crate::stats::Histogram;

/// Strict, so that nothing is cut silently, but zero dates, impossible dates and a 0 in an
/// AUTO_INCREMENT column come in as the source has them.
pub(super) const SET_STATE: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', \
     time_zone = '+00:00', foreign_key_checks = 0, autocommit = 1";

/// What executing a batch took.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// From the begin of a transaction to its commit (µs).
    pub(super) transaction: Histogram,
    /// Each statement that changes rows (µs).
    pub(super) statement: Histogram,
}

/// A batch that is committed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Applied {
    /// Statements that changed rows.
    pub(super) statements: u64,
    /// Rows to update or delete that were not found, outside safe mode.
    pub(super) mismatched: u64,
}

/// What has become of a batch that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing of it is on the target.
    RolledBack,
    /// Its COMMIT was sent and no answer came.
    Unknown,
}

/// A batch that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub(super) error: Error,
    /// What became of it.
    pub(super) fate: Fate,
}

/// One worker's way to the target.
///
/// Contract: `apply` executes the changes in their order in one transaction; `Ok` promises that all
/// are committed and durable as far as the target is. On failure `fate` tells what became of the
/// batch. After a failure `recover` must succeed before the next `apply`. Futures are not dropped
/// half-way but with the applier itself.
pub(super) trait Applier: Send + 'static {
    /// Applies a batch. `replay`: all of it may be on the target already, whatever its rows say.
    fn apply(
        &mut self,
        batch: &[RowChange],
        replay: bool,
        timing: &mut Timing,
    ) -> impl Future<Output = Result<Applied, Failure>> + Send;

    /// Makes it usable after a failure.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn recover(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// An applier over one connection and the text protocol.
#[derive(Debug)]
pub(super) struct SqlApplier {
    endpoint: Endpoint,
    session: Session,
    multiple_rows: bool,
    sql: Vec<u8>,
}

impl SqlApplier {
    /// Connects to the target. `multiple_rows`: rows of one kind become one statement.
    ///
    /// # Errors
    /// When it cannot be reached or refuses a setting.
    pub(super) async fn connect(endpoint: &Endpoint, multiple_rows: bool) -> Result<Self, Error> {
        let session = connect(endpoint).await?;
        Ok(SqlApplier { endpoint: endpoint.clone(), session, multiple_rows, sql: Vec::new() })
    }

    async fn run(&mut self, sql: &[u8]) -> Result<u64, SessionError> {
        self.session.execute(sql).await
    }

    /// Everything but the COMMIT: a failure leaves nothing behind.
    async fn execute(
        &mut self,
        batch: &[RowChange],
        replay: bool,
        timing: &mut Timing,
    ) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        self.run(b"START TRANSACTION").await?;
        for step in plan(batch, self.multiple_rows, replay) {
            let mut sql = std::mem::take(&mut self.sql);
            sql.clear();
            statement::write(step, &mut sql);
            let began = Instant::now();
            let found = self.run(&sql).await.map_err(|source| refused(step, source))?;
            timing.statement.record_duration(began.elapsed());
            applied.statements += 1;
            if !replay {
                applied.mismatched += step.missing(found);
            }
            self.sql = sql;
        }
        Ok(applied)
    }
}

/// A transient failure keeps its own face, so that it is tried again; another names the rows.
fn refused(step: Step<'_>, source: SessionError) -> Error {
    if source.class() == ErrorClass::Transient {
        return Error::Session(source);
    }
    let first = step.rows.first().map(statement::name).unwrap_or_default();
    let change = match step.rows.len() {
        0 | 1 => first,
        rows => format!("{first} and {} more rows in one statement", rows - 1),
    };
    Error::Apply { change, source: Box::new(source) }
}

impl Applier for SqlApplier {
    async fn apply(
        &mut self,
        batch: &[RowChange],
        replay: bool,
        timing: &mut Timing,
    ) -> Result<Applied, Failure> {
        let began = Instant::now();
        let applied = self
            .execute(batch, replay, timing)
            .await
            .map_err(|error| Failure { error, fate: Fate::RolledBack })?;
        if let Err(error) = self.run(b"COMMIT").await {
            // An answer of the server means that it refused; silence leaves the fate open, and so
            // does a session that was ended meanwhile.
            let fate = if error.is_disconnect() { Fate::Unknown } else { Fate::RolledBack };
            return Err(Failure { error: error.into(), fate });
        }
        timing.transaction.record_duration(began.elapsed());
        Ok(applied)
    }

    async fn recover(&mut self) -> Result<(), Error> {
        if self.run(b"ROLLBACK").await.is_err() {
            self.session = connect(&self.endpoint).await?;
        }
        Ok(())
    }
}

/// A connection set up for applying.
pub(super) async fn connect(endpoint: &Endpoint) -> Result<Session, Error> {
    // Matched rows, not changed ones: an UPDATE to the same values is no mismatch.
    let mut session = Session::connect_with(endpoint, |opts| opts.client_found_rows(true)).await?;
    session.wait_up_to(APPLY_LIMIT);
    session.execute(SET_STATE).await?;
    // Rows are found by their keys, so nothing needs gap locks, over which workers would deadlock.
    session
        .execute(if session.server().flavor == Flavor::Tidb {
            "SET SESSION tidb_txn_mode = 'optimistic'"
        } else {
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
        })
        .await?;
    Ok(session)
}
