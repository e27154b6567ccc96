//! The load generator against real servers: what it says it changed is what the binlog holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dmbench::event::Events;
use dmbench::mysql::{Endpoint, Flavor, Position, Secret, Session};
use dmbench::workload::{
    self, Counters, DrivePlan, Driven, PaceKind, PaceSettings, RandType, Script, Settings, Stop,
    Sysbench,
};
use tokio_util::sync::CancellationToken;

use crate::support;

const BOTH: [Flavor; 2] = [Flavor::Mysql, Flavor::Mariadb];
const SEED: u64 = 42;

fn sysbench(script: Script, tables: u32, table_size: u64, rand_type: RandType) -> Settings {
    Settings::Sysbench(Sysbench { script, tables, table_size, rand_type })
}

fn plan(settings: &Settings, schema: &str, clients: u32, ops: u64) -> DrivePlan {
    DrivePlan {
        settings: settings.clone(),
        pace: PaceSettings { kind: PaceKind::Closed, rate: None, clients },
        schema: schema.to_owned(),
        seed: SEED,
        stop: Stop { time: None, ops: Some(ops) },
        warm: Duration::ZERO,
    }
}

async fn prepare(settings: &Settings, endpoint: &Endpoint, schema: &str, clients: u32) -> u64 {
    let (events, cancel) = (Events::none(), CancellationToken::new());
    workload::prepare(settings, endpoint, schema, "test", SEED, clients, &events, &cancel)
        .await
        .unwrap_or_else(|e| panic!("failed to {e}"))
        .rows
}

async fn drive(plan: &DrivePlan, endpoint: &Endpoint) -> Driven {
    let counters = Arc::new(Counters::default());
    let driven =
        workload::drive(plan, endpoint, &counters, &Events::none(), &CancellationToken::new())
            .await
            .unwrap_or_else(|e| panic!("failed to {e}"));
    assert_eq!(counters.committed(), driven.committed_ops);
    driven
}

/// Per table: rows, and sums that change with any column of any row.
async fn contents(session: &mut Session, schema: &str, tables: u32) -> Vec<(u64, u64, u64)> {
    let mut all = Vec::new();
    for table in 1..=tables {
        let sql = format!(
            "SELECT COUNT(*), CAST(COALESCE(SUM(CRC32(CONCAT_WS('|', id, k, c, pad))), 0) AS \
             UNSIGNED), CAST(COALESCE(SUM(CRC32(CONCAT_WS('/', pad, c, k, id))), 0) AS UNSIGNED) \
             FROM `{schema}`.sbtest{table}"
        );
        let row = session.rows(&sql).await.expect("sums").remove(0);
        all.push((0..3).map(|i| row.get(i).expect("number")).collect::<Vec<u64>>());
    }
    all.into_iter().map(|sums| (sums[0], sums[1], sums[2])).collect()
}

/// Committed row changes of a schema since a position, by kind, as the binlog tells: every statement
/// of these workloads changes one row and so makes one rows event.
async fn changes(session: &mut Session, from: &Position, schema: &str) -> BTreeMap<String, u64> {
    let files: Vec<String> = session
        .rows("SHOW BINARY LOGS")
        .await
        .expect("logs")
        .into_iter()
        .map(|row| row.get::<String, _>(0).expect("name"))
        .filter(|file| Position::new(file, 4).expect("position").file.index() >= from.file.index())
        .collect();
    let (mut counts, mut ours) = (BTreeMap::new(), false);
    for file in files {
        let start = if file == from.file.to_string() { from.offset } else { 4 };
        for row in support::binlog_events(session, &file, start).await {
            let kind: String = row.get("Event_type").expect("type");
            let text: String = row.get("Info").expect("text");
            if kind == "Table_map" {
                ours = text.contains(&format!("({schema}."));
            } else if let (true, Some((verb, _))) = (ours, kind.split_once("_rows"))
                && verb != "Annotate"
            {
                *counts.entry(verb.to_lowercase()).or_default() += 1;
            }
        }
    }
    counts
}

