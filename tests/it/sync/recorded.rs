//! The statements that a running DM executed for a history, and ours for the same.
//!
//! Recorded from a running DM v8.5 (MySQL 9.7 as source, TiDB as target, one worker) in TiDB's general
//! log. Its statements are written down here one by one; where ours differ, both stand beside each
//! other with the reason.

use std::time::Duration;

use dmbench::mysql::{Flavor, Session};
use dmbench::pipeline::Progress;
use dmbench::pipeline::builtin::Sync;
use dmbench::pipeline::builtin::sync::Synced;

use super::{Replica, execute};
use crate::support::{locked_pair, runtime};

const TABLES: [&str; 4] = [
    "CREATE TABLE a (id INT PRIMARY KEY, u INT, c VARCHAR(10), UNIQUE KEY (u))",
    "CREATE TABLE p (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE n (a INT, b INT)",
    "CREATE TABLE gate (id INT PRIMARY KEY)",
];

/// Before the ALTER TABLE: thirty rows.
const FIRST: [&[&str]; 7] = [
    &[
        "INSERT INTO a VALUES (1,10,'a'),(2,20,'b'),(3,30,'c')",
        "INSERT INTO p VALUES (1,1),(2,2),(3,3)",
    ],
    &[
        "UPDATE p SET v=v+1 WHERE id=1",
        "UPDATE p SET v=v+1 WHERE id=2",
        "UPDATE p SET v=v+1 WHERE id=1",
    ],
    &["UPDATE a SET c='x' WHERE id=1", "UPDATE a SET u=11 WHERE id=1"],
    &[
        "UPDATE a SET u=99 WHERE id=2",
        "UPDATE a SET u=20 WHERE id=3",
        "UPDATE a SET u=30 WHERE id=2",
    ],
    &["UPDATE p SET id=10 WHERE id=3", "DELETE FROM p WHERE id=2", "INSERT INTO p VALUES (2,22)"],
    &[
        "INSERT INTO n VALUES (1,1),(1,1),(NULL,2)",
        "UPDATE n SET b=5 WHERE a IS NULL",
        "DELETE FROM n WHERE a=1 LIMIT 1",
    ],
    &[
        "INSERT INTO p VALUES (20,1),(21,1),(22,1),(23,1)",
        "DELETE FROM p WHERE id IN (20,21)",
        "UPDATE p SET v=7 WHERE id IN (22,23)",
    ],
];
const ALTER: &str = "ALTER TABLE p ADD COLUMN w VARCHAR(30) DEFAULT 'w0'";
const LAST: &str = r#"INSERT INTO p VALUES (30,1,NULL),(31,2,'it''s "q" \\ \0')"#;

/// DM begins every task in safe mode: its first three rows were REPLACE in every recording, and here
/// they are INSERT where safe mode is not asked for.
const DEFAULT: [&str; 32] = [
    "INSERT INTO `h`.`a` (`id`,`u`,`c`) VALUES (1,10,'a')",
    "INSERT INTO `h`.`a` (`id`,`u`,`c`) VALUES (2,20,'b')",
    "INSERT INTO `h`.`a` (`id`,`u`,`c`) VALUES (3,30,'c')",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (1,1)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (2,2)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (3,3)",
    "UPDATE `h`.`p` SET `id` = 1, `v` = 2 WHERE `id` = 1 LIMIT 1",
    "UPDATE `h`.`p` SET `id` = 2, `v` = 3 WHERE `id` = 2 LIMIT 1",
    "UPDATE `h`.`p` SET `id` = 1, `v` = 3 WHERE `id` = 1 LIMIT 1",
    "UPDATE `h`.`a` SET `id` = 1, `u` = 10, `c` = 'x' WHERE `id` = 1 LIMIT 1",
    "UPDATE `h`.`a` SET `id` = 1, `u` = 11, `c` = 'x' WHERE `id` = 1 LIMIT 1",
    "UPDATE `h`.`a` SET `id` = 2, `u` = 99, `c` = 'b' WHERE `id` = 2 LIMIT 1",
    "UPDATE `h`.`a` SET `id` = 3, `u` = 20, `c` = 'c' WHERE `id` = 3 LIMIT 1",
    "UPDATE `h`.`a` SET `id` = 2, `u` = 30, `c` = 'b' WHERE `id` = 2 LIMIT 1",
    "UPDATE `h`.`p` SET `id` = 10, `v` = 3 WHERE `id` = 3 LIMIT 1",
    "DELETE FROM `h`.`p` WHERE `id` = 2 LIMIT 1",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (2,22)",
    "INSERT INTO `h`.`n` (`a`,`b`) VALUES (1,1)",
    "INSERT INTO `h`.`n` (`a`,`b`) VALUES (1,1)",
    "INSERT INTO `h`.`n` (`a`,`b`) VALUES (NULL,2)",
    "UPDATE `h`.`n` SET `a` = NULL, `b` = 5 WHERE `a` IS NULL AND `b` = 2 LIMIT 1",
    "DELETE FROM `h`.`n` WHERE `a` = 1 AND `b` = 1 LIMIT 1",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (20,1)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (21,1)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (22,1)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (23,1)",
    "DELETE FROM `h`.`p` WHERE `id` = 20 LIMIT 1",
    "DELETE FROM `h`.`p` WHERE `id` = 21 LIMIT 1",
    "UPDATE `h`.`p` SET `id` = 22, `v` = 7 WHERE `id` = 22 LIMIT 1",
    "UPDATE `h`.`p` SET `id` = 23, `v` = 7 WHERE `id` = 23 LIMIT 1",
    "INSERT INTO `h`.`p` (`id`,`v`,`w`) VALUES (30,1,NULL)",
    r#"INSERT INTO `h`.`p` (`id`,`v`,`w`) VALUES (31,2,'it\'s \"q\" \\ \0')"#,
];

