//! What only TiDB does to a pipeline: conflicts at commit, its limits, its ways of ending a session.
//!
//! These run where a `tidb-server` is found; see [`has_tidb`].

use std::sync::atomic::{AtomicBool, Ordering};

use dmbench::mysql::{Endpoint, Flavor, Secret, Session};
use dmbench::pipeline::builtin::Sync;

use super::{Replica, execute};
use crate::support::{has_tidb, pair, runtime};

const HOT: &str = "CREATE TABLE hot (id INT PRIMARY KEY, v INT NOT NULL)";

/// Updates five rows in one transaction, again and again, until told to stop.
async fn update_until(stop: &AtomicBool, source: &mut Session) -> u64 {
    let mut changed = 0;
    while !stop.load(Ordering::Relaxed) {
        changed += source.execute("UPDATE hot SET v = v + 1").await.expect("updated");
    }
    changed
}

async fn hot(name: &str) -> (Replica, Session) {
    let mut replica = Replica::new(pair(Flavor::Tidb), name, &[HOT]).await;
    replica.settings = Sync { worker_count: 8, ..replica.settings };
    let mut source = replica.source().await;
    execute(&mut source, &["INSERT INTO hot VALUES (1,0),(2,0),(3,0),(4,0),(5,0)"]).await;
    (replica, source)
}

/// Somebody locks the rows again and again and changes nothing: optimistic transactions that began
/// before fail at their COMMIT with 9007.
#[test]
fn write_conflicts_are_tried_again() {
    if !has_tidb() {
        return;
    }
    runtime().block_on(async {
        let (replica, mut source) = hot("conflict").await;
        replica.catch_up().await.expect("replicated");
        let mut target = replica.target().await;
        let stop = AtomicBool::new(false);
        let mut changed = 0;
        let synced = replica
            .while_running(async {
                let lock = async {
                    for _ in 0..100 {
                        execute(
                            &mut target,
                            &["BEGIN PESSIMISTIC", "SELECT * FROM hot FOR UPDATE", "COMMIT"],
                        )
                        .await;
                    }
                    stop.store(true, Ordering::Relaxed);
                };
                (changed, ()) = tokio::join!(update_until(&stop, &mut source), lock);
            })
            .await
            .expect("replicated");
        replica.assert_equal(&["hot"]).await;
        assert!(synced.retries > 0, "a hundred locks must meet a commit");
        assert_eq!((synced.rows, synced.mismatched), (changed, 0));
    });
}

/// Sessions of the pipeline are killed while they write.
#[test]
fn killed_sessions_come_back() {
    if !has_tidb() {
        return;
    }
    runtime().block_on(async {
        let (mut replica, mut source) = hot("killed").await;
        let (mut root, user) = (replica.target().await, replica.schema.clone());
        let account = format!("CREATE USER {user}@'%' IDENTIFIED BY 'secret'");
        execute(&mut root, &[&account, &format!("GRANT ALL ON *.* TO {user}@'%'")]).await;
        let all = replica.setup.target.clone();
        replica.setup.target =
            Endpoint { user: user.clone(), password: Secret::new("secret"), ..all.clone() };
        let stop = AtomicBool::new(false);
        let (mut changed, mut killed) = (0, 0);
        let synced = replica
            .while_running(async {
                let kill = async {
                    // They come back: eight workers and the checkpoint's, several times over.
                    while killed < 60 {
                        killed += kill_all(&mut root, &user).await;
                    }
                    stop.store(true, Ordering::Relaxed);
                };
                (changed, ()) = tokio::join!(update_until(&stop, &mut source), kill);
            })
            .await
            .expect("replicated");
        replica.setup.target = all;
        replica.assert_equal(&["hot"]).await;
        assert!(synced.retries > 0, "{killed} killed, none while it wrote");
        assert_eq!(synced.rows, changed + 5, "each row is counted once");
        execute(&mut root, &[&format!("DROP USER {user}@'%'")]).await;
    });
}

async fn kill_all(root: &mut Session, user: &str) -> u64 {
    let sql = format!("SELECT id FROM information_schema.processlist WHERE user = '{user}'");
    let mut killed = 0;
    for row in root.rows(&sql).await.expect("processes") {
        let id: u64 = row.get(0).expect("id");
        // It may have ended by itself.
        killed += u64::from(root.execute(&format!("KILL {id}")).await.is_ok());
    }
    killed
}

/// TiDB tells of a duplicate at COMMIT only.
#[test]
fn duplicate_rows_name_the_key() {
    if !has_tidb() {
        return;
    }
    let error = runtime().block_on(async {
        let (replica, _) = hot("duplicate").await;
        execute(&mut replica.target().await, &["INSERT INTO hot VALUES (4, 0)"]).await;
        replica.catch_up().await.expect_err("it must not pass").to_string()
    });
    assert!(error.contains("Duplicate entry '4' for key 'hot.PRIMARY'"), "{error}");
}

#[test]
fn rows_up_to_the_limit_of_an_entry_pass_and_larger_ones_are_told() {
    if !has_tidb() {
        return;
    }
    runtime().block_on(async {
        let table = "CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB)";
        let replica = Replica::new(pair(Flavor::Tidb), "entry", &[table]).await;
        let mut source = replica.source().await;
        execute(&mut source, &["INSERT INTO large VALUES (1, REPEAT('x', 5900000))"]).await;
        replica.catch_up().await.expect("replicated");
        replica.assert_equal(&["large"]).await;
        execute(&mut source, &["INSERT INTO large VALUES (2, REPEAT('x', 7000000))"]).await;
        let error = replica.catch_up().await.expect_err("too large").to_string();
        assert!(error.contains("entry too large") && error.contains("(id = 2)"), "{error}");
        assert!(error.len() < 1_000, "the row itself is not told: {} bytes", error.len());
    });
}
