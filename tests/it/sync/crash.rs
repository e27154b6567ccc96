//! Ends at any moment, lost connections, and what resuming makes of them.

use std::time::Duration;

use dmbench::lab::proxy::Proxy;
use dmbench::mysql::{Address, Endpoint, Flavor};
use dmbench::pipeline::builtin::Sync;
use dmbench::pipeline::builtin::sync::{Error, run};
use dmbench::pipeline::{Progress, State, Unit};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::order::{SEVERAL_KEYS, random_history};
use super::{HANG, Replica, execute};
use crate::support::{has_tidb, pair, runtime};

/// Runs until so many rows are applied, then drops everything on the floor.
async fn run_and_drop(replica: &Replica, rows: u64) {
    let (progress, mut watched) = watch::channel(Progress::new(Unit::Sync));
    let cancel = CancellationToken::new();
    let unit = run(
        &replica.settings,
        &replica.setup,
        std::future::ready(()),
        &progress,
        std::future::pending(),
        &cancel,
    );
    let enough = watched.wait_for(|p| p.rows >= rows || p.state == State::CaughtUp);
    tokio::select! {
        ended = unit => panic!("ended by itself: {ended:?}"),
        _ = tokio::time::timeout(HANG, enough) => {}
    }
}

async fn resumes_after_any_end(flavor: Flavor, knobs: bool) {
    let mut replica = Replica::new(pair(flavor), "resume", &[SEVERAL_KEYS]).await;
    replica.settings = Sync {
        worker_count: 8,
        batch: 7,
        queue_size: 50,
        async_checkpoint_flush: knobs,
        compact: knobs,
        multiple_rows: knobs,
        ..replica.settings
    };
    let changed: u64 = {
        let mut clients = tokio::task::JoinSet::new();
        for client in 10..14 {
            clients.spawn(random_history(replica.source().await, client, 500));
        }
        clients.join_all().await.iter().sum()
    };
    let mut rng = SmallRng::seed_from_u64(7);
    for _ in 0..6 {
        run_and_drop(&replica, rng.random_range(1..changed / 5)).await;
    }
    replica.catch_up().await.expect("replicated");
    replica.assert_equal(&["several"]).await;

    // After an orderly end nothing is executed twice: plain inserts again, and every row is found.
    let mut source = replica.source().await;
    execute(&mut source, &["DELETE FROM several", "INSERT INTO several VALUES (1, 1, 'z', 1)"])
        .await;
    let synced = replica.catch_up().await.expect("replicated");
    assert_eq!(synced.mismatched, 0);
    replica.assert_equal(&["several"]).await;
    let again = replica.catch_up().await.expect("replicated");
    assert_eq!(again.rows, 0, "nothing is left");
}

#[test]
fn resumes_after_any_end_on_mysql() {
    runtime().block_on(resumes_after_any_end(Flavor::Mysql, false));
}

#[test]
fn resumes_with_all_knobs_on_mysql() {
    runtime().block_on(resumes_after_any_end(Flavor::Mysql, true));
}

#[test]
fn resumes_with_all_knobs_on_mariadb() {
    runtime().block_on(resumes_after_any_end(Flavor::Mariadb, true));
}

#[test]
fn resumes_after_any_end_on_mariadb() {
    runtime().block_on(resumes_after_any_end(Flavor::Mariadb, false));
}

#[test]
fn resumes_after_any_end_on_tidb() {
    if has_tidb() {
        runtime().block_on(resumes_after_any_end(Flavor::Tidb, false));
    }
}

fn through(proxy: &Proxy, endpoint: &Endpoint) -> Endpoint {
    let (host, port) = (proxy.address().ip().to_string(), proxy.address().port());
    Endpoint { address: Address::Tcp { host, port }, ..endpoint.clone() }
}

fn proxy_to(endpoint: &Endpoint) -> Proxy {
    let Address::Tcp { host, port } = &endpoint.address else { panic!("sandbox servers use TCP") };
    Proxy::start(format!("{host}:{port}").parse().expect("an address")).expect("started")
}

async fn lost_connections_are_repaired(flavor: Flavor) {
    let mut replica = Replica::new(pair(flavor), "lost", &[SEVERAL_KEYS]).await;
    replica.settings = Sync { worker_count: 4, batch: 5, ..replica.settings };
    let direct = replica.setup.clone();
    let proxies = [proxy_to(&direct.source), proxy_to(&direct.target)];
    replica.setup.source = through(&proxies[0], &direct.source);
    replica.setup.target = through(&proxies[1], &direct.target);
    let source = direct.source.clone();
    let mut changed = 0;
    let synced = replica
        .while_running(async {
            for round in 0..8 {
                let session = replica.session(&source).await;
                changed += random_history(session, 20 + round, 120).await;
                proxies[round as usize % 2].cut();
            }
        })
        .await
        .expect("replicated");
    replica.setup = direct;
    replica.assert_equal(&["several"]).await;
    assert_eq!(synced.rows, changed, "each row is counted once");
}

