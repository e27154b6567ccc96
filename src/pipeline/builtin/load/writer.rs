//! One connection of the load unit: runs a file's statements one after another.
//!
//! Each INSERT is a transaction of its own. A statement that the target rolled back for a passing
//! reason is run again; when the connection was lost it is unknown whether the rows arrived, and the
//! same rows are written once more by REPLACE, which gives the same end where a key tells rows apart.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::error::ErrorClass;
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Endpoint, Flavor, Session};
use crate::pipeline::builtin::dump::layout::HEADER;
use crate::pipeline::builtin::load::Error;
use crate::pipeline::builtin::load::splitter::Splitter;
use crate::stats::Histogram;

/// Bytes read from a file at once.
const PIECE: usize = 256 * 1024;

/// How often a statement is tried, a lost connection included.
const ATTEMPTS: u32 = 6;

/// Wait before the second attempt; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// A file of rows.
#[derive(Debug, Clone)]
pub(super) struct RowFile {
    pub(super) path: PathBuf,
    pub(super) schema: String,
    /// Whether a key tells the table's rows apart.
    pub(super) has_key: bool,
}

/// What one statement did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// See the module.
pub(super) struct Writer {
    session: Session,
    schema: String,
    /// Time of each transaction from its first attempt to its success (µs).
    pub(super) transaction: Histogram,
    /// Time of each statement's successful attempt (µs).
    pub(super) statement: Histogram,
}

impl Writer {
    pub(super) async fn connect(target: &Endpoint) -> Result<Writer, SessionError> {
        Ok(Writer {
            session: connect(target).await?,
            schema: String::new(),
            transaction: Histogram::default(),
            statement: Histogram::default(),
        })
    }

    /// Runs all statements of a file; `written` hears of every INSERT.
    pub(super) async fn load(
        &mut self,
        file: &RowFile,
        mut written: impl FnMut(Written),
    ) -> Result<(), Error> {
        let path = &file.path;
        let file_error = |source| Error::File { path: path.clone(), source };
        let text_error =
            |e: &dyn std::error::Error| Error::Text { path: path.clone(), why: e.to_string() };
        self.use_schema(&file.schema).await?;
        let mut disk = tokio::fs::File::open(path).await.map_err(file_error)?;
        let mut splitter = Splitter::new();
        loop {
            let input = splitter.input();
            input.reserve(PIECE);
            if disk.read_buf(input).await.map_err(file_error)? == 0 {
                break;
            }
            while let Some(statement) =
                splitter.next_statement().map_err(|error| text_error(&error))?
            {
                if is_insert(&statement) {
                    written(self.insert(file, statement).await?);
                } else if !is_in_header(&statement) {
                    self.run(path, &statement).await?;
                }
            }
        }
        splitter.finish().map_err(|error| text_error(&error))
    }

    pub(super) async fn close(self) {
        self.session.close().await;
    }

    async fn use_schema(&mut self, schema: &str) -> Result<(), SessionError> {
        if self.schema != schema {
            self.session.execute(&format!("USE {}", quote_name(schema))).await?;
            self.schema = schema.to_owned();
        }
        Ok(())
    }

    /// Runs one statement that is not an INSERT, without measuring it.
    async fn run(&mut self, path: &Path, statement: &[u8]) -> Result<(), Error> {
        self.session.conn().query_drop(statement).await.map_err(|source| Error::Text {
            path: path.to_owned(),
            why: self.session.statement_error(&shown(statement), source).to_string(),
        })
    }

