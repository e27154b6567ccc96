//! The load unit: writes a dump's files into the target, in the manner of DM's first loader.
//!
//! `pool-size` connections take one file at a time; each INSERT is one transaction as it stands in
//! the file. The target's schemas are dropped and made anew, but only where dmbench made them.
//! A load that failed is begun again from nothing: it keeps no checkpoint.

mod error;
mod splitter;
mod writer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use mysql_async::prelude::Queryable;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::splitter::Splitter;
use self::writer::{RowFile, Writer};
use crate::mysql::owner;
use crate::mysql::patience::{APPLY_LIMIT, Patience};
use crate::mysql::schema::Table;
use crate::mysql::session::quote_name;
use crate::mysql::{Endpoint, Session};
use crate::pipeline::builtin::dump::Metadata;
use crate::pipeline::builtin::dump::layout::{File, METADATA};
use crate::pipeline::builtin::settings::Load;
use crate::pipeline::{Progress, State, Unit};
use crate::stats::Histogram;

pub use self::error::Error;

/// What a load gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// Rows written, as the target confirmed them.
    pub rows: u64,
    /// Bytes of the INSERT statements.
    pub bytes: u64,
    /// INSERT statements, each a transaction.
    pub statements: u64,
    /// INSERTs that were tried again, once for each further try.
    pub retried: u64,
    /// How often the target's tables had to be made anew, since making them failed.
    pub restarted: u64,
    /// Why something was tried again the last time.
    pub trouble: Option<String>,
    /// Time of transactions from the first attempt to success (µs).
    pub transaction: Histogram,
    /// Time of statements, successful attempts only (µs).
    pub statement: Histogram,
}

