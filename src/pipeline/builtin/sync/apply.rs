//! Executing row changes and DDL on the target.

use std::time::Instant;

use mysql_async::prelude::Queryable as _;

use crate::error::ErrorClass;
use crate::mysql::binlog::Kind;
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Endpoint, Flavor, Session};
use crate::pipeline::builtin::sync::change::{Ddl, RowChange};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::statement;
use crate::stats::Histogram;

/// Strict, so that nothing is cut silently, but zero dates, impossible dates and a 0 in an
/// AUTO_INCREMENT column come in as the source has them.
const SQL_MODE: &str = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";

/// Codes that tell that a DDL was executed before: database exists or not, table exists or not,
/// column or index exists or not.
const DONE_BEFORE: [u16; 8] = [1007, 1008, 1050, 1051, 1060, 1061, 1091, 1146];

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
    /// Updates and deletes that found no row, outside safe mode.
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
    /// Applies a batch. `safe`: parts of it may be on the target already.
    fn apply(
        &mut self,
        batch: &[RowChange],
        safe: bool,
        timing: &mut Timing,
    ) -> impl Future<Output = Result<Applied, Failure>> + Send;

    /// Makes it usable after a failure.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn recover(&mut self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Executes a DDL. `safe`: it may have been executed already, and then that is no error.
    ///
    /// # Errors
    /// When the target refuses it.
    fn define(&mut self, ddl: &Ddl, safe: bool) -> impl Future<Output = Result<(), Error>> + Send;
}

/// An applier over one connection and the text protocol.
#[derive(Debug)]
pub(super) struct SqlApplier {
    endpoint: Endpoint,
    session: Session,
    statements: Vec<Vec<u8>>,
}

impl SqlApplier {
    /// Connects to the target.
    ///
    /// # Errors
    /// When it cannot be reached or refuses a setting.
    pub(super) async fn connect(endpoint: &Endpoint) -> Result<SqlApplier, Error> {
        let session = connect(endpoint).await?;
        Ok(SqlApplier { endpoint: endpoint.clone(), session, statements: Vec::new() })
    }

    async fn run(&mut self, sql: &[u8]) -> Result<u64, SessionError> {
        let conn = self.session.conn();
        match conn.query_drop(sql).await {
            Ok(()) => Ok(conn.affected_rows()),
            Err(source) => Err(self.session.statement_error(&String::from_utf8_lossy(sql), source)),
        }
    }

    /// Everything but the COMMIT: a failure leaves nothing behind.
    async fn execute(
        &mut self,
        batch: &[RowChange],
        safe: bool,
        timing: &mut Timing,
    ) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        self.run(b"BEGIN").await?;
        for change in batch {
            let mut statements = std::mem::take(&mut self.statements);
            statements.clear();
            statement::write(change, safe, &mut statements);
            for sql in &statements {
                let began = Instant::now();
                let found = self.run(sql).await.map_err(|source| refused(change, source))?;
                timing.statement.record_duration(began.elapsed());
                applied.statements += 1;
                if !safe && found == 0 && change.kind() != Kind::Insert {
                    applied.mismatched += 1;
                }
            }
            self.statements = statements;
        }
        Ok(applied)
    }
}

/// A transient failure keeps its own face, so that it is tried again; another names the row.
fn refused(change: &RowChange, source: SessionError) -> Error {
    if source.class() == ErrorClass::Transient {
        return Error::Session(source);
    }
    Error::Apply { change: statement::name(change), source: Box::new(source) }
}

impl Applier for SqlApplier {
    async fn apply(
        &mut self,
        batch: &[RowChange],
        safe: bool,
        timing: &mut Timing,
    ) -> Result<Applied, Failure> {
        let began = Instant::now();
        let applied = self
            .execute(batch, safe, timing)
            .await
            .map_err(|error| Failure { error, fate: Fate::RolledBack })?;
        if let Err(error) = self.run(b"COMMIT").await {
            // An answer of the server means that it refused; only silence leaves the fate open,
            // and a server going down.
            let answered = error.code().is_some_and(|code| code != 1053 && code != 8501);
            let fate = if answered { Fate::RolledBack } else { Fate::Unknown };
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

    async fn define(&mut self, ddl: &Ddl, safe: bool) -> Result<(), Error> {
        let error = |source| Error::Ddl { position: ddl.end.to_string(), source: Box::new(source) };
        if !ddl.schema.is_empty() {
            self.session
                .execute(&format!("USE {}", quote_name(&ddl.schema)))
                .await
                .map_err(error)?;
        }
        match self.session.execute(&ddl.sql).await {
            Ok(_) => Ok(()),
            Err(source) if safe && source.code().is_some_and(|c| DONE_BEFORE.contains(&c)) => {
                Ok(())
            }
            Err(source) => Err(error(source)),
        }
    }
}

/// A connection set up for applying.
async fn connect(endpoint: &Endpoint) -> Result<Session, Error> {
    // Matched rows, not changed ones: an UPDATE to the same values is no mismatch.
    let opts = endpoint.opts().client_found_rows(true);
    let mut session = Session::connect_with(endpoint, opts).await?;
    session
        .execute(&format!(
            "SET SESSION sql_mode = '{SQL_MODE}', foreign_key_checks = 0, autocommit = 1"
        ))
        .await?;
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
