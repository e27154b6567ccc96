//! Verification against real servers: what is equal is found equal, and every difference is found
//! with its count and an example, on each flavour and across flavours.

use dmbench::event::Events;
use dmbench::mysql::{Flavor, Session};
use dmbench::record::Verdict;
use dmbench::trial::verify;
use tokio_util::sync::CancellationToken;

use crate::support::{Ends, Pair, has_tidb, mixed_pair, pair};

fn pairs() -> Vec<&'static Pair> {
    let mut pairs = vec![pair(Flavor::Mysql), pair(Flavor::Mariadb), mixed_pair()];
    pairs.extend(has_tidb().then(|| pair(Flavor::Tidb)));
    pairs
}

impl Ends {
    /// In use by both sessions, which take any value.
    async fn lax(pair: &'static Pair, name: &str) -> Ends {
        let mut ends = Ends::make(pair, name).await;
        let schema = ends.schema.clone();
        ends.both(&format!("USE {schema}")).await;
        ends.both("SET SESSION sql_mode = ''").await;
        ends
    }

    /// Runs a statement at both ends.
    async fn both(&mut self, sql: &str) {
        run(&mut self.source, sql).await;
        run(&mut self.target, sql).await;
    }

    /// Runs a statement at each end.
    async fn each(&mut self, source: &str, target: &str) {
        run(&mut self.source, source).await;
        run(&mut self.target, target).await;
    }

    async fn verdict(&self) -> Verdict {
        self.verdict_without(&[]).await
    }

    async fn verdict_without(&self, ignore: &[&str]) -> Verdict {
        let schemas = [self.schema.clone()];
        let (source, target) = (self.pair.source(), self.pair.target());
        let (events, cancel) = (Events::none(), CancellationToken::new());
        verify::compare(source, target, &schemas, ignore, &events, &cancel)
            .await
            .expect("both ends can be read")
    }
}

async fn run(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap_or_else(|error| panic!("failed to {error}"));
}

/// Missing, surplus and changed rows, and the examples without the schema.
fn differs(verdict: Verdict) -> ([u64; 3], Vec<String>) {
    let Verdict::Differs { missing, surplus, changed, examples } = verdict else {
        panic!("the ends differ, but the verdict is {verdict:?}");
    };
    // Other tests write to the same source meanwhile, which the verdict rightly remarks.
    let examples = examples.iter().filter(|e| !e.starts_with("the source was written to"));
    let short = |example: &String| example.split_once('.').expect("a table").1.to_owned();
    ([missing, surplus, changed], examples.map(short).collect())
}

/// A sysbench table with rows 1 to `rows` in steps of `step`.
async fn sysbench_table(ends: &mut Ends, name: &str, rows: u32, step: u32) {
    ends.both(&format!(
        "CREATE TABLE {name} (id INT NOT NULL PRIMARY KEY, k INT NOT NULL DEFAULT 0, c CHAR(120) \
         NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))"
    ))
    .await;
    ends.both(&format!(
        "INSERT INTO {name} WITH RECURSIVE d AS (SELECT 0 n UNION ALL SELECT n + 1 FROM d WHERE n < 99) \
         SELECT i * {step}, i * 7 % 1001, CONCAT('c-', i, REPEAT('-0123456789', 8)), CONCAT('p', i) \
         FROM (SELECT a.n * 10000 + b.n * 100 + c.n + 1 AS i FROM d a, d b, d c WHERE a.n < 10) x \
         WHERE i <= {rows}"
    ))
    .await;
}

#[tokio::test]
async fn equal_tables_are_equal_and_every_changed_missing_and_surplus_row_is_found() {
    for pair in pairs() {
        let mut ends = Ends::lax(pair, "rows").await;
        sysbench_table(&mut ends, "sbtest1", 45_000, 1).await;
        sysbench_table(&mut ends, "sbtest2", 3_000, 1_000).await;
        assert_eq!(ends.verdict().await, Verdict::Equal { tables: 2, rows: 48_000 });

        ends.each(
            "INSERT INTO sbtest1 (id) VALUES (-7), (45001)",
            "UPDATE sbtest1 SET c = CONCAT(c, '!') WHERE id IN (9, 10, 40000)",
        )
        .await;
        ends.each("DELETE FROM sbtest2 WHERE id = 5000", "DELETE FROM sbtest1 WHERE id = 22500")
            .await;
        let (counts, examples) = differs(ends.verdict().await);
        assert_eq!(counts, [3, 1, 3]);
        assert_eq!(
            examples,
            [
                "sbtest1 id=-7: missing in the target",
                "sbtest1 id=9: values differ",
                "sbtest1 id=10: values differ",
                "sbtest1 id=22500: missing in the target",
                "sbtest1 id=40000: values differ",
                "sbtest1 id=45001: missing in the target",
                "sbtest2 id=5000: in the target only",
            ]
        );
    }
}

