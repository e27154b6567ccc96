//! Dump, load and the process around them, on real servers of both flavours.

mod locks;
mod lost;
mod process;
mod round_trip;
mod tables;
mod with_sync;

use std::ops::Deref;
use std::path::Path;

use dmbench::mysql::{Endpoint, Flavor, Session};
use dmbench::pipeline::builtin::{Dump, Load, dump, load};
use dmbench::pipeline::{Context, Progress, Unit};
use rand::RngExt;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio_util::sync::CancellationToken;

use crate::support::{DMBENCH, Pair, locked_pair, row_text};

/// Flavours that both can be source.
const SOURCES: [Flavor; 2] = [Flavor::Mysql, Flavor::Mariadb];

/// Where a pipeline of a test works; the server id is new each time.
fn context(pair: &Pair, schema: &str, folder: &Path) -> Context {
    Context {
        name: schema.to_owned(),
        source: pair.source().clone(),
        target: pair.target().clone(),
        schemas: vec![schema.to_owned()],
        meta_schema: format!("{schema}_meta"),
        folder: folder.to_owned(),
        executable: DMBENCH.into(),
        run: "test".to_owned(),
        server_id: rand::rng().random_range(100_000..u32::MAX),
    }
}

/// A pair of servers that one test at a time has for itself: a global read lock makes deadlocks for
/// definitions that run beside it.
struct Alone {
    pair: &'static Pair,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Alone {
    type Target = Pair;

    fn deref(&self) -> &Pair {
        self.pair
    }
}

async fn alone(flavor: Flavor) -> Alone {
    static MYSQL: Mutex<()> = Mutex::const_new(());
    static MARIADB: Mutex<()> = Mutex::const_new(());
    static TIDB: Mutex<()> = Mutex::const_new(());
    let turn = match flavor {
        Flavor::Mysql => &MYSQL,
        Flavor::Mariadb => &MARIADB,
        Flavor::Tidb => &TIDB,
    };
    let turn = turn.lock().await;
    Alone { pair: locked_pair(flavor), _turn: turn }
}

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
    let mut rows: Vec<_> = rows.into_iter().map(row_text).collect();
    rows.sort();
    rows
}