    async fn insert(&mut self, file: &RowFile, mut statement: Vec<u8>) -> Result<Written, Error> {
        let bytes = statement.len() as u64;
        let began = Instant::now();
        let (mut attempt, mut replaced) = (1, false);
        loop {
            let tried = Instant::now();
            let Err(source) = self.session.conn().query_drop(&statement[..]).await else {
                self.statement.record_duration(tried.elapsed());
                self.transaction.record_duration(began.elapsed());
                // REPLACE counts a row twice when it was there, so its rows are counted in the text.
                let affected = self.session.conn().affected_rows();
                let rows = if replaced { row_count(&statement) } else { affected };
                return Ok(Written { rows, bytes });
            };
            let error = self.session.statement_error(&shown(&statement), source);
            if error.class() != ErrorClass::Transient {
                return Err(error.into());
            }
            let lost = error.is_disconnect() || error.code() == Some(SHUTDOWN);
            if lost && !file.has_key {
                return Err(Error::UnknownFate { path: file.path.clone(), source: error });
            }
            if attempt == ATTEMPTS {
                return Err(Error::Attempts {
                    path: file.path.clone(),
                    attempts: attempt,
                    source: error,
                });
            }
            if lost && !replaced {
                statement.splice(..INSERT.len(), *REPLACE);
                replaced = true;
            }
            tokio::time::sleep(FIRST_WAIT * 2u32.pow(attempt - 1)).await;
            attempt += 1;
            if lost {
                attempt = self.reconnect(file, attempt).await?;
            }
        }
    }

    /// Connects again, with as many attempts as are left. Returns the number of the next attempt.
    async fn reconnect(&mut self, file: &RowFile, mut attempt: u32) -> Result<u32, Error> {
        let endpoint = self.session.endpoint().clone();
        loop {
            match connect(&endpoint).await {
                Ok(session) => {
                    self.session = session;
                    self.schema.clear();
                    self.use_schema(&file.schema).await?;
                    return Ok(attempt);
                }
                Err(source) if attempt >= ATTEMPTS => {
                    return Err(Error::Attempts {
                        path: file.path.clone(),
                        attempts: attempt,
                        source,
                    });
                }
                Err(_) => {
                    tokio::time::sleep(FIRST_WAIT * 2u32.pow(attempt)).await;
                    attempt += 1;
                }
            }
        }
    }
}

const INSERT: &[u8] = b"INSERT INTO";
const REPLACE: &[u8; 12] = b"REPLACE INTO";

/// `ER_SERVER_SHUTDOWN`: the connection goes next, and the statement's fate with it.
const SHUTDOWN: u16 = 1053;

/// A session that takes values exactly as they were dumped: zero dates and explicit zeros for
/// AUTO_INCREMENT pass, a value that does not fit is an error and never changed in silence.
pub(super) async fn connect(target: &Endpoint) -> Result<Session, SessionError> {
    let mut session = Session::connect(target).await?;
    session
        .execute(
            "SET SESSION foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO,\
             STRICT_TRANS_TABLES,STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'",
        )
        .await?;
    if session.server().flavor == Flavor::Tidb {
        session.execute("SET SESSION tidb_txn_mode = 'optimistic'").await?;
    }
    Ok(session)
}

fn is_insert(statement: &[u8]) -> bool {
    statement.get(..INSERT.len()).is_some_and(|start| start.eq_ignore_ascii_case(INSERT))
}

/// The header sets what [`connect`] has set; running it once per file would only cost round trips.
fn is_in_header(statement: &[u8]) -> bool {
    HEADER.lines().any(|line| line.trim_end_matches(';').as_bytes() == statement)
}

fn shown(statement: &[u8]) -> String {
    String::from_utf8_lossy(&statement[..statement.len().min(640)]).into_owned()
}

/// Rows of an INSERT as the dump unit writes it: each begins a line.
fn row_count(statement: &[u8]) -> u64 {
    memchr::memmem::find_iter(statement, b"\n(").count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_in_the_text() {
        // A line break inside a value is escaped by the dump, so none is taken for a row.
        assert_eq!(row_count(b"INSERT INTO `t` (`a`) VALUES\n('x\\n('),\n(NULL)"), 2);
    }

    #[test]
    fn the_header_is_not_run_again() {
        for line in HEADER.lines() {
            assert!(is_in_header(line.trim_end_matches(';').as_bytes()), "{line}");
        }
        assert!(!is_in_header(b"/*!40101 SET NAMES binary*/"));
        assert!(is_insert(b"insert into t") && !is_insert(b"INSERT") && !is_insert(b"SET x"));
    }
}