fn counted(inserted: u64, updated: u64, deleted: u64) -> BTreeMap<String, u64> {
    [("write", inserted), ("update", updated), ("delete", deleted)]
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(verb, n)| (verb.to_owned(), n))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_rows_are_the_same_however_many_clients() {
    for flavor in BOTH {
        let pair = support::pair(flavor);
        let mut session = pair.source_session().await;
        let settings = sysbench(Script::OltpInsert, 3, 6_001, RandType::Zipfian);
        let mut all = Vec::new();
        for clients in [1, 8] {
            let schema = support::schema("prepare");
            assert_eq!(prepare(&settings, pair.source(), &schema, clients).await, 3 * 6_001);
            all.push(contents(&mut session, &schema, 3).await);
            let indexes: Option<u64> = session
                .value(&format!(
                    "SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = \
                     '{schema}' AND index_name LIKE 'k\\_%' AND column_name = 'k'"
                ))
                .await
                .expect("indexes");
            assert_eq!(indexes, Some(3));
            let shape: Option<u64> = session
                .value(&format!(
                    "SELECT COUNT(*) FROM `{schema}`.sbtest2 WHERE LENGTH(c) <> 119 OR \
                     LENGTH(pad) <> 59 OR k NOT BETWEEN 1 AND 6001 OR id NOT BETWEEN 1 AND 6001"
                ))
                .await
                .expect("shape");
            assert_eq!(shape, Some(0));
            workload::cleanup(pair.source(), &schema).await.expect("cleanup");
            assert!(!session.has_schema(&schema).await.expect("schemata"));
        }
        assert!(all[0].iter().all(|(rows, ..)| *rows == 6_001));
        assert_eq!(all[0], all[1], "{flavor}");
        assert_ne!(all[0][0], all[0][1], "tables differ among themselves");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effects_are_what_the_binlog_holds() {
    for flavor in BOTH {
        let pair = support::pair(flavor);
        let mut session = pair.source_session().await;
        for (script, ops, (inserted, updated, deleted)) in [
            (Script::OltpInsert, 2_000, (2_000, 0, 0)),
            (Script::OltpUpdateIndex, 2_000, (0, 2_000, 0)),
            (Script::OltpWriteOnly, 500, (500, 1_000, 500)),
            (Script::OltpPointSelect, 2_000, (0, 0, 0)),
        ] {
            let schema = support::schema("effects");
            let settings = sysbench(script, 4, 5_000, RandType::Uniform);
            prepare(&settings, pair.source(), &schema, 4).await;
            let from = session.binlog_position().await.expect("position");
            let driven = drive(&plan(&settings, &schema, 16, ops), pair.source()).await;
            assert_eq!((driven.committed_ops, driven.odd_ops), (ops, 0), "{flavor} {script:?}");
            let effect = driven.effect;
            assert_eq!(
                (effect.inserted, effect.updated, effect.deleted),
                (inserted, updated, deleted),
                "{flavor} {script:?}"
            );
            assert_eq!(effect.read, if script == Script::OltpPointSelect { ops } else { 0 });
            assert_eq!(
                changes(&mut session, &from, &schema).await,
                counted(inserted, updated, deleted),
                "{flavor} {script:?}"
            );
            let rows: u64 =
                contents(&mut session, &schema, 4).await.iter().map(|(rows, ..)| rows).sum();
            assert_eq!(rows, 20_000 + inserted - deleted);
            workload::cleanup(pair.source(), &schema).await.expect("cleanup");
        }
    }
}

/// `oltp_write_only` is left out: which of two ops is the last to write a row depends on their
/// order. That it *offers* the same ops is a unit test.
#[tokio::test(flavor = "multi_thread")]
async fn one_client_and_sixteen_leave_the_same_rows() {
    for flavor in BOTH {
        let pair = support::pair(flavor);
        let mut session = pair.source_session().await;
        for script in [Script::OltpInsert, Script::OltpUpdateIndex] {
            let settings = sysbench(script, 3, 500, RandType::Zipfian);
            let mut all = Vec::new();
            for clients in [1, 16] {
                let schema = support::schema("clients");
                prepare(&settings, pair.source(), &schema, 4).await;
                drive(&plan(&settings, &schema, clients, 1_000), pair.source()).await;
                all.push(contents(&mut session, &schema, 3).await);
                workload::cleanup(pair.source(), &schema).await.expect("cleanup");
            }
            assert_eq!(all[0], all[1], "{flavor} {script:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_keys_with_sixteen_clients_lose_no_op() {
    for flavor in BOTH {
        let pair = support::pair(flavor);
        let mut session = pair.source_session().await;
        let schema = support::schema("hot");
        let settings = sysbench(Script::OltpWriteOnly, 1, 20, RandType::Zipfian);
        prepare(&settings, pair.source(), &schema, 1).await;
        let from = session.binlog_position().await.expect("position");
        let driven = drive(&plan(&settings, &schema, 16, 1_000), pair.source()).await;
        assert_eq!((driven.offered_ops, driven.committed_ops), (1_000, 1_000), "{flavor}");
        assert_eq!((driven.failed_ops(), driven.unknown_ops, driven.odd_ops), (0, 0, 0));
        assert_eq!(driven.effect.row_changes(), 4_000);
        assert_eq!(changes(&mut session, &from, &schema).await, counted(1_000, 2_000, 1_000));
        assert!(driven.retried.keys().all(|code| [1205, 1213].contains(code)));
        let rows = contents(&mut session, &schema, 1).await[0].0;
        assert_eq!(rows, 20, "{flavor}");
        workload::cleanup(pair.source(), &schema).await.expect("cleanup");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_drive_goes_on_where_the_first_ended() {
    let pair = support::pair(Flavor::Mysql);
    let schema = support::schema("again");
    let settings = sysbench(Script::OltpInsert, 3, 100, RandType::Uniform);
    prepare(&settings, pair.source(), &schema, 2).await;
    for ops in [100, 50] {
        let driven = drive(&plan(&settings, &schema, 4, ops), pair.source()).await;
        assert_eq!(driven.effect.inserted, ops);
    }
    let larger = sysbench(Script::OltpInsert, 3, 100_000, RandType::Uniform);
    let plan = plan(&larger, &schema, 4, 10);
    let (counters, events, cancel) = (Arc::default(), Events::none(), CancellationToken::new());
    let refused = workload::drive(&plan, pair.source(), &counters, &events, &cancel).await;
    let error = refused.expect_err("the tables are smaller").to_string();
    assert!(error.contains("100000 rows"), "{error}");
    workload::cleanup(pair.source(), &schema).await.expect("cleanup");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_commits_what_is_due() {
    for flavor in BOTH {
        let pair = support::pair(flavor);
        let schema = support::schema("open");
        let settings = sysbench(Script::OltpInsert, 2, 100, RandType::Uniform);
        prepare(&settings, pair.source(), &schema, 2).await;
        let mut plan = plan(&settings, &schema, 8, 0);
        plan.pace.kind = PaceKind::Uniform;
        plan.pace.rate = Some(200.0);
        plan.warm = Duration::from_millis(500);
        plan.stop = Stop { time: Some(Duration::from_secs(1)), ops: None };
        let driven = drive(&plan, pair.source()).await;
        assert_eq!((driven.offered_ops, driven.window_offered), (300, 200));
        assert_eq!(driven.window, Duration::from_secs(1));
        assert_eq!(driven.committed_ops + driven.abandoned_ops, 300);
        assert_eq!(driven.response.n(), 200);
        assert_eq!(driven.effect.inserted, driven.committed_ops);
        workload::cleanup(pair.source(), &schema).await.expect("cleanup");
    }
}

/// Connections are killed while ops run: every op still has a known end, and what is counted as
/// committed is in the binlog exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_lose_and_double_nothing() {
    for flavor in BOTH {
        let pair = support::pair(flavor);
        let mut session = pair.source_session().await;
        for script in [Script::OltpInsert, Script::OltpWriteOnly] {
            let schema = support::schema("killed");
            let settings = sysbench(script, 2, 20_000, RandType::Uniform);
            prepare(&settings, pair.source(), &schema, 2).await;
            let client = user_of(&mut session, pair.source(), &schema).await;
            let from = session.binlog_position().await.expect("position");
            let (plan, counters) = (plan(&settings, &schema, 8, 1_400), Arc::default());
            let (events, cancel) = (Events::none(), CancellationToken::new());
            let driving = workload::drive(&plan, &client, &counters, &events, &cancel);
            let killing = kill_often(&mut session, &schema, &counters);
            let (driven, killed) = tokio::join!(driving, killing);
            let driven = driven.unwrap_or_else(|e| panic!("failed to {e}"));
            assert!(killed > 0 && driven.reconnects > 0, "{flavor} {script:?}");
            assert_eq!(driven.offered_ops, driven.committed_ops + driven.unknown_ops);
            assert_eq!(driven.failed_ops(), 0, "{flavor} {script:?}");
            let found: u64 = changes(&mut session, &from, &schema).await.values().sum();
            let per_op = if script == Script::OltpInsert { 1 } else { 4 };
            let counted = driven.effect.row_changes();
            assert_eq!(counted, per_op * driven.committed_ops);
            assert!(
                (counted..=counted + per_op * driven.unknown_ops).contains(&found),
                "{flavor} {script:?}: {found} in the binlog, {counted} counted"
            );
            assert!(script != Script::OltpInsert || driven.unknown_ops == 0, "ids tell all");
            session.execute(&format!("DROP USER {schema}@'%'")).await.expect("user");
            workload::cleanup(pair.source(), &schema).await.expect("cleanup");
        }
    }
}

/// An account of the test's own, so that only its connections are killed.
async fn user_of(session: &mut Session, endpoint: &Endpoint, schema: &str) -> Endpoint {
    for sql in [
        format!("CREATE USER {schema}@'%' IDENTIFIED BY 'secret'"),
        format!("GRANT ALL ON `{schema}`.* TO {schema}@'%'"),
    ] {
        session.execute(&sql).await.expect("account");
    }
    Endpoint { user: schema.to_owned(), password: Secret::new("secret"), ..endpoint.clone() }
}

/// Kills all connections of a user each time another 200 ops have committed.
async fn kill_often(session: &mut Session, user: &str, counters: &Counters) -> u64 {
    let mut killed = 0;
    for target in [100, 300, 500, 700, 900, 1_100] {
        while counters.committed() < target {
            tokio::task::yield_now().await;
        }
        let sql = format!("SELECT id FROM information_schema.processlist WHERE user = '{user}'");
        for row in session.rows(&sql).await.expect("processes") {
            let id: u64 = row.get(0).expect("id");
            // It may have ended by itself.
            killed += u64::from(session.execute(&format!("KILL {id}")).await.is_ok());
        }
    }
    killed
}
