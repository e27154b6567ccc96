//! Values of every type arrive as they were.

use dmbench::mysql::Flavor;
use dmbench::pipeline::builtin::Sync;

use super::{Replica, execute};
use crate::support::{has_tidb, pair, runtime};

const SYSBENCH: &str = "CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT \
                        0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', \
                        PRIMARY KEY (id), KEY k_1 (k)) COLLATE utf8mb4_bin";

async fn inserts_of_a_sysbench_table(flavor: Flavor) {
    let replica = Replica::new(pair(flavor), "inserts", &[SYSBENCH]).await;
    let synced = replica
        .while_running(async {
            let mut source = replica.source().await;
            for id in 1..=300 {
                let insert = format!(
                    "INSERT INTO sbtest1 (id, k, c, pad) VALUES ({id}, {}, REPEAT('{id}-', 20), 'p')",
                    id * 7 % 50
                );
                source.execute(&insert).await.expect("inserted");
            }
        })
        .await
        .expect("replicated");
    replica.assert_equal(&["sbtest1"]).await;
    assert_eq!((synced.rows, synced.source_transactions), (300, 300));
    assert_eq!((synced.mismatched, synced.repeated, synced.conflicts), (0, 0, 0));
    assert_eq!(synced.statement.n(), 300);
    assert_eq!(synced.transaction.n(), synced.transactions);
}

#[test]
fn inserts_of_a_sysbench_table_on_mysql() {
    runtime().block_on(inserts_of_a_sysbench_table(Flavor::Mysql));
}

#[test]
fn inserts_of_a_sysbench_table_on_mariadb() {
    runtime().block_on(inserts_of_a_sysbench_table(Flavor::Mariadb));
}

#[test]
fn inserts_of_a_sysbench_table_on_tidb() {
    if has_tidb() {
        runtime().block_on(inserts_of_a_sysbench_table(Flavor::Tidb));
    }
}