const SAFE_MODE: [&str; 38] = [
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (1,10,'a')",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (2,20,'b')",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (3,30,'c')",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (1,1)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (2,2)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (3,3)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (1,2)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (2,3)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (1,3)",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (1,10,'x')",
    "DELETE FROM `h`.`a` WHERE `id` = 1 LIMIT 1",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (1,11,'x')",
    "DELETE FROM `h`.`a` WHERE `id` = 2 LIMIT 1",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (2,99,'b')",
    "DELETE FROM `h`.`a` WHERE `id` = 3 LIMIT 1",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (3,20,'c')",
    "DELETE FROM `h`.`a` WHERE `id` = 2 LIMIT 1",
    "REPLACE INTO `h`.`a` (`id`,`u`,`c`) VALUES (2,30,'b')",
    "DELETE FROM `h`.`p` WHERE `id` = 3 LIMIT 1",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (10,3)",
    "DELETE FROM `h`.`p` WHERE `id` = 2 LIMIT 1",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (2,22)",
    "REPLACE INTO `h`.`n` (`a`,`b`) VALUES (1,1)",
    "REPLACE INTO `h`.`n` (`a`,`b`) VALUES (1,1)",
    "REPLACE INTO `h`.`n` (`a`,`b`) VALUES (NULL,2)",
    "DELETE FROM `h`.`n` WHERE `a` IS NULL AND `b` = 2 LIMIT 1",
    "REPLACE INTO `h`.`n` (`a`,`b`) VALUES (NULL,5)",
    "DELETE FROM `h`.`n` WHERE `a` = 1 AND `b` = 1 LIMIT 1",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (20,1)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (21,1)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (22,1)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (23,1)",
    "DELETE FROM `h`.`p` WHERE `id` = 20 LIMIT 1",
    "DELETE FROM `h`.`p` WHERE `id` = 21 LIMIT 1",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (22,7)",
    "REPLACE INTO `h`.`p` (`id`,`v`) VALUES (23,7)",
    "REPLACE INTO `h`.`p` (`id`,`v`,`w`) VALUES (30,1,NULL)",
    r#"REPLACE INTO `h`.`p` (`id`,`v`,`w`) VALUES (31,2,'it\'s \"q\" \\ \0')"#,
];

const MULTIPLE_ROWS: [&str; 13] = [
    "INSERT INTO `h`.`a` (`id`,`u`,`c`) VALUES (1,10,'a'),(2,20,'b'),(3,30,'c')",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (1,1),(2,2),(3,3)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (1,2),(2,3),(1,3) ON DUPLICATE KEY UPDATE \
     `id`=VALUES(`id`),`v`=VALUES(`v`)",
    "INSERT INTO `h`.`a` (`id`,`u`,`c`) VALUES (1,10,'x'),(1,11,'x'),(2,99,'b'),(3,20,'c'),(2,30,'b') \
     ON DUPLICATE KEY UPDATE `id`=VALUES(`id`),`u`=VALUES(`u`),`c`=VALUES(`c`)",
    "UPDATE `h`.`p` SET `id`=CASE WHEN `id` = 3 THEN 10 END, `v`=CASE WHEN `id` = 3 THEN 3 END WHERE \
     (`id` = 3)",
    "DELETE FROM `h`.`p` WHERE (`id` = 2)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (2,22)",
    "INSERT INTO `h`.`n` (`a`,`b`) VALUES (1,1),(1,1),(NULL,2)",
    "UPDATE `h`.`n` SET `a`=CASE WHEN `a` IS NULL AND `b` = 2 THEN NULL END, `b`=CASE WHEN `a` IS NULL \
     AND `b` = 2 THEN 5 END WHERE (`a` IS NULL AND `b` = 2)",
    "DELETE FROM `h`.`n` WHERE (`a` = 1 AND `b` = 1)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (20,1),(21,1),(22,1),(23,1)",
    "DELETE FROM `h`.`p` WHERE (`id` = 20) OR (`id` = 21)",
    "INSERT INTO `h`.`p` (`id`,`v`) VALUES (22,7),(23,7) ON DUPLICATE KEY UPDATE \
     `id`=VALUES(`id`),`v`=VALUES(`v`)",
];
const MULTIPLE_ROWS_LAST: &str =
    r#"INSERT INTO `h`.`p` (`id`,`v`,`w`) VALUES (30,1,NULL),(31,2,'it\'s \"q\" \\ \0')"#;

