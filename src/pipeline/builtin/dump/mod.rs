//! The dump unit: reads whole tables out of the source, at one position, into SQL files.
//!
//! Files are what lets load be timed apart from dump. A dump starts from nothing every time and
//! writes `metadata` last, so that a folder with one is complete. Nothing here touches the target.

mod chunk;
mod error;
mod files;
pub(in crate::pipeline::builtin) mod layout;
mod literal;
mod snapshot;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::chunk::Chunk;
use self::files::Files;
use self::layout::{File, HEADER, METADATA};
use self::literal::push_literal;
use self::snapshot::Snapshot;
use crate::mysql::patience::{Patience, RETRY_LIMIT};
use crate::mysql::session::quote_name;
use crate::mysql::{Endpoint, Position, Session};
use crate::pipeline::builtin::settings::Dump;
use crate::pipeline::{Progress, State, Unit};

pub use self::error::Error;
pub use self::layout::Metadata;
pub use self::snapshot::Consistency;

/// What a dump gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Dumped {
    /// The binlog position at which all rows were read.
    pub position: Position,
    /// Rows written.
    pub rows: u64,
    /// Bytes of SQL text in the files of rows.
    pub bytes: u64,
    /// Files of rows.
    pub files: u64,
    /// How the connections were brought to one position.
    pub consistency: Consistency,
    /// What the user should know, a sentence each.
    pub remarks: Vec<String>,
}

/// Sizes at which statements and files are closed.
#[derive(Debug, Clone, Copy)]
struct Limits {
    statement_bytes: u64,
    file_bytes: u64,
}

/// Dumps all tables of `schemas` into `folder`, whose SQL files and `metadata` are removed first.
///
/// `progress` shows rows and bytes while it runs; its final state is the caller's to set.
///
/// # Errors
/// When the source refuses, a table changes its definition meanwhile, a file cannot be written, or
/// `cancel` fires. No lock is left on the source in any case.
pub async fn run(
    settings: &Dump,
    source: &Endpoint,
    schemas: &[String],
    folder: &Path,
    progress: &watch::Sender<Progress>,
    cancel: &CancellationToken,
) -> Result<Dumped, Error> {
    progress.send_replace(Progress::new(Unit::Dump));
    let began = Timestamp::now();
    clear(folder).await?;
    let snapshot = open(settings, source, schemas, cancel).await?;
    tokio::select! {
        dumped = dump(settings, snapshot, schemas, folder, began, progress) => dumped,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// Opens the snapshot, and again where the source was not there: no row has been read yet, so that it
/// may as well stand for a later position.
async fn open(
    settings: &Dump,
    source: &Endpoint,
    schemas: &[String],
    cancel: &CancellationToken,
) -> Result<Snapshot, Error> {
    let mut patience = Patience::new(RETRY_LIMIT);
    let mut trouble = None;
    loop {
        let error = match Snapshot::open(source, settings.threads, schemas, cancel).await {
            Ok(mut snapshot) => {
                let remark = |why| format!("the dump's begin was tried again, because: {why}");
                snapshot.remarks.extend(trouble.map(remark));
                return Ok(snapshot);
            }
            // A lock that was waited for in vain stalls the source's writers each time.
            Err(error @ Error::Session(_)) => error,
            Err(error) => return Err(error),
        };
        let text = error.to_string();
        tokio::select! {
            allowed = patience.allows(error.class()) => if !allowed {
                return Err(error);
            },
            () = cancel.cancelled() => return Err(Error::Cancelled),
        }
        trouble = Some(text);
    }
}

async fn dump(
    settings: &Dump,
    mut snapshot: Snapshot,
    schemas: &[String],
    folder: &Path,
    began: Timestamp,
    progress: &watch::Sender<Progress>,
) -> Result<Dumped, Error> {
    let chunks = plan(settings, schemas, folder, &mut snapshot, progress).await?;
    progress.send_modify(|p| p.state = State::Running);
    let sessions = std::mem::take(&mut snapshot.sessions);
    let limits = Limits {
        statement_bytes: settings.statement_size.max(1),
        file_bytes: settings.chunk_filesize.max(1) << 20,
    };
    let files = read_chunks(sessions, chunks, folder, limits, progress).await?;
    let (rows, bytes) = {
        let progress = progress.borrow();
        (progress.rows, progress.bytes)
    };
    let metadata = Metadata {
        began,
        ended: Timestamp::now(),
        position: snapshot.position.clone(),
        gtid: snapshot.gtid.clone(),
        rows,
        bytes,
    };
    write(&folder.join(METADATA), &metadata.to_text()).await?;
    let dumped = Dumped {
        position: metadata.position,
        rows,
        bytes,
        files,
        consistency: snapshot.consistency,
        remarks: snapshot.remarks.clone(),
    };
    snapshot.close().await;
    Ok(dumped)
}

/// Makes the folder; removes the files of an earlier dump and nothing else.
async fn clear(folder: &Path) -> Result<(), Error> {
    let error = |source| Error::File { path: folder.to_owned(), source };
    tokio::fs::create_dir_all(folder).await.map_err(error)?;
    let mut entries = tokio::fs::read_dir(folder).await.map_err(error)?;
    while let Some(entry) = entries.next_entry().await.map_err(error)? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name == METADATA || File::from_name(&name).is_some() {
            tokio::fs::remove_file(entry.path()).await.map_err(error)?;
        }
    }
    Ok(())
}

/// Writes the schema files and lists the work, largest chunks first, so that a table in one piece
/// does not begin when all others are done.
async fn plan(
    settings: &Dump,
    schemas: &[String],
    folder: &Path,
    snapshot: &mut Snapshot,
    progress: &watch::Sender<Progress>,
) -> Result<VecDeque<Chunk>, Error> {
    let (mut chunks, mut expected) = (Vec::new(), 0);
    let Snapshot { sessions, tables, remarks, .. } = snapshot;
    let session = &mut sessions[0];
    for schema in schemas {
        write_schema(session, schema, folder).await?;
    }
    for (schema, table) in tables.iter() {
        let planned = chunk::plan(session, schema, table, settings.rows).await?;
        if let Some(engine) = &planned.foreign_engine {
            remarks.push(format!(
                "table {schema}.{table} is kept by {engine}, which has no snapshots: rows written \
                 during the dump may be in it and be replicated again"
            ));
        }
        expected += planned.rows;
        let file = File::Table { schema: schema.clone(), table: table.clone() };
        write(&folder.join(file.name()), &format!("{HEADER}{};\n", planned.plan.create)).await?;
        chunks.extend(planned.chunks);
    }
    progress.send_modify(|p| p.rows_expected = Some(expected));
    chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.rows));
    Ok(chunks.into())
}