/// Columns with two rows of values each: the extremes.
const COLUMNS: [(&str, &str, &str); 38] = [
    ("TINYINT", "-128", "127"),
    ("TINYINT UNSIGNED", "0", "255"),
    ("SMALLINT", "-32768", "32767"),
    ("SMALLINT UNSIGNED ZEROFILL", "0", "65535"),
    ("MEDIUMINT", "-8388608", "8388607"),
    ("MEDIUMINT UNSIGNED", "0", "16777215"),
    ("INT", "-2147483648", "2147483647"),
    ("INT UNSIGNED", "0", "4294967295"),
    ("BIGINT", "-9223372036854775808", "9223372036854775807"),
    ("BIGINT UNSIGNED", "0", "18446744073709551615"),
    ("FLOAT", "1.17549435e-38", "-16777217.123"),
    ("DOUBLE", "2.2250738585072014e-308", "-1.7976931348623157e308"),
    ("DOUBLE", "0.1e0", "-0.0e0"),
    (
        "DECIMAL(65,30)",
        "-12345678901234567890123456789012345.123456789012345678901234567891",
        "0.000000000000000000000000000001",
    ),
    ("DECIMAL(10,0)", "-9999999999", "42"),
    ("DECIMAL(9,9)", "-0.999999999", "0.000000001"),
    ("DATE", "'0000-00-00'", "'9999-12-31'"),
    ("DATE", "'2024-02-30'", "'2000-00-15'"),
    ("DATETIME", "'1000-01-01 00:00:00'", "'0000-00-00 00:00:00'"),
    ("DATETIME(3)", "'9999-12-31 23:59:59.999'", "'2024-02-29 12:00:00.070'"),
    ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", "'1970-01-01 00:00:00.000001'"),
    ("TIMESTAMP NULL", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"),
    ("TIMESTAMP(1) NULL", "'0000-00-00 00:00:00'", "'2024-02-29 23:59:59.9'"),
    ("TIMESTAMP(6) NULL", "'2000-02-29 11:22:33.000045'", "'2038-01-19 03:14:07.999999'"),
    ("TIME", "'-838:59:59'", "'838:59:59'"),
    ("TIME(2)", "'-00:00:00.01'", "'-838:59:58.99'"),
    ("TIME(4)", "'-12:34:56.0007'", "'00:00:00.9999'"),
    ("TIME(6)", "'-00:00:01.000001'", "'100:00:00.000001'"),
    ("YEAR", "0", "2155"),
    ("CHAR(10) COLLATE utf8mb4_bin", "'Grüße 😀'", "'trail  '"),
    (
        "VARCHAR(300) COLLATE utf8mb4_general_ci",
        "'it''s \\\\ \\n\\r\\0\\Z \"q\" % _'",
        "'blanks   '",
    ),
    ("VARCHAR(20) CHARACTER SET latin1", "'Ärger €'", "UNHEX('8190FF41')"),
    ("TEXT", "REPEAT('ä', 400)", "''"),
    ("BINARY(6)", "UNHEX('00FF00')", "UNHEX('010203040506')"),
    ("VARBINARY(20)", "UNHEX('275C0D0A001A')", "''"),
    ("BLOB", "REPEAT(UNHEX('00C3'), 300)", "UNHEX('80')"),
    ("ENUM('x','Ä','it''s')", "'Ä'", "'it''s'"),
    ("SET('a','b','c')", "'a,c'", "''"),
];

/// Those of one flavour alone; TiDB is fed by a MySQL and has neither utf16 nor spatial types.
fn columns(flavor: Flavor) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut columns = COLUMNS.to_vec();
    columns.push(("BIT(1)", "b'1'", "b'0'"));
    columns.push(("BIT(64)", "x'FFFFFFFFFFFFFFFF'", "x'8000000000000001'"));
    columns.push(("CHAR(20) CHARACTER SET gbk", "'汉字'", "'x'"));
    if flavor == Flavor::Tidb {
        // It stores no sign of zero.
        columns.iter_mut().filter(|c| c.2 == "-0.0e0").for_each(|c| c.2 = "0.0e0");
    } else {
        columns.push(("VARCHAR(20) CHARACTER SET utf16", "'Größe'", "'plain'"));
        let second = "ST_PointFromText('POINT(0 0)')";
        columns.push(("POINT", "ST_PointFromText('POINT(1 -2.5)')", second));
    }
    if flavor != Flavor::Mariadb {
        columns.push((
            "JSON",
            "'{\"a\": [1, -2.5, \"Ö\\\\n\", null, true], \"b\": {}, \"big\": 18446744073709551615}'",
            "'\"text\"'",
        ));
        columns.push((
            "JSON",
            "JSON_OBJECT('d', CAST('2024-02-29' AS DATE), 't', CAST('-12:00:01.5' AS TIME(3)), 'n', CAST(2.50 AS DECIMAL(10,2)), 'm', CAST('2024-02-29 01:02:03.000004' AS DATETIME(6)))",
            "JSON_ARRAY(1e300, 0.1e0, REPEAT('long', 20000), -9223372036854775808)",
        ));
    }
    columns
}

const SQL_MODE: &str =
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'";

