//! Rows that share keys keep their order, whatever the number of workers.

use dmbench::mysql::{Flavor, Session};
use dmbench::pipeline::builtin::Sync;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::{Replica, change, execute};
use crate::support::{has_tidb, pair, runtime};

/// Updates of few rows by several clients. Gives how many rows the source says it changed.
async fn hot_keys(mut session: Session, client: u64) -> u64 {
    let mut rng = SmallRng::seed_from_u64(client);
    let mut changed = 0;
    for _ in 0..80 {
        session.execute("BEGIN").await.expect("begun");
        let mut keys = [rng.random_range(1..6), rng.random_range(1..6)];
        keys.sort_unstable();
        let mut in_transaction = 0;
        for key in keys {
            let update = format!("UPDATE hot SET v = v + 1, c = '{client}' WHERE id = {key}");
            in_transaction += session.execute(&update).await.expect("updated");
        }
        session.execute("COMMIT").await.expect("committed");
        changed += in_transaction;
    }
    changed
}

async fn hot_key_updates_at_16_workers(flavor: Flavor) {
    let table = "CREATE TABLE hot (id INT PRIMARY KEY, v INT NOT NULL, c VARCHAR(20))";
    let mut replica = Replica::new(pair(flavor), "hot", &[table]).await;
    replica.settings = Sync { worker_count: 16, ..replica.settings };
    let mut changed = 0;
    let synced = replica
        .while_running(async {
            let mut source = replica.source().await;
            execute(&mut source, &["INSERT INTO hot (id, v) VALUES (1,0),(2,0),(3,0),(4,0),(5,0)"])
                .await;
            let mut clients = JoinSet::new();
            for client in 0..8 {
                clients.spawn(hot_keys(replica.source().await, client));
            }
            changed = clients.join_all().await.iter().sum();
        })
        .await
        .expect("replicated");
    replica.assert_equal(&["hot"]).await;
    assert_eq!(synced.rows, changed + 5, "applied rows are committed rows");
    assert_eq!(synced.mismatched, 0);
}

#[test]
fn hot_key_updates_at_16_workers_on_mysql() {
    runtime().block_on(hot_key_updates_at_16_workers(Flavor::Mysql));
}

#[test]
fn hot_key_updates_at_16_workers_on_mariadb() {
    runtime().block_on(hot_key_updates_at_16_workers(Flavor::Mariadb));
}

#[test]
fn hot_key_updates_at_16_workers_on_tidb() {
    if has_tidb() {
        runtime().block_on(hot_key_updates_at_16_workers(Flavor::Tidb));
    }
}

pub const SEVERAL_KEYS: &str = "CREATE TABLE several (id INT PRIMARY KEY, u INT, name VARCHAR(20) COLLATE utf8mb4_general_ci, v \
     INT, UNIQUE KEY (u), UNIQUE KEY (name))";

/// Random writes with many collisions; those that the source refuses are no part of the history.
/// Gives how many rows the source says it changed.
pub async fn random_history(mut session: Session, client: u64, length: u32) -> u64 {
    const NAMES: [&str; 8] = ["'a'", "'B'", "'b '", "'c'", "'ab'", "NULL", "'d'", "'E'"];
    let mut rng = SmallRng::seed_from_u64(client);
    let mut changed = 0;
    for _ in 0..length {
        let (id, u) = (rng.random_range(1..12), rng.random_range(1..12));
        let name = NAMES[rng.random_range(0..NAMES.len())];
        let statement = match rng.random_range(0..8) {
            0..3 => format!("INSERT INTO several VALUES ({id}, {u}, {name}, {client})"),
            3 => format!("UPDATE several SET u = {u}, v = v + 1 WHERE id = {id}"),
            4 => format!("UPDATE several SET name = {name} WHERE id = {id}"),
            5 => format!("UPDATE several SET id = {u} WHERE id = {id}"),
            _ => format!("DELETE FROM several WHERE id = {id}"),
        };
        changed += change(&mut session, &statement).await;
    }
    changed
}

async fn several_unique_keys(flavor: Flavor) {
    let mut replica = Replica::new(pair(flavor), "several", &[SEVERAL_KEYS]).await;
    replica.settings = Sync { worker_count: 8, batch: 10, ..replica.settings };
    let mut changed = 0;
    let synced = replica
        .while_running(async {
            let mut clients = JoinSet::new();
            for client in 0..4 {
                clients.spawn(random_history(replica.source().await, client, 400));
            }
            changed = clients.join_all().await.iter().sum();
        })
        .await
        .expect("replicated");
    replica.assert_equal(&["several"]).await;
    assert_eq!(synced.rows, changed, "applied rows are committed rows");
    assert_eq!(synced.mismatched, 0);
    assert!(synced.conflicts > 0, "this history must have conflicts");
}

#[test]
fn several_unique_keys_on_mysql() {
    runtime().block_on(several_unique_keys(Flavor::Mysql));
}

#[test]
fn several_unique_keys_on_mariadb() {
    runtime().block_on(several_unique_keys(Flavor::Mariadb));
}

#[test]
fn several_unique_keys_on_tidb() {
    if has_tidb() {
        runtime().block_on(several_unique_keys(Flavor::Tidb));
    }
}

/// One transaction larger than all queues together.
async fn a_large_transaction(flavor: Flavor) {
    let table = "CREATE TABLE large (id INT PRIMARY KEY AUTO_INCREMENT, c VARCHAR(60))";
    let mut replica = Replica::new(pair(flavor), "large", &[table]).await;
    replica.settings = Sync { worker_count: 4, queue_size: 64, batch: 500, ..replica.settings };
    let mut source = replica.source().await;
    execute(&mut source, &["BEGIN", "INSERT INTO large (c) VALUES ('0123456789')"]).await;
    let mut rows = 1;
    while rows < 200_000 {
        let more = rows.min(200_000 - rows);
        let double = format!("INSERT INTO large (c) SELECT c FROM large LIMIT {more}");
        execute(&mut source, &[&double]).await;
        rows += more;
    }
    execute(&mut source, &["COMMIT"]).await;
    let synced = replica.catch_up().await.expect("replicated");
    assert_eq!((synced.rows, synced.source_transactions), (200_000, 1));
    assert!(synced.transactions >= 400, "it is cut into batches");
    replica.assert_equal(&["(SELECT COUNT(*), SUM(id), MAX(c) FROM large) AS sums"]).await;
}

#[test]
fn a_large_transaction_on_mysql() {
    runtime().block_on(a_large_transaction(Flavor::Mysql));
}

#[test]
fn a_large_transaction_on_mariadb() {
    runtime().block_on(a_large_transaction(Flavor::Mariadb));
}

#[test]
fn a_large_transaction_on_tidb() {
    if has_tidb() {
        runtime().block_on(a_large_transaction(Flavor::Tidb));
    }
}
