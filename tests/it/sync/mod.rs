//! The sync unit on real servers of both flavours.

mod crash;
mod ddl_crash;
mod definition;
mod events;
mod keys;
mod knobs;
mod order;
mod recorded;
mod refusal;
mod tidb;
mod types;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dmbench::mysql::{Endpoint, Position, Session, owner};
use dmbench::pipeline::builtin::Sync;
use dmbench::pipeline::builtin::sync::{Error, Setup, Synced, run};
use dmbench::pipeline::{Progress, State, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::support::{Pair, row_text, schema};

/// Far longer than any of these tests takes: only a hang reaches it.
const HANG: Duration = Duration::from_secs(240);

/// A schema on both ends and how to replicate it.
struct Replica {
    setup: Setup,
    settings: Sync,
    schema: String,
}

impl Replica {
    /// Makes the schema on both ends and these tables in it; replication begins behind that.
    async fn new(pair: &Pair, name: &str, tables: &[&str]) -> Replica {
        static SERVER_ID: AtomicU32 = AtomicU32::new(70_001);
        let schema = schema(name);
        for endpoint in [pair.source(), pair.target()] {
            let mut session = Session::connect(endpoint).await.expect("connected");
            owner::recreate(&mut session, &schema, "test").await.expect("made");
            session.execute(&format!("USE `{schema}`")).await.expect("used");
            for table in tables {
                session.execute(table).await.expect("made");
            }
        }
        let from = pair.source_session().await.binlog_position().await.expect("a position");
        let setup = Setup {
            source: pair.source().clone(),
            target: pair.target().clone(),
            schemas: vec![schema.clone()],
            name: name.to_owned(),
            meta_schema: format!("{schema}_meta"),
            run: "test".to_owned(),
            server_id: SERVER_ID.fetch_add(1, Ordering::Relaxed),
            from,
        };
        let checkpoint_flush_interval = Duration::from_millis(200);
        let settings = Sync { worker_count: 4, checkpoint_flush_interval, ..Sync::default() };
        Replica { setup, settings, schema }
    }

    /// A session on the source with the schema in use.
    async fn source(&self) -> Session {
        self.session(&self.setup.source).await
    }

    /// A session on the target with the schema in use.
    async fn target(&self) -> Session {
        self.session(&self.setup.target).await
    }

    async fn session(&self, endpoint: &Endpoint) -> Session {
        let mut session = Session::connect(endpoint).await.expect("connected");
        session.execute(&format!("USE `{}`", self.schema)).await.expect("used");
        session
    }

    /// Where the source's binlog ends now.
    async fn end(&self) -> Position {
        self.source().await.binlog_position().await.expect("a position")
    }

    /// Replicates while `work` writes, from when sync is connected and on until all of it is applied.
    async fn while_running(&self, work: impl Future<Output = ()>) -> Result<Synced, Error> {
        self.beside(async |watched| {
            watched.wait_for(|p| p.state != State::Starting).await.expect("sync becomes ready");
            work.await;
            let end = self.end().await;
            let reached = |p: &Progress| p.applied.as_ref().is_some_and(|a| a.reached(&end));
            watched.wait_for(reached).await.expect("progress goes on");
        })
        .await
    }

    /// Replicates while `work` writes and watches, and on until what was read by its end is applied.
    async fn beside(
        &self,
        work: impl AsyncFnOnce(&mut watch::Receiver<Progress>),
    ) -> Result<Synced, Error> {
        let (progress, mut watched) = watch::channel(Progress::new(Unit::Sync));
        let (drain, cancel) = (CancellationToken::new(), CancellationToken::new());
        let unit = run(
            &self.settings,
            &self.setup,
            std::future::ready(()),
            &progress,
            drain.cancelled(),
            &cancel,
        );
        let working = async {
            work(&mut watched).await;
            drain.cancel();
            std::future::pending::<()>().await;
        };
        tokio::time::timeout(HANG, async {
            tokio::select! {
                synced = unit => synced,
                () = working => unreachable!(),
            }
        })
        .await
        .expect("no hang")
    }

    /// Replicates what was written before.
    async fn catch_up(&self) -> Result<Synced, Error> {
        self.while_running(std::future::ready(())).await
    }

    /// Fails unless the tables hold the same rows, compared by the binary protocol.
    async fn assert_equal(&self, tables: &[&str]) {
        for table in tables {
            let source = rows(&mut self.source().await, table).await;
            let target = rows(&mut self.target().await, table).await;
            assert_eq!(source.len(), target.len(), "rows of {table}");
            for (source, target) in source.iter().zip(&target) {
                assert_eq!(source, target, "a row of {table}");
            }
        }
    }
}

async fn rows(session: &mut Session, table: &str) -> Vec<String> {
    let rows = session.rows_with(&format!("SELECT * FROM {table}"), ()).await.expect("rows");
    let mut rows: Vec<_> = rows.into_iter().map(row_text).collect();
    rows.sort();
    rows
}

async fn execute(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        session.execute(statement).await.expect("the source takes the statement");
    }
}

/// Changes rows at random beside other clients: what a key or a lock refuses changes none.
async fn change(session: &mut Session, statement: &str) -> u64 {
    match session.execute(statement).await {
        Ok(rows) => rows,
        Err(error) => {
            let is_refused = matches!(error.code(), Some(1062 | 1205 | 1213 | 1020));
            assert!(is_refused, "unexpected refusal: {error}");
            0
        }
    }
}
