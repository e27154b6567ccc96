//! What a dump locks, for how long, and that nothing of it is left.

use std::path::Path;
use std::time::Duration;

use dmbench::mysql::{Endpoint, Flavor, Secret, Session};
use dmbench::pipeline::builtin::dump::{self, Consistency};
use dmbench::pipeline::{Progress, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{SOURCES, alone, small};
use crate::support::{Pair, schema};

/// The privilege to ask for the position.
pub(super) fn replication_client(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Mariadb => "BINLOG MONITOR",
        _ => "REPLICATION CLIENT",
    }
}

/// An account with these privileges, and an endpoint that uses it.
pub(super) async fn account(pair: &Pair, name: &str, schema: &str, global: &str) -> Endpoint {
    let mut root = pair.source_session().await;
    let user = format!("'{name}'@'127.0.0.1'");
    for sql in [
        format!("CREATE USER {user} IDENTIFIED BY 'p a\"s'"),
        format!("GRANT {global} ON *.* TO {user}"),
        format!("GRANT SELECT, LOCK TABLES ON {schema}.* TO {user}"),
    ] {
        root.execute(&sql).await.expect("account");
    }
    Endpoint { user: name.to_owned(), password: Secret::new("p a\"s"), ..pair.source().clone() }
}

async fn small_table(session: &mut Session, schema: &str) {
    for sql in [
        format!("CREATE DATABASE {schema}"),
        format!("CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT)"),
        format!("INSERT INTO {schema}.t VALUES (1, 1), (2, 2)"),
        // A lock that was left behind must fail the test and not hang it.
        "SET SESSION lock_wait_timeout = 5".to_owned(),
    ] {
        session.execute(&sql).await.expect("made");
    }
}

pub(super) async fn dump_as(
    endpoint: &Endpoint,
    schema: &str,
    folder: &Path,
) -> Result<dump::Dumped, dump::Error> {
    let progress = watch::Sender::new(Progress::new(Unit::Dump));
    let schemas = [schema.to_owned()];
    dump::run(&small(), endpoint, &schemas, folder, &progress, &CancellationToken::new()).await
}

/// Rows and definitions can be changed again, in this schema and elsewhere.
async fn assert_unlocked(session: &mut Session, schema: &str) {
    for sql in [
        format!("INSERT INTO {schema}.t VALUES (3, 3)"),
        format!("ALTER TABLE {schema}.t ADD COLUMN w INT"),
        format!("CREATE DATABASE {schema}_x"),
        format!("DROP DATABASE {schema}_x"),
    ] {
        session.execute(&sql).await.unwrap_or_else(|error| panic!("still locked: {error}"));
    }
}

async fn remove(session: &mut Session, schema: &str, user: &str) {
    session.execute(&format!("DROP DATABASE {schema}")).await.expect("dropped");
    session.execute(&format!("DROP USER '{user}'@'127.0.0.1'")).await.expect("dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reload_the_tables_are_locked_one_by_one() {
    for flavor in SOURCES {
        let pair = &*alone(flavor).await;
        let schema = schema("no_reload");
        let mut root = pair.source_session().await;
        small_table(&mut root, &schema).await;
        let user = format!("{schema}_u");
        let endpoint = account(pair, &user, &schema, replication_client(flavor)).await;
        let folder = tempfile::tempdir().expect("folder");
        let dumped = dump_as(&endpoint, &schema, folder.path()).await.expect("dumped");
        assert_eq!((dumped.consistency, dumped.rows), (Consistency::TableLocks, 2), "{flavor}");
        assert!(dumped.remarks.iter().any(|r| r.contains("one by one")), "{:?}", dumped.remarks);
        assert_unlocked(&mut root, &schema).await;
        remove(&mut root, &schema, &user).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_reload_one_lock_holds_all() {
    for flavor in SOURCES {
        let pair = &*alone(flavor).await;
        let schema = schema("reload");
        let mut root = pair.source_session().await;
        small_table(&mut root, &schema).await;
        let folder = tempfile::tempdir().expect("folder");
        let dumped = dump_as(pair.source(), &schema, folder.path()).await.expect("dumped");
        assert_eq!((dumped.consistency, dumped.rows), (Consistency::GlobalReadLock, 2));
        assert_eq!(dumped.remarks, Vec::<String>::new());
        assert_unlocked(&mut root, &schema).await;
        let metadata = dump::Metadata::read(folder.path()).await.expect("metadata");
        assert_eq!((metadata.position, metadata.rows), (dumped.position, 2));
        root.execute(&format!("DROP DATABASE {schema}")).await.expect("dropped");
    }
}

/// The account may lock but not ask for the position, so the dump fails while it holds the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_fails_under_the_lock_leaves_none() {
    for flavor in SOURCES {
        let pair = &*alone(flavor).await;
        let schema = schema("fails");
        let mut root = pair.source_session().await;
        small_table(&mut root, &schema).await;
        let user = format!("{schema}_u");
        let endpoint = account(pair, &user, &schema, "RELOAD").await;
        let folder = tempfile::tempdir().expect("folder");
        let error = dump_as(&endpoint, &schema, folder.path()).await.expect_err("no position");
        assert!(error.to_string().contains("STATUS"), "{error}");
        assert_unlocked(&mut root, &schema).await;
        assert!(dump::Metadata::read(folder.path()).await.is_err(), "no dump, no metadata");
        remove(&mut root, &schema, &user).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_missing_is_named() {
    let pair = &*alone(Flavor::Mysql).await;
    let folder = tempfile::tempdir().expect("folder");
    let error = dump_as(pair.source(), "no_such_schema", folder.path()).await.expect_err("none");
    assert!(error.to_string().contains("no_such_schema"), "{error}");
}

/// A long statement keeps the dump waiting for its lock, and everybody who writes waits behind it.
/// The server goes on waiting for a client that is gone, so the dump must end its connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_that_is_stopped_while_it_waits_for_the_lock_waits_no_more() {
    for flavor in SOURCES {
        let pair = &*alone(flavor).await;
        let schema = schema("waits");
        let mut root = pair.source_session().await;
        small_table(&mut root, &schema).await;
        let user = format!("{schema}_u");
        let endpoint = account(pair, &user, &schema, "RELOAD").await;
        let mut blocker = pair.source_session().await;
        blocker.execute(&format!("LOCK TABLES {schema}.t WRITE")).await.expect("locked");
        let folder = tempfile::tempdir().expect("folder");
        let cancel = CancellationToken::new();
        let dumping = async {
            let progress = watch::Sender::new(Progress::new(Unit::Dump));
            let (schemas, folder) = ([schema.clone()], folder.path());
            dump::run(&small(), &endpoint, &schemas, folder, &progress, &cancel).await
        };
        let stopping = async {
            until_waiting(&mut root, &user, 1).await;
            cancel.cancel();
        };
        let (dumped, ()) = tokio::join!(dumping, stopping);
        assert!(matches!(dumped, Err(dump::Error::Cancelled)), "{dumped:?}");
        until_waiting(&mut root, &user, 0).await;
        blocker.close().await;
        remove(&mut root, &schema, &user).await;
    }
}

/// Returns when as many connections of `user` wait for the global lock; a wait of the server's own
/// would last 30 s and so fail here.
async fn until_waiting(root: &mut Session, user: &str, count: u64) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{user}' AND info LIKE \
         'FLUSH TABLES WITH%'"
    );
    let waiting = async {
        while root.value::<u64>(&sql).await.expect("asked") != Some(count) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), waiting).await.expect("in time");
}
