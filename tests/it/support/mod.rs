//! What live tests share: one pair of servers per flavour and test process.
//!
//! The first test that asks for a pair starts it; all others share it and keep apart by schema
//! ([`schema`]). The servers stop, and their folder goes, when the test process ends, however it
//! ends: the sandbox's guard sees to that. A server that cannot be had fails the test, with its
//! name and how to get it. TiDB alone is no package of any system, so tests with it run where a
//! `tidb-server` is found and say aloud where none is ([`has_tidb`]); nothing else is ever skipped.

pub mod holder;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dmbench::event::Events;
use dmbench::lab::Lab;
use dmbench::lab::sandbox::{self, Needs, Program, Sandbox, Settings};
use dmbench::mysql::{Endpoint, Flavor, Session, owner};
use mysql_async::consts::ColumnType;
use mysql_async::{Column, Row, Value};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// The dmbench executable under test.
pub const DMBENCH: &str = env!("CARGO_BIN_EXE_dmbench");

/// A source and a target that all tests of this process share. Both write a binlog.
#[derive(Debug)]
pub struct Pair {
    sandbox: Sandbox,
    alone: Mutex<()>,
}

impl Pair {
    /// Endpoints, processes.
    pub fn lab(&self) -> &Lab {
        self.sandbox.lab()
    }

    /// The source.
    pub fn source(&self) -> &Endpoint {
        &self.lab().source
    }

    /// The target.
    pub fn target(&self) -> &Endpoint {
        &self.lab().target
    }

    /// Waits until no other test that asks for the same uses these servers.
    pub async fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().await
    }

    /// A new session on the source.
    pub async fn source_session(&self) -> Session {
        Session::connect(self.source()).await.expect("the source accepts connections")
    }

    /// A new session on the target.
    pub async fn target_session(&self) -> Session {
        Session::connect(self.target()).await.expect("the target accepts connections")
    }
}

/// Events of one binlog file from an offset on, as `SHOW BINLOG EVENTS` tells them.
///
/// The file grows while other tests write, and a server that meets a half-written event at its end
/// answers error 1220: it is asked again until it reads to a whole one.
pub async fn binlog_events(session: &mut Session, file: &str, from: u64) -> Vec<Row> {
    const HALF_WRITTEN: u16 = 1220;
    let statement = format!("SHOW BINLOG EVENTS IN '{file}' FROM {from}");
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        match session.rows(&statement).await {
            Err(e) if e.code() == Some(HALF_WRITTEN) && Instant::now() < give_up => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer.expect("events"),
        }
    }
}

/// One schema at both ends of a pair, made by dmbench, and a session on each.
pub struct Ends {
    pub pair: &'static Pair,
    pub schema: String,
    pub source: Session,
    pub target: Session,
}

impl Ends {
    /// Makes the schema, which no other test uses.
    pub async fn make(pair: &'static Pair, name: &str) -> Ends {
        let schema = schema(name);
        let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
        for session in [&mut source, &mut target] {
            owner::recreate(session, &schema, "test").await.expect("a schema of our own");
        }
        Ends { pair, schema, source, target }
    }
}

/// Source and target of the same flavour; for TiDB, which can be no source, a MySQL before it.
pub fn pair(flavor: Flavor) -> &'static Pair {
    static MYSQL: OnceLock<Pair> = OnceLock::new();
    static MARIADB: OnceLock<Pair> = OnceLock::new();
    static TIDB: OnceLock<Pair> = OnceLock::new();
    let (cell, source, target) = match flavor {
        Flavor::Mysql => (&MYSQL, Program::Mysql, Program::Mysql),
        Flavor::Mariadb => (&MARIADB, Program::Mariadb, Program::Mariadb),
        Flavor::Tidb => (&TIDB, Program::Mysql, Program::Tidb),
    };
    cell.get_or_init(|| start_apart(source, target))
}

/// Whether this machine has a TiDB to test with. Where it has none, the test that asks is named on
/// the terminal as skipped, past the test runner, which hides what passing tests print.
pub fn has_tidb() -> bool {
    let found = sandbox::find(Program::Tidb).is_some();
    if !found {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test").to_owned();
        let line = format!("SKIPPED on TiDB: {test} (no tidb-server; DMBENCH_TIDB names one)\n");
        std::io::stderr().write_all(line.as_bytes()).expect("a terminal or a file");
    }
    found
}

/// These flavours, and TiDB where this machine has it.
pub fn and_tidb(flavors: [Flavor; 2]) -> Vec<Flavor> {
    let tidb = has_tidb().then_some(Flavor::Tidb);
    flavors.into_iter().chain(tidb).collect()
}