/// Loads the dump in `folder` into the target. `run` is written into the owner table of each schema.
///
/// `progress` shows rows, bytes and statements while it runs; its final state is the caller's to set.
///
/// # Errors
/// When the folder holds no complete dump, a schema of the target is not ours, the target refuses,
/// or `cancel` fires.
pub async fn run(
    settings: &Load,
    target: &Endpoint,
    run: &str,
    folder: &Path,
    progress: &watch::Sender<Progress>,
    cancel: &CancellationToken,
) -> Result<Loaded, Error> {
    progress.send_replace(Progress::new(Unit::Load));
    tokio::select! {
        loaded = load(settings, target, run, folder, progress) => loaded,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

async fn load(
    settings: &Load,
    target: &Endpoint,
    run: &str,
    folder: &Path,
    progress: &watch::Sender<Progress>,
) -> Result<Loaded, Error> {
    let metadata = Metadata::read(folder)
        .await
        .map_err(|source| Error::File { path: folder.join(METADATA), source })?;
    progress.send_modify(|p| p.rows_expected = Some(metadata.rows));
    let dump = list(folder).await?;
    let (mut restarted, mut trouble) = (0, None);
    let mut patience = Patience::new(APPLY_LIMIT);
    // No row is there yet, so that all of it can be done again.
    let files = loop {
        match create_tables(target, run, &dump).await {
            Ok(files) => break files,
            Err(error) => {
                let text = error.to_string();
                if !patience.allows(error.class()).await {
                    return Err(error);
                }
                (restarted, trouble) = (restarted + 1, Some(text));
            }
        }
    };
    progress.send_modify(|p| p.state = State::Running);
    let loaded = write_files(settings, target, files, progress).await?;
    Ok(Loaded { restarted, trouble: loaded.trouble.or(trouble), ..loaded })
}

/// Makes the target's schemas and tables anew. Gives the files of rows.
async fn create_tables(
    target: &Endpoint,
    run: &str,
    dump: &Dump,
) -> Result<VecDeque<RowFile>, Error> {
    let mut session = writer::connect(target).await?;
    for schema in &dump.schemas {
        owner::recreate(&mut session, schema, run).await?;
    }
    let mut has_key = BTreeMap::new();
    for (schema, table, path) in &dump.tables {
        create_table(&mut session, schema, path).await?;
        let shape = Table::read(&mut session, schema, table).await?;
        has_key.insert((schema, table), shape.row_key().is_some());
    }
    session.close().await;
    let files = dump.rows.iter().map(|(schema, table, path)| RowFile {
        path: path.clone(),
        schema: schema.clone(),
        has_key: has_key.get(&(schema, table)).copied().unwrap_or(false),
    });
    Ok(files.collect())
}

/// What a dump's folder holds: schemas; tables and files of rows as schema, table and path.
#[derive(Default)]
struct Dump {
    schemas: BTreeSet<String>,
    tables: Vec<(String, String, PathBuf)>,
    rows: Vec<(String, String, PathBuf)>,
}

/// Files of rows are ordered round robin over tables, so that workers meet on one table's pages as
/// late as they can.
async fn list(folder: &Path) -> Result<Dump, Error> {
    let error = |source| Error::File { path: folder.to_owned(), source };
    let mut dump = Dump::default();
    let mut rows: Vec<(u64, String, String, PathBuf)> = Vec::new();
    let mut entries = tokio::fs::read_dir(folder).await.map_err(error)?;
    while let Some(entry) = entries.next_entry().await.map_err(error)? {
        match File::from_name(&entry.file_name().to_string_lossy()) {
            Some(File::Schema { schema }) => {
                dump.schemas.insert(schema);
            }
            Some(File::Table { schema, table }) => dump.tables.push((schema, table, entry.path())),
            Some(File::Rows { schema, table, number }) => {
                rows.push((number, schema, table, entry.path()));
            }
            None => {}
        }
    }
    dump.tables.sort();
    rows.sort();
    dump.rows = rows.into_iter().map(|(_, schema, table, path)| (schema, table, path)).collect();
    Ok(dump)
}

async fn create_table(session: &mut Session, schema: &str, path: &Path) -> Result<(), Error> {
    let file_error = |source| Error::File { path: path.to_owned(), source };
    let text_error = |why: String| Error::Text { path: path.to_owned(), why };
    session.execute(&format!("USE {}", quote_name(schema))).await?;
    let mut splitter = Splitter::new();
    *splitter.input() = tokio::fs::read(path).await.map_err(file_error)?;
    while let Some(statement) =
        splitter.next_statement().map_err(|error| text_error(error.to_string()))?
    {
        if let Err(source) = session.conn().query_drop(&statement[..]).await {
            return Err(session
                .statement_error(&String::from_utf8_lossy(&statement), source)
                .into());
        }
    }
    splitter.finish().map_err(|error| text_error(error.to_string()))
}

async fn write_files(
    settings: &Load,
    target: &Endpoint,
    files: VecDeque<RowFile>,
    progress: &watch::Sender<Progress>,
) -> Result<Loaded, Error> {
    // A connection without a file would only cost the target.
    let workers = files.len().min(settings.pool_size.max(1) as usize);
    let files = Arc::new(Mutex::new(files));
    let mut writers = JoinSet::new();
    for _ in 0..workers {
        let (target, files, progress) = (target.clone(), files.clone(), progress.clone());
        writers.spawn(async move { write_all(&target, &files, &progress).await });
    }
    let mut loaded = Loaded::default();
    while let Some(ended) = writers.join_next().await {
        let part = ended.map_err(|e| Error::Writer { why: e.to_string() })??;
        loaded.rows += part.rows;
        loaded.bytes += part.bytes;
        loaded.statements += part.statements;
        loaded.retried += part.retried;
        loaded.trouble = loaded.trouble.or(part.trouble);
        loaded.transaction.merge(&part.transaction);
        loaded.statement.merge(&part.statement);
    }
    Ok(loaded)
}

/// One worker: takes files until none is left.
async fn write_all(
    target: &Endpoint,
    files: &Mutex<VecDeque<RowFile>>,
    progress: &watch::Sender<Progress>,
) -> Result<Loaded, Error> {
    let next = || files.lock().expect("no holder of this lock can panic").pop_front();
    let mut writer = Writer::connect(target).await?;
    let mut loaded = Loaded::default();
    while let Some(file) = next() {
        let written = writer.load(&file, |written| {
            loaded.rows += written.rows;
            loaded.bytes += written.bytes;
            loaded.statements += 1;
            progress.send_modify(|p| {
                p.rows += written.rows;
                p.bytes += written.bytes;
                p.statements += 1;
                p.transactions += 1;
            });
        });
        written.await?;
    }
    loaded.retried = writer.retried;
    loaded.trouble = writer.trouble.take();
    loaded.transaction = writer.transaction.clone();
    loaded.statement = writer.statement.clone();
    writer.close().await;
    Ok(loaded)
}
