//! What a binlog holds beside plain transactions of rows.

use dmbench::mysql::Flavor;

use super::{Replica, execute};
use crate::support::{pair, runtime};

const TABLES: [&str; 3] = [
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
    "CREATE TABLE m (id INT PRIMARY KEY, a INT) ENGINE = MyISAM",
    "CREATE TABLE l (id INT PRIMARY KEY, b LONGTEXT)",
];

/// Replicates the statements with plain changes ahead of them and behind; both ends are equal then.
/// Returns the row changes of the statements.
async fn replicated(flavor: Flavor, name: &str, statements: &[&str]) -> u64 {
    let replica = Replica::new(pair(flavor), name, &TABLES).await;
    let mut source = replica.source().await;
    execute(&mut source, &["INSERT INTO t VALUES (-1, 0, 'ahead')"]).await;
    execute(&mut source, statements).await;
    execute(&mut source, &["INSERT INTO t VALUES (-2, 0, 'behind')"]).await;
    let synced = replica.catch_up().await.unwrap_or_else(|error| panic!("{flavor}: {error}"));
    replica.assert_equal(&["t", "m", "l"]).await;
    assert_eq!(synced.mismatched, 0, "{flavor}");
    synced.rows - 2
}

/// The same for both flavours.
fn on_both(name: &str, statements: &[&str], rows: u64) {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        assert_eq!(runtime().block_on(replicated(flavor, name, statements)), rows, "{flavor}");
    }
}

#[test]
fn what_is_rolled_back_to_a_savepoint_does_not_arrive() {
    let statements = [
        "BEGIN",
        "INSERT INTO t VALUES (1, 1, 'stays')",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2, 2, 'goes')",
        "ROLLBACK TO s",
        "UPDATE t SET a = 5 WHERE id = 1",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (3, 3, 'goes')",
        "ROLLBACK",
    ];
    on_both("savepoint", &statements, 2);
}

#[test]
fn tables_without_transactions() {
    let statements = [
        "INSERT INTO m VALUES (1, 1), (2, 2)",
        "UPDATE m SET a = a + 1",
        "INSERT INTO t VALUES (1, 1, 'x')",
        "DELETE FROM m WHERE id = 1",
    ];
    on_both("engines", &statements, 6);
    // MySQL refuses the mixture while gtid_mode is ON.
    let mixed =
        ["BEGIN", "INSERT INTO t VALUES (1, 1, 'x')", "INSERT INTO m VALUES (3, 3)", "COMMIT"];
    assert_eq!(runtime().block_on(replicated(Flavor::Mariadb, "mixed_engines", &mixed)), 2);
}

/// Several domains of GTIDs are one binlog.
#[test]
fn domains_of_mariadb() {
    let statements = [
        "INSERT INTO t VALUES (1, 1, 'x')",
        "SET SESSION gtid_domain_id = 7",
        "UPDATE t SET a = 2 WHERE id = 1",
        "ALTER TABLE t ADD COLUMN c INT",
        "SET SESSION gtid_domain_id = 0",
        "ALTER TABLE t DROP COLUMN c",
    ];
    assert_eq!(runtime().block_on(replicated(Flavor::Mariadb, "domains", &statements)), 2);
}

/// A tag makes no difference to positions by file and offset.
#[test]
fn tagged_gtids_of_mysql() {
    let statements = [
        "SET gtid_next = 'AUTOMATIC:tagged'",
        "INSERT INTO t VALUES (1, 1, 'x')",
        "ALTER TABLE t ADD COLUMN c INT",
        "SET gtid_next = 'AUTOMATIC'",
        "ALTER TABLE t DROP COLUMN c",
    ];
    assert_eq!(runtime().block_on(replicated(Flavor::Mysql, "tagged", &statements)), 1);
}

#[test]
fn temporary_tables_stay_on_the_source() {
    let statements = [
        "CREATE TEMPORARY TABLE x (id INT)",
        "INSERT INTO x VALUES (1), (2)",
        "INSERT INTO t SELECT id, id, 'x' FROM x",
        // It hides the table of that name.
        "CREATE TEMPORARY TABLE m (id INT)",
        "INSERT INTO m VALUES (9)",
        "ALTER TABLE m ADD COLUMN z INT",
        "DROP TEMPORARY TABLE m",
        "DROP TABLE x",
    ];
    on_both("temporary", &statements, 2);
}

