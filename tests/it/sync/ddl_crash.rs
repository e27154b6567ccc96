//! Ends around a DDL: it is executed once.

use dmbench::mysql::{Flavor, Session};
use dmbench::pipeline::builtin::sync::run;
use dmbench::pipeline::{Progress, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{HANG, Replica, execute, rows};
use crate::support::{pair, runtime};

/// When the unit is dropped.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// When the checkpoint tells that the DDL is next.
    Told,
    /// When the target waits for a lock to execute it, and will without us.
    Waiting,
    /// When it is executed and the checkpoint does not know.
    Executed,
}

const TABLES: [&str; 2] = [
    "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "CREATE TABLE b (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
];

/// Statements that succeed twice with another effect or fail the second time, what to read on the
/// target to see that they were executed, and the tables that are left.
const CASES: [(&str, &str, &[&str]); 6] = [
    (
        "ALTER TABLE a ADD INDEX (v)",
        "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND \
         table_name = 'a'",
        &["a", "b"],
    ),
    ("RENAME TABLE a TO c, b TO a, c TO b", "SELECT MIN(id) FROM a", &["a", "b"]),
    (
        "ALTER TABLE a ADD COLUMN w INT DEFAULT 5",
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND \
         table_name = 'a'",
        &["a", "b"],
    ),
    ("TRUNCATE TABLE a", "SELECT COUNT(*) FROM a", &["a", "b"]),
    (
        "DROP TABLE a",
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND \
         table_name = 'a'",
        &["b"],
    ),
    (
        "RENAME TABLE a TO renamed",
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND \
         table_name = 'a'",
        &["renamed", "b"],
    ),
];

/// Asks until the answer is another one than at first, or what is wanted.
async fn until(session: &mut Session, sql: &str, wanted: impl Fn(Option<u64>) -> bool) {
    let asked = async {
        // The tables asked for may not be there yet.
        while !wanted(session.value(sql).await.unwrap_or(None)) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, asked).await.expect("it becomes so");
}

async fn dropped_at(replica: &Replica, moment: Moment, effect: &str) {
    let mut locker = replica.target().await;
    let committed = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    execute(&mut locker, &[committed, "BEGIN", "SELECT * FROM a"]).await;
    let mut watcher = replica.target().await;
    let checkpoint = format!("`{}`.`ddl_crash_syncer_checkpoint`", replica.setup.meta_schema);
    let mut holder = replica.target().await;
    let on_its_way = format!(
        "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT INTO `{}`%'",
        replica.setup.meta_schema
    );
    let script = async {
        let told =
            format!("SELECT COUNT(*) FROM {checkpoint} WHERE table_info LIKE '%pending-ddl%'");
        until(&mut watcher, &told, |count| count == Some(1)).await;
        if matches!(moment, Moment::Told) {
            return;
        }
        let waiting = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%metadata lock%' \
             AND db = '{}'",
            replica.schema
        );
        until(&mut watcher, &waiting, |count| count == Some(1)).await;
        if matches!(moment, Moment::Waiting) {
            return;
        }
        // Others would wait behind the DDL.
        let before: Option<u64> = locker.value(effect).await.expect("answered");
        // Nothing can be stored any more from here on.
        execute(&mut holder, &["BEGIN", &format!("SELECT * FROM {checkpoint} FOR UPDATE")]).await;
        execute(&mut locker, &["ROLLBACK"]).await;
        until(&mut watcher, effect, |now| now != before).await;
        until(&mut watcher, &on_its_way, |id| id.is_some()).await;
    };
    let (progress, _watched) = watch::channel(Progress::new(Unit::Sync));
    let cancel = CancellationToken::new();
    let (released, never) = (std::future::ready(()), std::future::pending());
    tokio::select! {
        ended = run(&replica.settings, &replica.setup, released, &progress, never, &cancel) => {
            panic!("ended by itself: {ended:?}")
        }
        () = script => {}
    }
    // As if the end had come before the checkpoint was sent.
    while let Some(id) = watcher.value::<u64>(&on_its_way).await.expect("answered") {
        let _ = watcher.execute(&format!("KILL {id}")).await;
    }
    execute(&mut holder, &["ROLLBACK"]).await;
    execute(&mut locker, &["ROLLBACK"]).await;
}

