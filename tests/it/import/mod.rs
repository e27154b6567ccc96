//! Dump, load and the process around them, on real servers of both flavours.

mod locks;
mod lost;
mod process;
mod round_trip;
mod tables;
mod with_sync;

use std::path::Path;

use dmbench::mysql::{Endpoint, Flavor, Session};
use dmbench::pipeline::builtin::{Dump, Load, dump, load};
use dmbench::pipeline::{Progress, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Flavours that both can be source.
const SOURCES: [Flavor; 2] = [Flavor::Mysql, Flavor::Mariadb];

/// Small chunks, statements and files, so that little data shows their borders.
fn small() -> Dump {
    Dump { threads: 3, rows: 40, statement_size: 700, chunk_filesize: 1 }
}

async fn dump_to(source: &Endpoint, schemas: &[String], folder: &Path) -> dump::Dumped {
    let progress = watch::Sender::new(Progress::new(Unit::Dump));
    let cancel = CancellationToken::new();
    dump::run(&small(), source, schemas, folder, &progress, &cancel).await.expect("dumped")
}

async fn load_from(target: &Endpoint, folder: &Path) -> load::Loaded {
    let progress = watch::Sender::new(Progress::new(Unit::Load));
    let cancel = CancellationToken::new();
    let settings = Load { pool_size: 4 };
    load::run(&settings, target, "test", folder, &progress, &cancel).await.expect("loaded")
}

/// All rows of a table in an order of our own, by the binary protocol, so that floats are exact.
async fn content(session: &mut Session, table: &str) -> Vec<String> {
    let rows = session.rows_with(&format!("SELECT * FROM {table}"), ()).await.expect("rows");
    let mut rows: Vec<_> = rows.into_iter().map(|row| format!("{:?}", row.unwrap())).collect();
    rows.sort();
    rows
}
