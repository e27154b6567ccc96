//! What cannot be replicated exactly ends in an error that says so; what looks odd but can is done.

use dmbench::mysql::{Flavor, owner};

use super::{Replica, execute};
use crate::support::{pair, runtime};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))";

/// The error that these statements on the source lead to.
async fn error_of(flavor: Flavor, tables: &[&str], statements: &[&str]) -> String {
    let replica = Replica::new(pair(flavor), "refused", tables).await;
    execute(&mut replica.source().await, statements).await;
    let refused = replica.catch_up().await.expect_err("it must not pass");
    refused.to_string().replace(&replica.schema, "s")
}

async fn images_that_are_not_full(flavor: Flavor) {
    let error = error_of(
        flavor,
        &[TABLE],
        &[
            "INSERT INTO t VALUES (1, 1, 'x')",
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE t SET a = 2",
        ],
    )
    .await;
    assert!(error.contains("table s.t") && error.contains("binlog_row_image"), "{error}");
}

#[test]
fn images_that_are_not_full_on_mysql() {
    runtime().block_on(images_that_are_not_full(Flavor::Mysql));
}

#[test]
fn images_that_are_not_full_on_mariadb() {
    runtime().block_on(images_that_are_not_full(Flavor::Mariadb));
}

async fn statements_where_rows_are_due(flavor: Flavor) {
    let error = error_of(
        flavor,
        &[TABLE],
        &["SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (1, 1, 'x')"],
    )
    .await;
    assert!(error.contains("INSERT INTO t") && error.contains("binlog_format"), "{error}");
}

#[test]
fn statements_where_rows_are_due_on_mysql() {
    runtime().block_on(statements_where_rows_are_due(Flavor::Mysql));
}

#[test]
fn statements_where_rows_are_due_on_mariadb() {
    runtime().block_on(statements_where_rows_are_due(Flavor::Mariadb));
}

#[test]
fn partial_updates_of_json() {
    let error = runtime().block_on(error_of(
        Flavor::Mysql,
        &["CREATE TABLE j (id INT PRIMARY KEY, doc JSON)"],
        &[
            "INSERT INTO j VALUES (1, JSON_OBJECT('a', 1, 'long', REPEAT('x', 200)))",
            "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
            "UPDATE j SET doc = JSON_SET(doc, '$.a', 2)",
        ],
    ));
    assert!(error.contains("JSON") && error.contains("binlog_row_value_options"), "{error}");
}

#[test]
fn xa_transactions() {
    let statements = [
        "XA START 'x'",
        "INSERT INTO t VALUES (1, 1, 'x')",
        "XA END 'x'",
        "XA COMMIT 'x' ONE PHASE",
    ];
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let mut prepared = statements.to_vec();
        prepared.insert(3, "XA PREPARE 'x'");
        prepared[4] = "XA COMMIT 'x'";
        let error = runtime().block_on(error_of(flavor, &[TABLE], &prepared));
        assert!(error.contains("XA"), "{flavor}: {error}");
    }
}

async fn tables_that_differ(flavor: Flavor) {
    let replica = Replica::new(pair(flavor), "differs", &[TABLE]).await;
    execute(&mut replica.target().await, &["ALTER TABLE t DROP COLUMN b"]).await;
    execute(&mut replica.source().await, &["INSERT INTO t VALUES (1, 1, 'x')"]).await;
    let error = replica.catch_up().await.expect_err("it must not pass").to_string();
    assert!(error.contains("3 columns in the binlog, 2 on the target"), "{error}");

    execute(&mut replica.target().await, &["ALTER TABLE t ADD COLUMN b INT"]).await;
    let error = replica.catch_up().await.expect_err("it must not pass").to_string();
    assert!(error.contains("column b") && error.contains(".t"), "{error}");

    execute(&mut replica.target().await, &["DROP TABLE t"]).await;
    let error = replica.catch_up().await.expect_err("it must not pass").to_string();
    assert!(error.contains("no such table"), "{error}");
}

#[test]
fn tables_that_differ_on_mysql() {
    runtime().block_on(tables_that_differ(Flavor::Mysql));
}

#[test]
fn tables_that_differ_on_mariadb() {
    runtime().block_on(tables_that_differ(Flavor::Mariadb));
}

#[test]
fn duplicate_rows_name_the_row() {
    let error = runtime().block_on(async {
        let replica = Replica::new(pair(Flavor::Mysql), "duplicate", &[TABLE]).await;
        execute(&mut replica.target().await, &["INSERT INTO t VALUES (7, 0, NULL)"]).await;
        execute(&mut replica.source().await, &["INSERT INTO t VALUES (7, 1, 'x')"]).await;
        replica.catch_up().await.expect_err("it must not pass").to_string()
    });
    assert!(error.contains("an insert into") && error.contains("(id = 7)"), "{error}");
    assert!(error.contains("1062") || error.contains("Duplicate entry"), "{error}");
}

#[test]
fn rows_missing_on_the_target_are_counted() {
    let synced = runtime().block_on(async {
        let replica = Replica::new(pair(Flavor::Mysql), "missing", &[TABLE]).await;
        let mut source = replica.source().await;
        execute(&mut source, &["INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')"]).await;
        replica.catch_up().await.expect("replicated");
        execute(&mut replica.target().await, &["DELETE FROM t WHERE id = 1"]).await;
        execute(&mut source, &["UPDATE t SET a = 5", "DELETE FROM t WHERE id = 1"]).await;
        replica.catch_up().await.expect("replicated")
    });
    assert_eq!((synced.rows, synced.mismatched), (3, 2));
}

#[test]
fn compressed_transactions_are_read() {
    runtime().block_on(async {
        let replica = Replica::new(pair(Flavor::Mysql), "compressed", &[TABLE]).await;
        let mut source = replica.source().await;
        execute(
            &mut source,
            &[
                "SET SESSION binlog_transaction_compression = ON",
                "BEGIN",
                "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y')",
                "UPDATE t SET a = a + 1",
                "COMMIT",
                "INSERT INTO t VALUES (3, 3, 'z')",
                "SET SESSION binlog_transaction_compression = OFF",
                "DELETE FROM t WHERE id = 1",
            ],
        )
        .await;
        let synced = replica.catch_up().await.expect("replicated");
        assert_eq!((synced.rows, synced.mismatched), (6, 0));
        replica.assert_equal(&["t"]).await;
    });
}

#[test]
fn a_meta_schema_of_somebody_else_is_left_alone() {
    runtime().block_on(async {
        let replica = Replica::new(pair(Flavor::Mysql), "foreign", &[TABLE]).await;
        let mut target = replica.target().await;
        let meta = &replica.setup.meta_schema;
        execute(&mut target, &[&format!("CREATE DATABASE `{meta}`")]).await;
        let error = replica.catch_up().await.expect_err("refused").to_string();
        assert!(error.contains(meta.as_str()) && error.contains("did not make it"), "{error}");
        assert_eq!(owner::is_ours(&mut target, meta).await.expect("asked"), Some(false));
    });
}

#[test]
fn a_binlog_that_is_gone_is_an_error() {
    let error = runtime().block_on(async {
        let mut replica = Replica::new(pair(Flavor::Mysql), "purged", &[TABLE]).await;
        replica.setup.from = "nothing.000009:4".parse().expect("a position");
        replica.catch_up().await.expect_err("no such file").to_string()
    });
    assert!(error.contains("nothing.000009"), "{error}");
}
