//! Dump and sync together: what is committed while the dump starts arrives once, and a process
//! that is killed goes on where its checkpoint is.

use std::time::Duration;

use dmbench::mysql::{Endpoint, Position, Session, owner};
use dmbench::pipeline::builtin::{self, Load, Sync};
use dmbench::pipeline::{AnyPipeline, How, Progress, Settings, Start, State};
use rand::{Rng, RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{SOURCES, alone, content, context, load_from, locks, small};
use crate::support::{Pair, schema};

/// Only to keep a failing test from hanging.
const HANG: Duration = Duration::from_secs(120);

/// Two tables that every transaction of [`Writers`] changes together: counters with few, hot keys,
/// and a log that has no key, so that a transaction applied twice or never leaves its mark.
async fn make(source: &mut Session, schema: &str, log_key: &str) {
    owner::recreate(source, schema, "test").await.expect("schema");
    for sql in [
        format!(
            "CREATE TABLE {schema}.counter (id INT PRIMARY KEY, n BIGINT, u INT, UNIQUE KEY (u))"
        ),
        format!("CREATE TABLE {schema}.log (w INT NOT NULL, n BIGINT NOT NULL{log_key})"),
        format!("INSERT INTO {schema}.counter VALUES (0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3)"),
    ] {
        source.execute(&sql).await.expect("made");
    }
}

/// Clients that commit without a pause until they are stopped.
struct Writers {
    jobs: JoinSet<u64>,
    stop: CancellationToken,
    committed: watch::Receiver<u64>,
}

impl Writers {
    fn start(source: &Endpoint, schema: &str) -> Writers {
        let (stop, mut jobs) = (CancellationToken::new(), JoinSet::new());
        let (counted, committed) = watch::channel(0);
        for writer in 0..4 {
            let (source, schema) = (source.clone(), schema.to_owned());
            let (stop, counted) = (stop.clone(), counted.clone());
            jobs.spawn(async move {
                let mut session = Session::connect(&source).await.expect("connected");
                let mut n = 0;
                while !stop.is_cancelled() {
                    n += 1;
                    for sql in [
                        "BEGIN".to_owned(),
                        format!("UPDATE {schema}.counter SET n = n + 1 WHERE id = {writer}"),
                        format!("INSERT INTO {schema}.log VALUES ({writer}, {n})"),
                        // The same row again, with a new unique value.
                        format!("UPDATE {schema}.counter SET u = u + 10 WHERE id = {writer}"),
                        "COMMIT".to_owned(),
                    ] {
                        session.execute(&sql).await.expect("written");
                    }
                    counted.send_modify(|count| *count += 1);
                }
                n
            });
        }
        Writers { jobs, stop, committed }
    }

    /// Waits until this many more transactions are committed.
    async fn commit(&mut self, more: u64) {
        let goal = *self.committed.borrow() + more;
        let reached = self.committed.wait_for(|&count| count >= goal);
        tokio::time::timeout(HANG, reached).await.expect("in time").expect("writers live");
    }

    async fn stop(self) -> u64 {
        self.stop.cancel();
        self.jobs.join_all().await.into_iter().sum()
    }
}

fn settings() -> Settings {
    let sync = Sync {
        worker_count: 8,
        batch: 10,
        checkpoint_flush_interval: Duration::from_millis(100),
        ..Sync::default()
    };
    Settings::Builtin(builtin::Settings { dump: small(), load: Load { pool_size: 4 }, sync })
}

async fn wait_for(progress: &mut watch::Receiver<Progress>, what: impl Fn(&Progress) -> bool) {
    let reached = progress.wait_for(|p| what(p) || p.state == State::Failed);
    let reached = tokio::time::timeout(HANG, reached).await.expect("in time").expect("alive");
    assert_ne!(reached.state, State::Failed, "{:?}", reached.error);
}

/// Waits until everything on the source is applied, drains, and compares.
async fn finish_equal(pair: &Pair, schema: &str, pipeline: &mut AnyPipeline, committed: u64) {
    let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
    let end = source.binlog_position().await.expect("position");
    let mut progress = pipeline.progress();
    wait_for(&mut progress, |p| p.applied.as_ref().is_some_and(|at| at.reached(&end))).await;
    pipeline.stop(How::Drain).await.expect("drained");
    let log = content(&mut source, &format!("{schema}.log")).await;
    assert_eq!(log.len() as u64, committed, "the source has what was committed");
    for table in ["counter", "log"] {
        let table = format!("{schema}.{table}");
        let (there, here) =
            (content(&mut source, &table).await, content(&mut target, &table).await);
        assert!(here == there, "{table}: {} rows here, {} there", here.len(), there.len());
    }
    owner::drop_if_ours(&mut source, schema).await.expect("dropped");
    for schema in [schema.to_owned(), format!("{schema}_meta")] {
        owner::drop_if_ours(&mut target, &schema).await.expect("dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_committed_while_the_dump_starts_arrives_once() {
    for flavor in SOURCES {
        for global in ["RELOAD, ", ""] {
            let pair = &*alone(flavor).await;
            let schema = schema("during");
            make(&mut pair.source_session().await, &schema, "").await;
            let user = format!("{schema}_u");
            let replication = locks::replication_client(flavor);
            let privileges = format!("{global}{replication}");
            let account = locks::account(pair, &user, &schema, &privileges).await;
            let folder = tempfile::tempdir().expect("folder");
            let mut writers = Writers::start(pair.source(), &schema);
            writers.commit(20).await;
            let dumped = locks::dump_as(&account, &schema, folder.path()).await.expect("dumped");
            writers.commit(20).await;
            load_from(pair.target(), folder.path()).await;
            assert_one_point(&mut pair.target_session().await, &schema).await;
            let committed = writers.stop().await;
            let mut pipeline = AnyPipeline::new(&settings(), context(pair, &schema, folder.path()));
            let start = Start::Incremental { from: dumped.position };
            pipeline.start(start, false, &CancellationToken::new()).await.expect("started");
            finish_equal(pair, &schema, &mut pipeline, committed).await;
            let sql = format!("DROP USER '{user}'@'127.0.0.1'");
            pair.source_session().await.execute(&sql).await.expect("dropped");
        }
    }
}

/// The tables were read by several connections, and are of one moment all the same.
async fn assert_one_point(target: &mut Session, schema: &str) {
    let sql = format!(
        "SELECT CAST(SUM(n) AS SIGNED) - (SELECT COUNT(*) FROM {schema}.log) FROM {schema}.counter"
    );
    assert_eq!(target.value::<i64>(&sql).await.expect("answer"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_units_one_after_the_other_under_writes() {
    for flavor in SOURCES {
        let pair = &*alone(flavor).await;
        let schema = schema("all");
        make(&mut pair.source_session().await, &schema, "").await;
        let folder = tempfile::tempdir().expect("folder");
        // The second round finds the checkpoint of the first, which knows nothing of its dump.
        for round in 0..2 {
            let mut writers = Writers::start(pair.source(), &schema);
            writers.commit(10).await;
            let mut pipeline = AnyPipeline::new(&settings(), context(pair, &schema, folder.path()));
            pipeline.start(Start::All, true, &CancellationToken::new()).await.expect("started");
            let mut progress = pipeline.progress();
            wait_for(&mut progress, |p| p.state == State::Held).await;
            pipeline.release().await.expect("released");
            wait_for(&mut progress, |p| p.durable.is_some()).await;
            writers.commit(10).await;
            let committed = writers.stop().await;
            if round == 0 {
                pipeline.stop(How::Now).await.expect("stopped");
                let mut source = pair.source_session().await;
                let sql = format!("TRUNCATE TABLE {schema}.log");
                source.execute(&sql).await.expect("emptied");
            } else {
                finish_equal(pair, &schema, &mut pipeline, committed).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_at_random_moments_goes_on_and_ends_equal() {
    for flavor in SOURCES {
        let seed = rand::rng().next_u64();
        eprintln_seed(seed);
        let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
        let pair = &*alone(flavor).await;
        let schema = schema("killed");
        let mut source = pair.source_session().await;
        make(&mut source, &schema, ", PRIMARY KEY (w, n)").await;
        let folder = tempfile::tempdir().expect("folder");
        let dumped = super::dump_to(pair.source(), std::slice::from_ref(&schema), folder.path());
        let from: Position = dumped.await.position;
        load_from(pair.target(), folder.path()).await;
        let mut writers = Writers::start(pair.source(), &schema);
        let mut pipeline = AnyPipeline::new(&settings(), context(pair, &schema, folder.path()));
        let start = Start::Incremental { from };
        for _ in 0..6 {
            pipeline.start(start.clone(), false, &CancellationToken::new()).await.expect("started");
            let rows = random.random_range(0..200);
            wait_for(&mut pipeline.progress(), |p| p.rows >= rows).await;
            let id = pipeline.process_id().and_then(|id| i32::try_from(id).ok());
            let id = id.and_then(rustix::process::Pid::from_raw).expect("a process id");
            rustix::process::kill_process(id, rustix::process::Signal::KILL).expect("killed");
            pipeline.stop(How::Drain).await.expect_err("it died");
        }
        writers.commit(10).await;
        let committed = writers.stop().await;
        pipeline.start(start, false, &CancellationToken::new()).await.expect("started");
        finish_equal(pair, &schema, &mut pipeline, committed).await;
    }
}

/// Shown by the test runner when the test fails.
#[expect(clippy::print_stderr, reason = "a failure must name its seed")]
fn eprintln_seed(seed: u64) {
    eprintln!("seed {seed}");
}