/// What DM executes with multiple-rows, and what is right on all servers. The first sets the key
/// before it is used (MySQL would then find no case for `v`); the others take all equal rows.
const OTHERWISE: [(&str, &str); 3] = [
    (
        MULTIPLE_ROWS[4],
        "UPDATE `h`.`p` SET `v`=CASE WHEN `id` = 3 THEN 3 END, `id`=CASE WHEN `id` = 3 THEN 10 END WHERE \
         (`id` = 3)",
    ),
    (MULTIPLE_ROWS[8], DEFAULT[20]),
    (MULTIPLE_ROWS[9], DEFAULT[21]),
];

/// Holds the worker's transaction at a row of `gate` until it is opened.
async fn closed_gate(replica: &Replica, id: u32) -> Session {
    let mut gate = replica.target().await;
    execute(&mut gate, &["BEGIN", &format!("INSERT INTO gate VALUES ({id})")]).await;
    gate
}

/// Until a worker stands at the gate.
async fn at_gate(replica: &Replica) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%INTO `{}`.`gate`%' AND \
         info NOT LIKE '%processlist%'",
        replica.schema
    );
    let mut session = replica.target().await;
    while session.value::<u64>(&sql).await.expect("answered") != Some(1) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Replicates the history: everything before the ALTER TABLE waits at the worker together, and what is
/// behind it. `waiting`: how many rows the worker's queue takes.
async fn replicate(replica: &Replica, waiting: Option<u64>) -> Synced {
    let synced = replica.beside(async |watched| {
        let mut source = replica.source().await;
        let gates = [closed_gate(replica, 1).await, closed_gate(replica, 2).await];
        let last = [LAST];
        let parts = [(&FIRST[..], 30, 31), (&[&last[..]], 2, 34)];
        for ((nth, mut gate), (transactions, rows, all)) in gates.into_iter().enumerate().zip(parts)
        {
            execute(&mut source, &[&format!("INSERT INTO gate VALUES ({})", nth + 1)]).await;
            at_gate(replica).await;
            for transaction in transactions {
                execute(&mut source, &["BEGIN"]).await;
                execute(&mut source, transaction).await;
                execute(&mut source, &["COMMIT"]).await;
            }
            let queued = 1 + waiting.unwrap_or(rows).min(rows);
            let all_there = |p: &Progress| {
                p.stages.len() == 4 && p.stages[2].queue_len == queued && p.stages[0].items == all
            };
            watched.wait_for(all_there).await.expect("goes on");
            execute(&mut gate, &["ROLLBACK"]).await;
            if nth == 0 {
                execute(&mut source, &[ALTER]).await;
            }
        }
        let end = replica.end().await;
        let reached = |p: &Progress| p.applied.as_ref().is_some_and(|a| a.reached(&end));
        watched.wait_for(reached).await.expect("goes on");
    });
    let synced = synced.await.expect("replicated");
    replica.assert_equal(&["a", "p", "n", "gate"]).await;
    synced
}

/// What the sessions that wrote the schema executed, transactions apart, without the gate's rows.
async fn executed(replica: &Replica) -> Vec<Vec<String>> {
    let schema = &replica.schema;
    let sql = format!(
        "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query' AND \
         thread_id IN (SELECT thread_id FROM mysql.general_log WHERE argument LIKE 'INSERT INTO \
         `{schema}`.`gate`%' OR argument LIKE 'REPLACE INTO `{schema}`.`gate`%')"
    );
    let rows = replica.target().await.rows(&sql).await.expect("read");
    let mut transactions: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let text: String = row.get(0).expect("a text");
        let changes = ["INSERT", "REPLACE", "UPDATE", "DELETE"];
        if text == "START TRANSACTION" {
            transactions.push(Vec::new());
        } else if changes.iter().any(|verb| text.starts_with(verb)) && !text.contains("`gate`") {
            let text = text.replace(&format!("`{schema}`"), "`h`");
            transactions.last_mut().expect("inside a transaction").push(text);
        }
    }
    transactions.retain(|transaction| !transaction.is_empty());
    transactions
}