#[test]
fn lost_connections_are_repaired_on_mysql() {
    runtime().block_on(lost_connections_are_repaired(Flavor::Mysql));
}

#[test]
fn lost_connections_are_repaired_on_mariadb() {
    runtime().block_on(lost_connections_are_repaired(Flavor::Mariadb));
}

#[test]
fn lost_connections_are_repaired_on_tidb() {
    if has_tidb() {
        runtime().block_on(lost_connections_are_repaired(Flavor::Tidb));
    }
}

async fn held_until_released(flavor: Flavor) {
    let table = "CREATE TABLE t (id INT PRIMARY KEY)";
    let replica = Replica::new(pair(flavor), "held", &[table]).await;
    execute(&mut replica.source().await, &["INSERT INTO t VALUES (1), (2)"]).await;
    let (progress, mut watched) = watch::channel(Progress::new(Unit::Sync));
    let (released, cancel) = (CancellationToken::new(), CancellationToken::new());
    let unit = run(
        &replica.settings,
        &replica.setup,
        released.cancelled(),
        &progress,
        std::future::pending(),
        &cancel,
    );
    let watching = async {
        let held = watched.wait_for(|p| p.state == State::Held).await.expect("held").clone();
        assert_eq!(held.applied.as_ref(), Some(&replica.setup.from));
        assert_eq!(super::rows(&mut replica.target().await, "t").await.len(), 0);
        released.cancel();
        let caught_up = watched.wait_for(|p| p.state == State::CaughtUp).await.expect("caught up");
        assert_eq!(caught_up.rows, 2);
        assert_eq!(caught_up.stages.len(), 4);
        drop(caught_up);
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    let ended = tokio::time::timeout(HANG, async {
        tokio::select! { ended = unit => ended, () = watching => unreachable!() }
    });
    assert!(matches!(ended.await.expect("no hang"), Err(Error::Cancelled)));
    assert_eq!(watched.borrow().state, State::Failed);
    replica.assert_equal(&["t"]).await;
}

#[test]
fn held_until_released_on_mysql() {
    runtime().block_on(held_until_released(Flavor::Mysql));
}

#[test]
fn held_until_released_on_mariadb() {
    runtime().block_on(held_until_released(Flavor::Mariadb));
}

#[test]
fn held_until_released_on_tidb() {
    if has_tidb() {
        runtime().block_on(held_until_released(Flavor::Tidb));
    }
}

/// The checkpoint follows the source while nothing but passing events happens, and applied follows
/// at once.
async fn applied_does_not_wait_for_the_checkpoint(flavor: Flavor) {
    let table = "CREATE TABLE t (id INT PRIMARY KEY)";
    let mut replica = Replica::new(pair(flavor), "applied", &[table]).await;
    replica.settings.checkpoint_flush_interval = Duration::from_secs(3_600);
    let from = replica.setup.from.clone();
    let synced = replica.beside(async |watched| {
        execute(&mut replica.source().await, &["INSERT INTO t VALUES (1)"]).await;
        let end = replica.end().await;
        let seen = watched.wait_for(|p| p.applied.as_ref().is_some_and(|a| a.reached(&end))).await;
        assert_eq!(seen.expect("goes on").durable.as_ref(), Some(&from));
    });
    let synced = synced.await.expect("replicated");
    let sql = format!(
        "SELECT CONCAT(binlog_name, ':', binlog_pos) FROM `{}`.`applied_syncer_checkpoint` WHERE id = \
         'dmbench' AND is_global = 1 AND exit_safe_binlog_pos = binlog_pos",
        replica.setup.meta_schema
    );
    let saved: Option<String> = replica.target().await.value(&sql).await.expect("read");
    assert_eq!(saved, Some(synced.position.to_string()));
}

#[test]
fn applied_does_not_wait_for_the_checkpoint_on_mysql() {
    runtime().block_on(applied_does_not_wait_for_the_checkpoint(Flavor::Mysql));
}

#[test]
fn applied_does_not_wait_for_the_checkpoint_on_mariadb() {
    runtime().block_on(applied_does_not_wait_for_the_checkpoint(Flavor::Mariadb));
}

#[test]
fn applied_does_not_wait_for_the_checkpoint_on_tidb() {
    if has_tidb() {
        runtime().block_on(applied_does_not_wait_for_the_checkpoint(Flavor::Tidb));
    }
}