/// A DDL is read by the target as the source read it.
#[test]
fn a_ddl_means_what_it_meant_where_it_was_executed() {
    let statements = [
        "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
        "ALTER TABLE \"t\" ADD COLUMN \"n o\" VARCHAR(9) DEFAULT 'x'",
        "SET SESSION time_zone = '+05:00'",
        "ALTER TABLE t ADD COLUMN at TIMESTAMP DEFAULT '2020-01-01 00:00:00'",
        "SET SESSION sql_mode = ''",
        "ALTER TABLE t ADD COLUMN d DATE NOT NULL DEFAULT '0000-00-00'",
        "SET SESSION sql_mode = DEFAULT",
        "INSERT INTO t (id, a) VALUES (5, 5)",
    ];
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        runtime().block_on(async {
            let replica = Replica::new(pair(flavor), "origin", &TABLES).await;
            let mut source = replica.source().await;
            execute(&mut source, &["INSERT INTO t VALUES (1, 1, 'x')"]).await;
            execute(&mut source, &statements).await;
            replica.catch_up().await.unwrap_or_else(|error| panic!("{flavor}: {error}"));
            replica.assert_equal(&["t"]).await;
        });
    }
}

#[test]
fn a_ddl_behind_settings_for_it_alone() {
    let statements = [
        "INSERT INTO t VALUES (1, 1, 'x')",
        "SET STATEMENT max_statement_time = 100 FOR ALTER TABLE t ADD COLUMN c INT DEFAULT 7",
        "INSERT INTO t VALUES (2, 2, 'y', 8)",
        "SET STATEMENT lock_wait_timeout = 5 FOR DELETE FROM t WHERE id = 1",
        "SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t DROP COLUMN c",
    ];
    assert_eq!(runtime().block_on(replicated(Flavor::Mariadb, "set_statement", &statements)), 3);
}

/// Compressed by the server as one payload of several MiB, with many events in it.
#[test]
fn a_large_compressed_transaction() {
    let mut statements = vec!["SET SESSION binlog_transaction_compression = ON", "BEGIN"];
    let rows: Vec<String> = (0..12)
        .map(|id| format!("INSERT INTO l VALUES ({id}, REPEAT('{id} compresses ', 30000))"))
        .collect();
    statements.extend(rows.iter().map(String::as_str));
    statements
        .extend(["UPDATE l SET b = CONCAT('x', b) WHERE id < 6", "DELETE FROM l WHERE id = 7"]);
    statements.extend(["COMMIT", "SET SESSION binlog_transaction_compression = OFF"]);
    assert_eq!(runtime().block_on(replicated(Flavor::Mysql, "large", &statements)), 19);
}

/// `log_bin_compress` is global, so that this server is its test's alone.
#[test]
fn compressed_events_of_mariadb() {
    runtime().block_on(async {
        let pair = crate::support::changed_pair(Flavor::Mariadb);
        let _alone = pair.alone().await;
        let replica = Replica::new(pair, "deflated", &TABLES).await;
        let mut source = replica.source().await;
        let on = "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10";
        execute(&mut source, &[on]).await;
        // Sessions take the setting as it is when they begin a statement.
        let long = format!("'{}'", "words that repeat ".repeat(4_000));
        let statements = [
            format!("INSERT INTO l VALUES (1, {long}), (2, 'short')"),
            format!("UPDATE l SET b = CONCAT(b, {long}) WHERE id = 1"),
            format!("ALTER TABLE t ADD COLUMN c INT COMMENT '{}'", "deflated ".repeat(40)),
            "INSERT INTO t VALUES (1, 1, 'x', 2)".to_owned(),
            "DELETE FROM l WHERE id = 1".to_owned(),
        ];
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        execute(&mut source, &statements).await;
        let from = &replica.setup.from;
        let file = from.file.to_string();
        let events = crate::support::binlog_events(&mut source, &file, from.offset).await;
        let kinds: Vec<String> = events.iter().filter_map(|row| row.get(2)).collect();
        execute(&mut source, &["SET GLOBAL log_bin_compress = OFF"]).await;
        for kind in ["Write_rows_compressed", "Update_rows_compressed", "Query_compressed"] {
            assert!(kinds.iter().any(|k| k.starts_with(kind)), "{kind} in {kinds:?}");
        }
        let synced = replica.catch_up().await.expect("replicated");
        assert_eq!(synced.rows, 5);
        replica.assert_equal(&["t", "l"]).await;
    });
}
