//! DM's knobs of sync on real servers.

use std::time::Duration;

use dmbench::mysql::{Flavor, Session};
use dmbench::pipeline::builtin::Sync;
use dmbench::pipeline::{Progress, State};
use tokio::task::JoinSet;

use super::order::{SEVERAL_KEYS, random_history};
use super::{Replica, execute};
use crate::support::{pair, runtime};

const KEYLESS: &str = "CREATE TABLE keyless (a INT, b VARCHAR(10))";

/// Equal rows come and go. Gives how many rows changed.
async fn equal_rows(mut session: Session) -> u64 {
    let mut changed = 0;
    for n in 0..60 {
        for statement in [
            format!("INSERT INTO keyless VALUES ({}, 'x'), ({}, 'x'), (NULL, 'y')", n % 3, n % 3),
            format!("DELETE FROM keyless WHERE a = {} LIMIT 1", n % 3),
            "UPDATE keyless SET b = 'z' WHERE a IS NULL LIMIT 2".to_owned(),
        ] {
            changed += session.execute(&statement).await.expect("taken");
        }
    }
    changed
}

/// A backlog, so that queues are full and rows wait together.
async fn every_combination_ends_equal(flavor: Flavor) {
    let mut replica = Replica::new(pair(flavor), "knobs", &[SEVERAL_KEYS, KEYLESS]).await;
    let mut clients = JoinSet::new();
    for client in 40..44 {
        clients.spawn(random_history(replica.source().await, client, 150));
    }
    clients.spawn(equal_rows(replica.source().await));
    let changed: u64 = clients.join_all().await.iter().sum();
    let name = replica.setup.name.clone();
    for bits in 0..16_u32 {
        let is_set = |bit: u32| bits & (1 << bit) != 0;
        replica.settings = Sync {
            worker_count: 4,
            batch: 10,
            queue_size: 16,
            checkpoint_flush_interval: Duration::from_millis(20),
            compact: is_set(0),
            multiple_rows: is_set(1),
            safe_mode: is_set(2),
            async_checkpoint_flush: is_set(3),
            ..Sync::default()
        };
        replica.setup.name = format!("{name}{bits}");
        execute(&mut replica.target().await, &["DELETE FROM several", "DELETE FROM keyless"]).await;
        let synced = replica.catch_up().await.unwrap_or_else(|e| panic!("{bits:04b}: {e}"));
        replica.assert_equal(&["several", "keyless"]).await;
        assert_eq!(
            (synced.rows, synced.mismatched, synced.repeated),
            (changed, 0, 0),
            "{bits:04b}"
        );
        assert_eq!(synced.compacted > 0, is_set(0), "{bits:04b}");
        if is_set(1) {
            assert!(synced.statements < changed, "{bits:04b}: {} statements", synced.statements);
        } else if !is_set(0) && !is_set(2) {
            assert_eq!(synced.statements, changed);
        }
        assert!(synced.statement.n() >= synced.statements, "those of repeated tries are timed too");
    }
}

#[test]
fn every_combination_ends_equal_on_mysql() {
    runtime().block_on(every_combination_ends_equal(Flavor::Mysql));
}

#[test]
fn every_combination_ends_equal_on_mariadb() {
    runtime().block_on(every_combination_ends_equal(Flavor::Mariadb));
}

/// One row cannot be applied; rows of other workers are while a checkpoint is due.
async fn rows_go_on_while_a_checkpoint_is_due(flavor: Flavor) {
    let table = "CREATE TABLE t (id INT PRIMARY KEY)";
    let mut replica = Replica::new(pair(flavor), "async", &[table]).await;
    replica.settings = Sync {
        async_checkpoint_flush: true,
        checkpoint_flush_interval: Duration::from_millis(5),
        ..replica.settings
    };
    let mut holder = replica.target().await;
    execute(&mut holder, &["BEGIN", "INSERT INTO t VALUES (1)"]).await;
    let synced = replica.beside(async |watched| {
        let mut source = replica.source().await;
        execute(&mut source, &["INSERT INTO t VALUES (1)"]).await;
        watched.wait_for(|p| p.state != State::Starting).await.expect("ready");
        // Many intervals long.
        for id in 2..300 {
            execute(&mut source, &[&format!("INSERT INTO t VALUES ({id})")]).await;
        }
        let end = replica.end().await;
        let seen = watched.wait_for(|p| p.rows >= 150).await.expect("goes on").clone();
        assert_eq!(seen.durable, Some(replica.setup.from.clone()), "the first row is not applied");
        execute(&mut holder, &["ROLLBACK"]).await;
        let is_durable = |p: &Progress| p.durable.as_ref().is_some_and(|d| d.reached(&end));
        watched.wait_for(is_durable).await.expect("a checkpoint is stored without being told to");
    });
    assert_eq!(synced.await.expect("replicated").rows, 299);
    replica.assert_equal(&["t"]).await;
}

#[test]
fn rows_go_on_while_a_checkpoint_is_due_on_mysql() {
    runtime().block_on(rows_go_on_while_a_checkpoint_is_due(Flavor::Mysql));
}

#[test]
fn rows_go_on_while_a_checkpoint_is_due_on_mariadb() {
    runtime().block_on(rows_go_on_while_a_checkpoint_is_due(Flavor::Mariadb));
}

/// With a duration a fresh start begins in safe mode, which a row that is there already shows; the
/// exit point of an orderly end makes the next start plain again; 0s forbids what a crash needs.
async fn safe_mode_lasts_as_long_as_asked(flavor: Flavor) {
    let table = "CREATE TABLE t (id INT PRIMARY KEY, v INT)";
    let mut replica = Replica::new(pair(flavor), "safe", &[table]).await;
    replica.settings.safe_mode_duration = Some(Duration::from_secs(3_600));
    execute(&mut replica.target().await, &["INSERT INTO t VALUES (7, 0)"]).await;
    let mut source = replica.source().await;
    execute(&mut source, &["INSERT INTO t VALUES (7, 1)", "UPDATE t SET v = 2"]).await;
    replica.catch_up().await.expect("REPLACE");
    replica.assert_equal(&["t"]).await;

    replica.settings.safe_mode_duration = Some(Duration::ZERO);
    execute(&mut source, &["INSERT INTO t VALUES (8, 1)"]).await;
    replica.catch_up().await.expect("the exit point is the start");
    execute(&mut replica.target().await, &["DELETE FROM t WHERE id = 8"]).await;
    execute(&mut source, &["DELETE FROM t WHERE id = 8"]).await;
    assert_eq!(replica.catch_up().await.expect("replicated").mismatched, 1, "no safe mode");

    execute(&mut source, &["INSERT INTO t VALUES (9, 1)"]).await;
    let no_exit = format!(
        "UPDATE `{}`.`safe_syncer_checkpoint` SET exit_safe_binlog_name = ''",
        replica.setup.meta_schema
    );
    execute(&mut replica.target().await, &[&no_exit]).await;
    let error = replica.catch_up().await.expect_err("as after a crash").to_string();
    assert!(error.contains("safe-mode-duration"), "{error}");
    replica.settings.safe_mode_duration = None;
    replica.catch_up().await.expect("safe mode as long as needed");
    replica.assert_equal(&["t"]).await;
}

#[test]
fn safe_mode_lasts_as_long_as_asked_on_mysql() {
    runtime().block_on(safe_mode_lasts_as_long_as_asked(Flavor::Mysql));
}

#[test]
fn safe_mode_lasts_as_long_as_asked_on_mariadb() {
    runtime().block_on(safe_mode_lasts_as_long_as_asked(Flavor::Mariadb));
}
