//! One connection of the load unit: runs a file's statements one after another.
//!
//! Each INSERT is a transaction of its own. A statement that the target rolled back for a passing
//! reason is run again; when the connection was lost it is unknown whether the rows arrived, and the
//! same rows are written once more by REPLACE, which gives the same end where a key tells rows apart.

use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt;
use tokio::time::Instant;

use crate::error::ErrorClass;
use crate::mysql::patience::{APPLY_LIMIT, Patience};
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Endpoint, Flavor, Session};
use crate::pipeline::builtin::dump::layout::HEADER;
use crate::pipeline::builtin::load::Error;
use crate::pipeline::builtin::load::splitter::Splitter;
use crate::stats::Histogram;

/// Bytes read from a file at once.
const PIECE: usize = 256 * 1024;

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
    /// INSERTs that were tried again, once for each further try.
    pub(super) retried: u64,
    /// Why the last of them was.
    pub(super) trouble: Option<String>,
    /// Time of each transaction from its first attempt to its success (µs).
    pub(super) transaction: Histogram,
    /// Time of each statement's successful attempt (µs).
    pub(super) statement: Histogram,
}

impl Writer {
    /// Connects; tries again where that may help.
    pub(super) async fn connect(target: &Endpoint) -> Result<Writer, SessionError> {
        let mut patience = Patience::new(APPLY_LIMIT);
        let session = loop {
            match connect(target).await {
                Ok(session) => break session,
                Err(error) if patience.allows(error.class()).await => drop(error),
                Err(error) => return Err(error),
            }
        };
        Ok(Writer {
            session,
            schema: String::new(),
            retried: 0,
            trouble: None,
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
        if let Err(error) = self.use_schema(&file.schema).await {
            self.reconnect(file, error, &mut Patience::new(APPLY_LIMIT)).await?;
        }
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
        let done = self.session.execute(statement).await;
        done.map(drop)
            .map_err(|error| Error::Text { path: path.to_owned(), why: error.to_string() })
    }

    async fn insert(&mut self, file: &RowFile, mut statement: Vec<u8>) -> Result<Written, Error> {
        let bytes = statement.len() as u64;
        let began = Instant::now();
        let mut patience = Patience::new(APPLY_LIMIT);
        let mut replaced = false;
        loop {
            let tried = Instant::now();
            let error = match self.session.execute(&statement).await {
                Ok(affected) => {
                    self.statement.record_duration(tried.elapsed());
                    self.transaction.record_duration(began.elapsed());
                    // REPLACE counts a row twice when it was there, so its rows are counted in the
                    // text.
                    let rows = if replaced { row_count(&statement) } else { affected };
                    return Ok(Written { rows, bytes });
                }
                Err(error) => error,
            };
            let lost = error.is_disconnect();
            if lost && !file.has_key {
                return Err(Error::UnknownFate { path: file.path.clone(), source: error });
            }
            if lost && !replaced {
                statement.splice(..INSERT.len(), *REPLACE);
                replaced = true;
            }
            self.retried += 1;
            self.trouble = Some(error.to_string());
            if lost {
                self.reconnect(file, error, &mut patience).await?;
            } else {
                wait(file, error, &mut patience).await?;
            }
        }
    }

    /// Connects again after a failure.
    async fn reconnect(
        &mut self,
        file: &RowFile,
        mut error: SessionError,
        patience: &mut Patience,
    ) -> Result<(), Error> {
        loop {
            wait(file, error, patience).await?;
            self.schema.clear();
            error = match connect(&self.session.endpoint().clone()).await {
                Ok(session) => {
                    self.session = session;
                    match self.use_schema(&file.schema).await {
                        Ok(()) => return Ok(()),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
        }
    }
}

/// Waits until the next try is due.
async fn wait(file: &RowFile, error: SessionError, patience: &mut Patience) -> Result<(), Error> {
    let class = error.class();
    if patience.allows(class).await {
        return Ok(());
    }
    Err(match class {
        ErrorClass::Transient => {
            Error::GaveUp { path: file.path.clone(), after: APPLY_LIMIT, source: error }
        }
        _ => error.into(),
    })
}

const INSERT: &[u8] = b"INSERT INTO";
const REPLACE: &[u8; 12] = b"REPLACE INTO";

/// A session that takes values exactly as they were dumped: zero dates and explicit zeros for
/// AUTO_INCREMENT pass, a value that does not fit is an error and never changed in silence.
pub(super) async fn connect(target: &Endpoint) -> Result<Session, SessionError> {
    let mut session = Session::connect(target).await?;
    session.wait_up_to(APPLY_LIMIT);
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
