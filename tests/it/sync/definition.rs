//! DDL in the stream.

use dmbench::mysql::Flavor;
use dmbench::pipeline::builtin::sync::{Error, Synced};

use super::{Replica, execute};
use crate::support::{has_tidb, pair, runtime};

async fn tables_change_in_the_stream(flavor: Flavor) {
    let table = "CREATE TABLE t (id INT PRIMARY KEY, v INT)";
    let replica = Replica::new(pair(flavor), "ddl", &[table]).await;
    let schema = replica.schema.clone();
    let mut source = replica.source().await;
    execute(
        &mut source,
        &[
            "INSERT INTO t VALUES (1, 1), (2, 2)",
            "ALTER TABLE t ADD COLUMN c VARCHAR(10) NOT NULL DEFAULT 'x' AFTER id",
            "INSERT INTO t VALUES (3, 'three', 3)",
            "UPDATE t SET v = 9 WHERE id = 1",
            "CREATE TABLE fresh LIKE t",
            "INSERT INTO fresh SELECT * FROM t",
            "ALTER TABLE fresh DROP COLUMN c, ADD UNIQUE KEY (v)",
            "INSERT INTO fresh VALUES (7, 7)",
            "CREATE TABLE gone (a INT)",
            "INSERT INTO gone VALUES (1)",
            "RENAME TABLE gone TO moved",
            "INSERT INTO moved VALUES (2)",
            "TRUNCATE TABLE t",
            "INSERT INTO t VALUES (4, 'four', 4)",
            "CREATE INDEX i ON t (v)",
            "DROP TABLE IF EXISTS nowhere, moved",
            // Not ours to replicate.
            "UPDATE _dmbench SET run = 'somebody else'",
            "ALTER TABLE _dmbench ADD COLUMN note INT",
        ],
    )
    .await;
    execute(&mut source, &["USE mysql"]).await;
    execute(&mut source, &[&format!("ALTER TABLE `{schema}`.t ADD COLUMN last INT")]).await;
    execute(&mut source, &[&format!("INSERT INTO `{schema}`.t VALUES (5, 'five', 5, 5)")]).await;
    let synced = replica.catch_up().await.expect("replicated");
    replica.assert_equal(&["t", "fresh"]).await;
    assert_eq!((synced.ddl, synced.mismatched), (9, 0));
    let run: Option<String> =
        replica.target().await.value("SELECT run FROM _dmbench").await.expect("there");
    assert_eq!(run.as_deref(), Some("test"), "the owner table is each end's own");
}

#[test]
fn tables_change_in_the_stream_on_mysql() {
    runtime().block_on(tables_change_in_the_stream(Flavor::Mysql));
}

#[test]
fn tables_change_in_the_stream_on_mariadb() {
    runtime().block_on(tables_change_in_the_stream(Flavor::Mariadb));
}

#[test]
fn tables_change_in_the_stream_on_tidb() {
    if has_tidb() {
        runtime().block_on(tables_change_in_the_stream(Flavor::Tidb));
    }
}

async fn log_files_change_in_the_stream(flavor: Flavor) {
    let replica =
        Replica::new(pair(flavor), "rotated", &["CREATE TABLE t (id INT PRIMARY KEY)"]).await;
    let mut source = replica.source().await;
    let flush = ["INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)"];
    execute(&mut source, &flush).await;
    let synced = replica
        .while_running(async {
            for id in 3..12 {
                execute(&mut source, &[&format!("INSERT INTO t VALUES ({id})")]).await;
                execute(&mut source, &["FLUSH BINARY LOGS"]).await;
            }
        })
        .await
        .expect("replicated");
    assert_eq!(synced.rows, 11);
    replica.assert_equal(&["t"]).await;
    // The last thing in the binlog is the begin of a new file: applied has come there too.
    assert!(synced.position.file.index() >= replica.setup.from.file.index() + 10);
    let again = replica.catch_up().await.expect("resumed at the begin of a file");
    assert_eq!(again.rows, 0);
}

#[test]
fn log_files_change_in_the_stream_on_mysql() {
    runtime().block_on(log_files_change_in_the_stream(Flavor::Mysql));
}

#[test]
fn log_files_change_in_the_stream_on_mariadb() {
    runtime().block_on(log_files_change_in_the_stream(Flavor::Mariadb));
}

#[test]
fn log_files_change_in_the_stream_on_tidb() {
    if has_tidb() {
        runtime().block_on(log_files_change_in_the_stream(Flavor::Tidb));
    }
}

const FAMILY: [&str; 2] = [
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE \
     CASCADE ON UPDATE SET NULL)",
];

/// Writes what changes no child unseen, then these.
async fn family(flavor: Flavor, last: &[&str]) -> (Replica, Result<Synced, Error>) {
    let replica = Replica::new(pair(flavor), "cascade", &FAMILY).await;
    let mut source = replica.source().await;
    execute(
        &mut source,
        &[
            "INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3)",
            "INSERT INTO child VALUES (1, 1), (2, 2), (3, 3)",
            "UPDATE parent SET v = v + 1",
            "DELETE FROM child WHERE id = 3",
        ],
    )
    .await;
    execute(&mut source, last).await;
    let outcome = replica.catch_up().await;
    (replica, outcome)
}

const CASCADING: [&str; 2] =
    ["DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 9 WHERE id = 2"];

#[test]
fn children_changed_by_a_foreign_key_on_mysql() {
    runtime().block_on(async {
        let (replica, outcome) = family(Flavor::Mysql, &CASCADING).await;
        assert_eq!(outcome.expect("MySQL from 9.6 writes them").mismatched, 0);
        replica.assert_equal(&["parent", "child"]).await;
    });
}

#[test]
fn children_changed_by_a_foreign_key_on_mariadb() {
    runtime().block_on(async {
        let (replica, outcome) = family(Flavor::Mariadb, &[]).await;
        outcome.expect("nothing is hidden yet");
        replica.assert_equal(&["parent", "child"]).await;
        for statement in CASCADING {
            let (_, outcome) = family(Flavor::Mariadb, &[statement]).await;
            let error = outcome.map(|_| ()).expect_err("children would differ").to_string();
            assert!(error.contains("parent") && error.contains("not in the binlog"), "{error}");
        }
    });
}