#[tokio::test]
async fn a_table_without_a_key_is_a_multiset() {
    for pair in pairs() {
        let mut ends = Ends::lax(pair, "keyless").await;
        ends.both("CREATE TABLE h (a INT, b VARCHAR(10))").await;
        ends.each(
            "INSERT INTO h VALUES (1, 'x'), (1, 'x'), (2, NULL), (3, 'z')",
            "INSERT INTO h VALUES (3, 'z'), (1, 'x'), (2, NULL), (1, 'x')",
        )
        .await;
        assert_eq!(ends.verdict().await, Verdict::Equal { tables: 1, rows: 4 });

        // Two equal surplus rows cancel in an exclusive or.
        ends.each("DO 0", "INSERT INTO h VALUES (4, 'four'), (4, 'four')").await;
        let (counts, examples) = differs(ends.verdict().await);
        assert_eq!(counts, [0, 2, 0]);
        assert!(examples[0].starts_with("h row (4, four) with hash "), "{examples:?}");

        // As many rows at both ends, but other ones twice.
        ends.each("INSERT INTO h VALUES (2, NULL), (3, 'z')", "DO 0").await;
        assert_eq!(differs(ends.verdict().await).0, [2, 2, 0]);
    }
}

#[tokio::test]
async fn a_large_table_keyed_by_text_is_split_by_hash_of_the_key() {
    for pair in pairs() {
        let mut ends = Ends::lax(pair, "text").await;
        sysbench_table(&mut ends, "seed", 30_000, 1).await;
        ends.both("CREATE TABLE t (k VARCHAR(40) COLLATE utf8mb4_general_ci, d DATE, v INT, PRIMARY KEY (k, d))")
            .await;
        ends.both("INSERT INTO t SELECT CONCAT('Key-', id), '2026-11-30', id FROM seed").await;
        ends.both("CREATE TABLE h (k VARCHAR(40) COLLATE utf8mb4_general_ci, v INT)").await;
        ends.both("INSERT INTO h SELECT k, v FROM t").await;
        ends.both("DROP TABLE seed").await;
        assert_eq!(ends.verdict().await, Verdict::Equal { tables: 2, rows: 60_000 });

        ends.each("UPDATE t SET v = 0 WHERE v = 700", "DELETE FROM t WHERE k = 'Key-41'").await;
        ends.each("DO 0", "INSERT INTO h SELECT k, v FROM t WHERE v = 12").await;
        let (counts, examples) = differs(ends.verdict().await);
        assert_eq!(counts, [1, 1, 1]);
        assert_eq!(examples.len(), 3);
        assert!(examples[0].starts_with("h row (Key-12, 12) with hash"), "{examples:?}");
        assert_eq!(
            examples[1..],
            [
                "t k=Key-41, d=2026-11-30: missing in the target",
                "t k=Key-700, d=2026-11-30: values differ"
            ]
        );
    }
}

#[tokio::test]
async fn values_that_look_alike_are_told_apart() {
    const CASES: [(&str, &str, &str); 15] = [
        ("a VARCHAR(9)", "(NULL)", "('')"),
        ("a TEXT", "(NULL)", "('')"),
        ("a BLOB", "(NULL)", "('')"),
        ("a VARBINARY(9)", "(NULL)", "('')"),
        ("a VARCHAR(9)", "(NULL)", "('N')"),
        ("a VARCHAR(9)", "('x')", "('x ')"),
        ("a VARCHAR(9) COLLATE utf8mb4_general_ci", "('x')", "('X')"),
        ("a VARCHAR(9), b VARCHAR(9)", "('ab','c')", "('a','bc')"),
        ("a VARBINARY(9), b VARBINARY(9)", "(x'0102',x'03')", "(x'01',x'0203')"),
        ("a VARCHAR(9), b VARCHAR(9)", "('','x')", "('x','')"),
        ("a INT, b INT", "(1,NULL)", "(NULL,1)"),
        ("a FLOAT", "(16777216)", "(16777218)"),
        ("a DOUBLE", "(NULL)", "(0)"),
        ("a JSON", "('[1, 2]')", "('[2, 1]')"),
        ("a DATETIME(6)", "('2026-11-30 01:02:03.000001')", "('2026-11-30 01:02:03.000002')"),
    ];
    for pair in pairs() {
        let mut ends = Ends::lax(pair, "alike").await;
        let mut expected = Vec::new();
        for (index, (columns, source, target)) in CASES.iter().enumerate() {
            let (keyed, keyless) = (format!("k{index:02}"), format!("n{index:02}"));
            ends.both(&format!("CREATE TABLE {keyed} (id INT PRIMARY KEY, {columns})")).await;
            ends.both(&format!("CREATE TABLE {keyless} ({columns})")).await;
            let insert = |row: &str| format!("INSERT INTO {keyed} VALUES (1,{}", &row[1..]);
            ends.each(&insert(source), &insert(target)).await;
            let insert = |row: &str| format!("INSERT INTO {keyless} VALUES {row}");
            ends.each(&insert(source), &insert(target)).await;
            expected.push((keyed, [0, 0, 1]));
            expected.push((keyless, [1, 1, 0]));
        }
        let all: Vec<&str> = expected.iter().map(|(table, _)| table.as_str()).collect();
        for (table, counts) in &expected {
            let others: Vec<&str> = all.iter().copied().filter(|other| other != table).collect();
            assert_eq!(differs(ends.verdict_without(&others).await).0, *counts, "{table}");
        }
    }
}