async fn definition(session: &mut Session, table: &str) -> String {
    let row = session.rows(&format!("SHOW CREATE TABLE {table}")).await.expect("there");
    let text: String = row[0].get(1).expect("a text");
    // The next value of the counter is each end's own.
    text.split(" AUTO_INCREMENT=").next().expect("a part").to_owned()
}

async fn a_ddl_is_executed_once(flavor: Flavor, moment: Moment) {
    for (ddl, effect, left) in CASES {
        let replica = Replica::new(pair(flavor), "ddl_crash", &TABLES).await;
        let mut source = replica.source().await;
        execute(
            &mut source,
            &[
                "INSERT INTO a VALUES (1, 10), (2, 20)",
                "INSERT INTO b VALUES (101, 30), (102, 40), (103, 50)",
                ddl,
                "INSERT INTO b (v) VALUES (7)",
            ],
        )
        .await;
        dropped_at(&replica, moment, effect).await;
        let synced = replica.catch_up().await.unwrap_or_else(|e| panic!("{ddl}, {moment:?}: {e}"));
        assert_eq!((synced.mismatched, synced.ddl), (0, 1), "{ddl}, {moment:?}");
        replica.assert_equal(left).await;
        for table in left {
            let at_source = definition(&mut source, table).await;
            let at_target = definition(&mut replica.target().await, table).await;
            assert_eq!(at_source, at_target, "{ddl}, {moment:?}");
        }
        let tables = format!(
            "information_schema.tables WHERE table_schema = '{}' AND table_name <> '_dmbench'",
            replica.schema
        );
        let count = rows(&mut replica.target().await, &tables).await.len();
        assert_eq!(count, left.len(), "{ddl}, {moment:?}");
    }
}

#[test]
fn a_ddl_that_was_told_on_mysql() {
    runtime().block_on(a_ddl_is_executed_once(Flavor::Mysql, Moment::Told));
}

#[test]
fn a_ddl_that_was_told_on_mariadb() {
    runtime().block_on(a_ddl_is_executed_once(Flavor::Mariadb, Moment::Told));
}

#[test]
fn a_ddl_that_the_target_goes_on_with_on_mysql() {
    runtime().block_on(a_ddl_is_executed_once(Flavor::Mysql, Moment::Waiting));
}

#[test]
fn a_ddl_that_the_target_goes_on_with_on_mariadb() {
    runtime().block_on(a_ddl_is_executed_once(Flavor::Mariadb, Moment::Waiting));
}

#[test]
fn a_ddl_that_was_executed_and_not_stored_on_mysql() {
    runtime().block_on(a_ddl_is_executed_once(Flavor::Mysql, Moment::Executed));
}

#[test]
fn a_ddl_that_was_executed_and_not_stored_on_mariadb() {
    runtime().block_on(a_ddl_is_executed_once(Flavor::Mariadb, Moment::Executed));
}

/// A drop of which only a part is done, as after a crash of the server.
#[test]
fn what_cannot_be_told_is_an_error() {
    runtime().block_on(async {
        let replica = Replica::new(pair(Flavor::Mysql), "ddl_crash", &TABLES).await;
        let ddl = "DROP TABLE a, b";
        execute(&mut replica.source().await, &[ddl]).await;
        dropped_at(&replica, Moment::Waiting, "SELECT COUNT(*) FROM a").await;
        let mut target = replica.target().await;
        let under_way = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'DROP TABLE%' AND db \
             = '{}'",
            replica.schema
        );
        until(&mut target, &under_way, |count| count == Some(0)).await;
        let half = TABLES[1].replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS");
        execute(&mut target, &["DROP TABLE IF EXISTS a", &half]).await;
        let error = replica.catch_up().await.expect_err("unclear").to_string();
        assert!(error.contains("DROP TABLE") && error.contains("was executed"), "{error}");
        assert!(
            error.contains(&replica.setup.from.file.to_string()),
            "it names the place: {error}"
        );
    });
}