async fn all_types(flavor: Flavor, multiple_rows: bool) {
    let columns = columns(flavor);
    let definitions: Vec<String> =
        columns.iter().enumerate().map(|(n, (of, ..))| format!("c{n} {of}")).collect();
    let definitions = definitions.join(", ");
    let tables = [
        format!("CREATE TABLE keyed (id INT PRIMARY KEY, {definitions}) CHARSET utf8mb4"),
        format!("CREATE TABLE keyless ({definitions}) CHARSET utf8mb4"),
    ];
    let replica = Replica::new(pair(flavor), "types", &[]).await;
    let replica = {
        for endpoint in [&replica.setup.source, &replica.setup.target] {
            let mut session = replica.session(endpoint).await;
            let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
            execute(&mut session, &[SQL_MODE]).await;
            execute(&mut session, &tables).await;
        }
        let from = replica.end().await;
        let setup = dmbench::pipeline::builtin::sync::Setup { from, ..replica.setup.clone() };
        let settings = Sync { multiple_rows, worker_count: 1, ..replica.settings };
        Replica { setup, settings, ..replica }
    };
    let values = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        columns.iter().map(pick).collect::<Vec<_>>().join(", ")
    };
    let (first, second) = (values(|c| c.1), values(|c| c.2));
    let nulls = vec!["NULL"; columns.len()].join(", ");
    let assignments: Vec<String> =
        columns.iter().enumerate().map(|(n, (_, _, value))| format!("c{n} = {value}")).collect();
    let assignments = assignments.join(", ");
    let mut source = replica.source().await;
    execute(&mut source, &[SQL_MODE, "SET NAMES utf8mb4"]).await;
    for (id, values) in [&first, &second, &nulls, &first].into_iter().enumerate() {
        execute(&mut source, &[&format!("INSERT INTO keyed VALUES ({id}, {values})")]).await;
        execute(&mut source, &[&format!("INSERT INTO keyless VALUES ({values})")]).await;
    }
    replica.catch_up().await.expect("inserts replicated");
    replica.assert_equal(&["keyed", "keyless"]).await;

    execute(
        &mut source,
        &[
            &format!("UPDATE keyed SET {assignments} WHERE id = 0"),
            "UPDATE keyed SET id = id + 100",
            &format!("UPDATE keyless SET {assignments} WHERE c6 IS NULL"),
            "DELETE FROM keyed WHERE id = 101",
            // One of two equal rows, and one that only an exact comparison finds.
            "DELETE FROM keyless WHERE c6 = -2147483648 LIMIT 1",
            "UPDATE keyless SET c30 = 'BLANKS' WHERE c6 = 2147483647 LIMIT 1",
            "DELETE FROM keyless WHERE c30 = 'blanks   ' COLLATE utf8mb4_bin LIMIT 1",
        ],
    )
    .await;
    let synced = replica.catch_up().await.expect("updates and deletes replicated");
    replica.assert_equal(&["keyed", "keyless"]).await;
    assert_eq!(synced.mismatched, 0, "every row was found");
}

#[test]
fn all_types_on_mysql() {
    runtime().block_on(all_types(Flavor::Mysql, false));
}

#[test]
fn all_types_in_statements_of_several_rows_on_mysql() {
    runtime().block_on(all_types(Flavor::Mysql, true));
}

#[test]
fn all_types_in_statements_of_several_rows_on_mariadb() {
    runtime().block_on(all_types(Flavor::Mariadb, true));
}

#[test]
fn all_types_on_mariadb() {
    runtime().block_on(all_types(Flavor::Mariadb, false));
}

#[test]
fn all_types_on_tidb() {
    if has_tidb() {
        runtime().block_on(all_types(Flavor::Tidb, false));
    }
}

async fn generated_columns(flavor: Flavor) {
    let table = "CREATE TABLE g (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s VARCHAR(20) \
                 AS (CONCAT('s', a)) STORED, UNIQUE KEY (s), UNIQUE KEY (v))";
    let replica = Replica::new(pair(flavor), "generated", &[table]).await;
    let mut source = replica.source().await;
    execute(
        &mut source,
        &[
            "INSERT INTO g (id, a) VALUES (1, 10), (2, 20), (3, NULL)",
            "UPDATE g SET a = 30 WHERE id = 1",
            "UPDATE g SET a = 10 WHERE id = 2",
            "UPDATE g SET id = 9 WHERE id = 3",
            "DELETE FROM g WHERE id = 1",
        ],
    )
    .await;
    let synced = replica.catch_up().await.expect("replicated");
    replica.assert_equal(&["g"]).await;
    assert_eq!((synced.rows, synced.mismatched), (7, 0));
}

#[test]
fn generated_columns_on_mysql() {
    runtime().block_on(generated_columns(Flavor::Mysql));
}

#[test]
fn generated_columns_on_mariadb() {
    runtime().block_on(generated_columns(Flavor::Mariadb));
}

#[test]
fn generated_columns_on_tidb() {
    if has_tidb() {
        runtime().block_on(generated_columns(Flavor::Tidb));
    }
}