/// TiDB has no spatial types.
fn without_points(sql: &str) -> String {
    let sql = sql.replace("p POINT", "p BLOB").replace("POINT(1, -2.5)", "x'01'");
    sql.replace("POINT(0, 0)", "''")
}

#[tokio::test]
async fn the_same_values_of_every_type_are_equal_across_servers() {
    for pair in pairs() {
        let mut ends = Ends::lax(pair, "types").await;
        let is_tidb = ends.target.server().flavor == Flavor::Tidb;
        let fit = |sql: &str| if is_tidb { without_points(sql) } else { sql.to_owned() };
        let columns = "i1 TINYINT, i2 SMALLINT UNSIGNED, i3 MEDIUMINT, i8 BIGINT, u8 BIGINT UNSIGNED, \
             z INT(9) ZEROFILL, d1 DECIMAL(65,30), d2 DECIMAL(9,0) ZEROFILL, f FLOAT, g DOUBLE, \
             da DATE, dt DATETIME(6), t TIME(6), ts TIMESTAMP(3) NULL, y YEAR, b1 BIT(1), b9 BIT(9), b64 BIT(64), \
             c CHAR(9), v VARCHAR(99), l VARCHAR(9) CHARACTER SET latin1, lt LONGTEXT CHARACTER SET latin1, \
             tt TINYTEXT, tx MEDIUMTEXT, bi BINARY(4), vb VARBINARY(9), tb TINYBLOB, lb LONGBLOB, \
             e ENUM('a','b c','é'), s SET('x','y','z'), j JSON, p POINT, g1 INT AS (i1 + 1) VIRTUAL";
        let (columns, key) = (fit(columns), "PRIMARY KEY (id)");
        ends.both(&format!("CREATE TABLE types (id BIGINT UNSIGNED, {columns}, {key})")).await;
        ends.both(&format!("CREATE TABLE keyless ({columns})")).await;
        let rows = [
            "-128, 65535, -8388608, -9223372036854775808, 18446744073709551615, 7, \
             -0.000000000000000000000000000001, 42, 1.17549e-38, -1.7976931348623157e308, \
             '1000-01-01', '9999-12-31 23:59:59.999999', '-838:59:59', '2038-01-19 03:14:07.999', 1901, \
             b'1', b'100000001', 18446744073709551615, 'ch ', 'tail  ', 'äöü', 'ß€', 'tt', REPEAT('é😀', 5000), \
             'a', x'00ff00', x'00', REPEAT(x'00ff27', 70000), 'é', 'x,z', \
             '{\"bb\": 2.50, \"a\": [1, null, true, \"é\"], \"c\": -0.0}', POINT(1, -2.5)",
            "0, 0, 0, 0, 0, 0, 0, 0, -0e0, 16777217, '0000-00-00', '0000-00-00 00:00:00', '00:00:00', \
             '1970-01-01 00:00:01', 2155, b'0', 0, 0, '', '', '', '', '', '', '', '', '', '', 'a', '', '[]', POINT(0, 0)",
        ];
        let names =
            "i1,i2,i3,i8,u8,z,d1,d2,f,g,da,dt,t,ts,y,b1,b9,b64,c,v,l,lt,tt,tx,bi,vb,tb,lb,e,s,j,p";
        for (index, row) in rows.iter().enumerate() {
            let (id, row) = (u64::MAX - index as u64, fit(row));
            ends.both(&format!("INSERT INTO types (id, {names}) VALUES ({id}, {row})")).await;
            ends.both(&format!("INSERT INTO keyless ({names}) VALUES ({row})")).await;
        }
        ends.both("INSERT INTO types (id) VALUES (0)").await;
        ends.both("INSERT INTO keyless (i1) VALUES (NULL)").await;
        assert_eq!(ends.verdict().await, Verdict::Equal { tables: 2, rows: 6 });

        ends.each(
            "DO 0",
            "UPDATE types SET lb = CONCAT(lb, x'00') WHERE id > 18446744073709551614",
        )
        .await;
        let (counts, examples) = differs(ends.verdict().await);
        assert_eq!(counts, [0, 0, 1]);
        assert_eq!(examples, ["types id=18446744073709551615: values differ"]);
    }
}