/// DM escapes double quotes as well.
fn unescaped(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|text| text.replace("\\\"", "\"")).collect()
}

async fn statements_with(flavor: Flavor, settings: Sync) -> Vec<Vec<String>> {
    let mut replica = Replica::new(locked_pair(flavor), "recorded", &TABLES).await;
    replica.settings = Sync { worker_count: 1, ..settings };
    let synced = replicate(&replica, None).await;
    assert_eq!((synced.rows, synced.ddl, synced.mismatched), (34, 1, 0));
    let executed = executed(&replica).await;
    let count: usize = executed.iter().map(Vec::len).sum();
    assert_eq!(synced.statements, count as u64 + 2, "with the two rows of the gate");
    executed
}

async fn the_statements_are_dms(flavor: Flavor) {
    let mut target = locked_pair(flavor).target_session().await;
    execute(&mut target, &["SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON"]).await;

    let by_default = statements_with(flavor, Sync::default()).await.concat();
    assert_eq!(by_default, unescaped(&DEFAULT));

    let of_two = statements_with(flavor, Sync { batch: 2, ..Sync::default() }).await;
    assert_eq!(of_two.concat(), unescaped(&DEFAULT));
    assert!(of_two.iter().all(|transaction| transaction.len() <= 2), "{of_two:?}");
    assert_eq!(of_two.len(), 16, "full batches under back-pressure");

    let safe = Sync { safe_mode: true, ..Sync::default() };
    assert_eq!(statements_with(flavor, safe.clone()).await.concat(), unescaped(&SAFE_MODE));
    let safe_for = Sync { safe_mode_duration: Some(Duration::from_secs(3_600)), ..Sync::default() };
    assert_eq!(statements_with(flavor, safe_for).await.concat(), unescaped(&SAFE_MODE));

    let multiple = Sync { multiple_rows: true, ..Sync::default() };
    let mut recorded = MULTIPLE_ROWS.to_vec();
    recorded.push(MULTIPLE_ROWS_LAST);
    for statement in &mut recorded {
        if let Some((_, ours)) = OTHERWISE.iter().find(|(dms, _)| dms == statement) {
            *statement = ours;
        }
    }
    assert_eq!(statements_with(flavor, multiple).await.concat(), unescaped(&recorded));

    execute(&mut target, &["SET GLOBAL general_log = OFF", "TRUNCATE mysql.general_log"]).await;
}

#[test]
fn the_statements_are_dms_on_mysql() {
    runtime().block_on(the_statements_are_dms(Flavor::Mysql));
}

#[test]
fn the_statements_are_dms_on_mariadb() {
    runtime().block_on(the_statements_are_dms(Flavor::Mariadb));
}

/// Where DM lost rows (one of two equal rows deleted with multiple-rows) or stopped with error 1062
/// (two unique values swapped with compact) both ends are equal here.
async fn both_ends_are_equal_where_dm_was_wrong(flavor: Flavor) {
    for (safe_mode, multiple_rows, compact) in [
        (false, true, false),
        (true, true, false),
        (false, false, true),
        (false, true, true),
        (true, true, true),
    ] {
        let mut replica = Replica::new(locked_pair(flavor), "equal", &TABLES).await;
        // With compact ten rows are in the worker's queue and the next ones wait; without, twenty are
        // and the next one is about to be.
        replica.settings = Sync {
            worker_count: 1,
            queue_size: 40,
            safe_mode,
            multiple_rows,
            compact,
            ..Sync::default()
        };
        let synced = replicate(&replica, Some(if compact { 10 } else { 21 })).await;
        assert_eq!((synced.rows, synced.mismatched), (34, 0));
        assert_eq!(synced.compacted > 0, compact, "{}", synced.compacted);
    }
}

#[test]
fn both_ends_are_equal_where_dm_was_wrong_on_mysql() {
    runtime().block_on(both_ends_are_equal_where_dm_was_wrong(Flavor::Mysql));
}

#[test]
fn both_ends_are_equal_where_dm_was_wrong_on_mariadb() {
    runtime().block_on(both_ends_are_equal_where_dm_was_wrong(Flavor::Mariadb));
}