/// Source and target for tests that lock a whole server: the deadlock or wait that such a lock can
/// mean for anybody else's statement must not reach tests that know nothing of it.
pub fn locked_pair(flavor: Flavor) -> &'static Pair {
    static MYSQL: OnceLock<Pair> = OnceLock::new();
    static MARIADB: OnceLock<Pair> = OnceLock::new();
    static TIDB: OnceLock<Pair> = OnceLock::new();
    match flavor {
        Flavor::Tidb => TIDB.get_or_init(|| start_apart(Program::Mysql, Program::Tidb)),
        Flavor::Mariadb => MARIADB.get_or_init(|| start_apart(Program::Mariadb, Program::Mariadb)),
        _ => MYSQL.get_or_init(|| start_apart(Program::Mysql, Program::Mysql)),
    }
}

/// Source and target of the same flavour for tests that change global settings or accounts. The target
/// writes no binlog.
pub fn changed_pair(flavor: Flavor) -> &'static Pair {
    static MYSQL: OnceLock<Pair> = OnceLock::new();
    static MARIADB: OnceLock<Pair> = OnceLock::new();
    let plain = Needs { target_binlog: false };
    match flavor {
        Flavor::Mariadb => {
            MARIADB.get_or_init(|| start_with(Program::Mariadb, Program::Mariadb, plain))
        }
        _ => MYSQL.get_or_init(|| start_with(Program::Mysql, Program::Mysql, plain)),
    }
}

/// Source and target for one test alone, which may do with them what it likes.
pub fn fresh_pair(flavor: Flavor) -> Pair {
    match flavor {
        Flavor::Mariadb => start_apart(Program::Mariadb, Program::Mariadb),
        _ => start_apart(Program::Mysql, Program::Mysql),
    }
}

/// Source and target for tests that use dmbench's own schemas and its lock, as runs on own servers do.
pub fn own_pair(flavor: Flavor) -> &'static Pair {
    static MYSQL: OnceLock<Pair> = OnceLock::new();
    static MARIADB: OnceLock<Pair> = OnceLock::new();
    match flavor {
        Flavor::Mariadb => MARIADB.get_or_init(|| start_apart(Program::Mariadb, Program::Mariadb)),
        _ => MYSQL.get_or_init(|| start_apart(Program::Mysql, Program::Mysql)),
    }
}

/// MySQL as source, MariaDB as target.
pub fn mixed_pair() -> &'static Pair {
    static MIXED: OnceLock<Pair> = OnceLock::new();
    MIXED.get_or_init(|| start_apart(Program::Mysql, Program::Mariadb))
}

/// A schema name that no other test of this process uses: `t_<name>_<number>`.
pub fn schema(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    format!("t_{name}_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Settings of servers for tests: small, and not synced to disk at each commit.
pub fn settings(source: Program, target: Program) -> Settings {
    Settings {
        source: Some(source),
        target: Some(target),
        buffer_pool: 128,
        durability: dmbench::lab::sandbox::Durability::Relaxed,
        ..Settings::default()
    }
}

fn start_apart(source: Program, target: Program) -> Pair {
    start_with(source, target, Needs { target_binlog: true })
}

/// Starts a sandbox on a thread with a runtime of its own, since the caller may be inside one.
fn start_with(source: Program, target: Program, needs: Needs) -> Pair {
    let start = move || {
        let folder = tempfile::Builder::new().prefix("dmbench-it-").tempdir();
        let folder = folder.expect("a temporary folder can be made");
        let sandbox = runtime().block_on(Sandbox::start(
            &settings(source, target),
            needs,
            folder.path(),
            Path::new(DMBENCH),
            &Events::none(),
            &CancellationToken::new(),
        ));
        let sandbox = sandbox.unwrap_or_else(|error| {
            panic!("cannot test with {source:?} and {target:?}: failed to {error}")
        });
        sandbox.remove_at_end(&folder.keep()).expect("the guard listens");
        Pair { sandbox, alone: Mutex::new(()) }
    };
    std::thread::spawn(start).join().expect("the servers of this test can be had")
}

/// A small runtime.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

/// Every file below a folder with its bytes, and every folder with none.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let bytes = (!path.is_dir()).then(|| std::fs::read(&path).expect("readable"));
            if bytes.is_none() {
                folders.push(path.clone());
            }
            found.insert(path, bytes);
        }
    }
    found
}

/// Waits until something holds; fails after a minute, which only a hang takes.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited a minute until {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A row as text, whole: the driver's own cuts long values. JSON is parsed, since each server has an
/// order of keys and a way with numbers of its own.
pub fn row_text(row: Row) -> String {
    let columns = row.columns();
    let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).expect("JSON");
    let value = |(column, value): (&Column, Value)| match value {
        Value::Bytes(bytes) if column.column_type() == ColumnType::MYSQL_TYPE_JSON => {
            parse(&bytes).to_string()
        }
        other => other.as_sql(true),
    };
    columns.iter().zip(row.unwrap()).map(value).collect::<Vec<_>>().join(", ")
}