#[tokio::test]
async fn the_sign_of_zero_counts_where_both_servers_keep_it() {
    let mut ends = Ends::lax(pair(Flavor::Mysql), "zero").await;
    ends.both("CREATE TABLE t (id INT PRIMARY KEY, a DOUBLE, b FLOAT)").await;
    ends.each("INSERT INTO t VALUES (1, 0e0, 0e0)", "INSERT INTO t VALUES (1, -0e0, 0e0)").await;
    assert_eq!(differs(ends.verdict().await).0, [0, 0, 1]);
}

#[tokio::test]
async fn definitions_may_differ_where_values_do_not() {
    let mut ends = Ends::lax(mixed_pair(), "definitions").await;
    ends.each(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a VARCHAR(9) CHARACTER SET latin1 NOT NULL, b TEXT, f FLOAT)",
        "CREATE TABLE t (f DOUBLE, b VARCHAR(99), a VARCHAR(20), id BIGINT UNSIGNED PRIMARY KEY)",
    )
    .await;
    ends.each(
        "INSERT INTO t VALUES (1, 'é', 'text', 0.5), (2, '', '', NULL)",
        "INSERT INTO t VALUES (0.5, 'text', 'é', 1), (NULL, '', '', 2)",
    )
    .await;
    assert_eq!(ends.verdict().await, Verdict::Equal { tables: 1, rows: 2 });
}

#[tokio::test]
async fn tables_and_columns_of_one_end_only_differ() {
    let mut ends = Ends::lax(pair(Flavor::Mariadb), "shape").await;
    ends.both("CREATE TABLE same (id INT PRIMARY KEY)").await;
    ends.each("CREATE TABLE ours (id INT)", "CREATE TABLE theirs (id INT)").await;
    ends.each("INSERT INTO ours VALUES (1), (2)", "INSERT INTO theirs VALUES (1)").await;
    ends.each("CREATE TABLE cols (a INT, b INT)", "CREATE TABLE cols (a INT, c INT)").await;
    ends.each("CREATE TABLE kinds (a INT)", "CREATE TABLE kinds (a BLOB)").await;
    let (counts, examples) = differs(ends.verdict().await);
    assert_eq!(counts, [2, 1, 0]);
    assert_eq!(
        examples,
        [
            "ours: not in the target (2 rows)",
            "theirs: in the target only (1 rows)",
            "cols: columns differ: only in the source [b], only in the target [c]",
            "kinds: column a is int(11) in the source and blob in the target",
        ]
    );
    let ignore = ["ours", "theirs", "cols", "kinds"];
    assert_eq!(ends.verdict_without(&ignore).await, Verdict::Equal { tables: 1, rows: 0 });
}

#[tokio::test]
async fn an_empty_target_table_is_counted_without_reading_the_source_row_by_row() {
    let mut ends = Ends::lax(mixed_pair(), "empty").await;
    sysbench_table(&mut ends, "sbtest1", 45_000, 1).await;
    ends.each("DO 0", "TRUNCATE sbtest1").await;
    let (counts, examples) = differs(ends.verdict().await);
    assert_eq!(counts, [45_000, 0, 0]);
    assert_eq!(examples.len(), 10);
    assert_eq!(examples[0], "sbtest1 id=1: missing in the target");
}

#[tokio::test]
async fn cancelling_leaves_the_ends_unchecked() {
    let ends = Ends::lax(pair(Flavor::Mariadb), "cancel").await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let (source, target) = (ends.pair.source(), ends.pair.target());
    let schemas = [ends.schema.clone()];
    let verdict = verify::compare(source, target, &schemas, &[], &Events::none(), &cancel).await;
    assert!(matches!(verdict.expect("no error"), Verdict::Unchecked { .. }));
}
