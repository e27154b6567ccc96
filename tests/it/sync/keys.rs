//! Unique keys over columns that the server computes, and over expressions.

use dmbench::mysql::Flavor;
use dmbench::mysql::binlog::{Event, Layout, RowPair, Stream};
use dmbench::mysql::schema::Table;
use dmbench::mysql::value::Value;
use dmbench::pipeline::builtin::Sync;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::{Replica, change, execute};
use crate::support::{pair, runtime};

const GENERATED: &str = "CREATE TABLE computed (id INT PRIMARY KEY, a INT, b INT, v INT AS (a + 1) \
                         VIRTUAL, s VARCHAR(20) AS (CONCAT('s', b)) STORED, UNIQUE KEY (v), UNIQUE \
                         KEY (s))";

/// The rows of the binlog behind `replica.setup.from`, of its only table.
async fn images(replica: &Replica) -> Vec<RowPair> {
    let setup = &replica.setup;
    let end = replica.end().await;
    let mut stream =
        Stream::open(&setup.source, &setup.from, setup.server_id).await.expect("opened");
    let shape =
        Table::read(&mut replica.source().await, &replica.schema, "computed").await.expect("read");
    let mut images = Vec::new();
    while !stream.position().reached(&end) {
        if let Event::Rows(mut rows) = stream.next().await.expect("an event") {
            // Other tests write to this source too.
            if rows.table().schema != replica.schema {
                continue;
            }
            let layout = Layout::new(rows.table(), &shape).expect("fits");
            while let Some(pair) = rows.next(&layout).expect("a row") {
                images.push(pair);
            }
        }
    }
    images
}

/// Conflicts are found by the values in the row images: both kinds of generated columns must be
/// there, before and after, and be the new ones after an update of what they are computed from.
async fn generated_values_are_in_row_images(flavor: Flavor) {
    let replica = Replica::new(pair(flavor), "images", &[GENERATED]).await;
    execute(
        &mut replica.source().await,
        &[
            "INSERT INTO computed (id, a, b) VALUES (1, 10, 20)",
            "UPDATE computed SET a = 11, b = 21 WHERE id = 1",
            "UPDATE computed SET id = 2",
            "DELETE FROM computed WHERE id = 2",
        ],
    )
    .await;
    let row = |id: i64, a: i64, b: i64| {
        let s = Value::Bytes(format!("s{b}").as_bytes().into());
        vec![Value::Int(id), Value::Int(a), Value::Int(b), Value::Int(a + 1), s]
    };
    assert_eq!(
        images(&replica).await,
        [
            (None, Some(row(1, 10, 20))),
            (Some(row(1, 10, 20)), Some(row(1, 11, 21))),
            (Some(row(1, 11, 21)), Some(row(2, 11, 21))),
            (Some(row(2, 11, 21)), None),
        ]
    );
}

#[test]
fn generated_values_are_in_row_images_on_mysql() {
    runtime().block_on(generated_values_are_in_row_images(Flavor::Mysql));
}

#[test]
fn generated_values_are_in_row_images_on_mariadb() {
    runtime().block_on(generated_values_are_in_row_images(Flavor::Mariadb));
}

/// Rows move on from one unique value to another, so that any that is applied out of order meets a
/// duplicate key. Gives how many rows changed.
async fn moving_values(mut session: dmbench::mysql::Session, client: u64, table: &str) -> u64 {
    let mut rng = SmallRng::seed_from_u64(client);
    let mut changed = 0;
    for _ in 0..150 {
        let mut number = || rng.random_range(1..24);
        let (id, a, b) = (number(), number(), number());
        let statement = match rng.random_range(0..6) {
            0..3 => format!("INSERT INTO {table} (id, a, b) VALUES ({id}, {a}, {b})"),
            3 => format!("UPDATE {table} SET a = {a} WHERE id = {id}"),
            4 => format!("UPDATE {table} SET b = {b}, id = {a} WHERE id = {id}"),
            _ => format!("DELETE FROM {table} WHERE id = {id}"),
        };
        changed += change(&mut session, &statement).await;
    }
    changed
}

async fn unique_keys_over(flavor: Flavor, table: &str) {
    let mut replica = Replica::new(pair(flavor), "computed", &[table]).await;
    replica.settings = Sync { worker_count: 16, batch: 3, ..replica.settings };
    let mut clients = JoinSet::new();
    for client in 0..16 {
        clients.spawn(moving_values(replica.source().await, client, "computed"));
    }
    let changed: u64 = clients.join_all().await.iter().sum();
    let synced = replica.catch_up().await.expect("no row meets a duplicate key");
    replica.assert_equal(&["computed"]).await;
    assert_eq!((synced.rows, synced.mismatched), (changed, 0));
}

#[test]
fn unique_keys_over_generated_columns_on_mysql() {
    runtime().block_on(unique_keys_over(Flavor::Mysql, GENERATED));
}

#[test]
fn unique_keys_over_generated_columns_on_mariadb() {
    runtime().block_on(unique_keys_over(Flavor::Mariadb, GENERATED));
}

#[test]
fn unique_keys_over_expressions_on_mysql() {
    let table = "CREATE TABLE computed (id INT PRIMARY KEY, a INT, b INT, UNIQUE KEY ((a * 2)), \
                 UNIQUE KEY (b, (a + b)))";
    runtime().block_on(unique_keys_over(Flavor::Mysql, table));
}
