//! DDL in the stream.

use dmbench::mysql::Flavor;

use super::{Replica, execute};
use crate::support::{pair, runtime};

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