async fn write_schema(session: &mut Session, schema: &str, folder: &Path) -> Result<(), Error> {
    let sql = "SELECT default_character_set_name, default_collation_name \
               FROM information_schema.schemata WHERE schema_name = ?";
    let answer = session.rows_with(sql, (schema,)).await?;
    let Some(row) = answer.into_iter().next() else {
        return Err(Error::NoSchema { schema: schema.to_owned() });
    };
    let (charset, collation): (String, String) = mysql_async::from_row(row);
    let text = format!(
        "{HEADER}CREATE DATABASE {} /*!40100 DEFAULT CHARACTER SET {charset} COLLATE {collation} \
         */;\n",
        quote_name(schema)
    );
    write(&folder.join(File::Schema { schema: schema.to_owned() }.name()), &text).await
}

async fn write(path: &Path, text: &str) -> Result<(), Error> {
    tokio::fs::write(path, text)
        .await
        .map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Reads all chunks, one connection each at a time. Returns the number of files made.
async fn read_chunks(
    sessions: Vec<Session>,
    chunks: VecDeque<Chunk>,
    folder: &Path,
    limits: Limits,
    progress: &watch::Sender<Progress>,
) -> Result<u64, Error> {
    let chunks = Arc::new(Mutex::new(chunks));
    let mut readers = JoinSet::new();
    for session in sessions {
        let reader = Reader {
            session,
            chunks: chunks.clone(),
            folder: folder.to_owned(),
            limits,
            progress: progress.clone(),
        };
        readers.spawn(reader.read_all());
    }
    let mut files = 0;
    while let Some(ended) = readers.join_next().await {
        files += ended.map_err(|e| Error::Reader { why: e.to_string() })??;
    }
    Ok(files)
}

/// One connection of the snapshot at work.
struct Reader {
    session: Session,
    chunks: Arc<Mutex<VecDeque<Chunk>>>,
    folder: PathBuf,
    limits: Limits,
    progress: watch::Sender<Progress>,
}

impl Reader {
    async fn read_all(mut self) -> Result<u64, Error> {
        let mut files = 0;
        while let Some(chunk) = self.next() {
            files += self.read(&chunk).await?;
        }
        self.session.close().await;
        Ok(files)
    }

    fn next(&self) -> Option<Chunk> {
        self.chunks.lock().expect("no holder of this lock can panic").pop_front()
    }

    async fn read(&mut self, chunk: &Chunk) -> Result<u64, Error> {
        let query = chunk.query();
        let mut files = Files::new(&self.folder, chunk, self.limits);
        let mut rows = 0;
        let read = read_rows(&mut self.session, &query, chunk, &mut files, |written| {
            rows += 1;
            if written > 0 {
                let rows = std::mem::take(&mut rows);
                self.progress.send_modify(|p| {
                    p.rows += rows;
                    p.bytes += written;
                });
            }
        });
        read.await?;
        let written = files.finish().await?;
        self.progress.send_modify(|p| {
            p.rows += rows;
            p.bytes += written;
        });
        Ok(files.files)
    }
}

/// Streams a chunk's rows into its files; `counted` hears of every row with the bytes that were
/// written to disk for it.
async fn read_rows(
    session: &mut Session,
    query: &str,
    chunk: &Chunk,
    files: &mut Files<'_>,
    mut counted: impl FnMut(u64),
) -> Result<(), Error> {
    let mut answer = match session.conn().query_iter(query).await {
        Ok(answer) => answer,
        Err(source) => return Err(session.statement_error(query, source).into()),
    };
    loop {
        let row = match answer.next().await {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(()),
            Err(source) => {
                drop(answer);
                return Err(session.statement_error(query, source).into());
            }
        };
        let text = files.begin_row().await?;
        for (column, &dress) in chunk.plan.dresses.iter().enumerate() {
            text.push(if column == 0 { b'(' } else { b',' });
            push_literal(text, dress, text_of(&row, column, &chunk.plan)?);
        }
        text.extend_from_slice(if chunk.plan.dresses.is_empty() { b"()" } else { b")" });
        counted(files.end_row().await?);
    }
}

/// A column's bytes; the text protocol knows nothing but bytes and NULL.
fn text_of<'r>(
    row: &'r mysql_async::Row,
    column: usize,
    plan: &chunk::TablePlan,
) -> Result<Option<&'r [u8]>, Error> {
    match row.as_ref(column) {
        Some(mysql_async::Value::Bytes(bytes)) => Ok(Some(bytes)),
        Some(mysql_async::Value::NULL) => Ok(None),
        _ => Err(Error::Table {
            table: format!("{}.{}", plan.schema, plan.table),
            why: format!("column {} of a row is not text", column + 1),
        }),
    }
}
