//! Probes against real servers, with a replicator that the test itself plays.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dmbench::mysql::{Flavor, Session};
use dmbench::probe::{Counters, Observed, ProbePlan, Sampler, Standing, marker};
use dmbench::record::name;
use tokio_util::sync::CancellationToken;

use crate::support::{Ends, Pair, and_tidb, mixed_pair, pair, schema};

/// How long a condition may take before the test is taken to hang.
const PATIENCE: Duration = Duration::from_secs(60);

impl Ends {
    /// With the marker table at the source.
    async fn marked(pair: &'static Pair, name: &str) -> Ends {
        let mut ends = Ends::make(pair, name).await;
        marker::create_table(&mut ends.source, &ends.schema).await.expect("the marker table");
        ends
    }

    fn plan(&self) -> ProbePlan {
        ProbePlan {
            source: self.pair.source().clone(),
            target: self.pair.target().clone(),
            meta_schema: self.schema.clone(),
            checkpoint_table: None,
            schema: self.schema.clone(),
            marker_interval: Some(Duration::from_millis(20)),
            processes: Vec::new(),
            samples: None,
        }
    }

    async fn start(&self, plan: ProbePlan) -> Sampler {
        Sampler::start(plan, Counters::none(), &CancellationToken::new())
            .await
            .unwrap_or_else(|error| panic!("failed to {error}"))
    }

    fn markers(&self) -> String {
        format!("{}.{}", self.schema, marker::MARKER_TABLE)
    }

    /// Markers on the source now.
    async fn written(&mut self) -> Vec<u64> {
        let sql = format!("SELECT id FROM {} ORDER BY id", self.markers());
        let rows = self.source.rows(&sql).await.expect("rows");
        rows.into_iter().map(mysql_async::from_row::<u64>).collect()
    }

    async fn wait_for_written(&mut self, count: usize) -> Vec<u64> {
        let began = Instant::now();
        loop {
            let written = self.written().await;
            if written.len() >= count {
                return written;
            }
            assert!(began.elapsed() < PATIENCE, "markers are written");
        }
    }

    /// Puts markers into the target, as a pipeline would.
    async fn replicate(&mut self, ids: &[u64]) {
        for id in ids {
            let sql = format!("INSERT INTO {} (id, written_us) VALUES ({id}, 0)", self.markers());
            run(&mut self.target, &sql).await;
        }
    }
}

async fn run(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap_or_else(|error| panic!("failed to {error}"));
}

async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn codes(observed: &Observed) -> Vec<&str> {
    observed.findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn metric<'a>(observed: &'a Observed, name: &str) -> &'a dmbench::record::Metric {
    let found = observed.metrics.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", observed.metrics))
}

#[tokio::test]
async fn a_held_replicator_shows_as_lag_of_the_markers_it_held() {
    let flavors = and_tidb([Flavor::Mysql, Flavor::Mariadb]);
    for pair in flavors.into_iter().map(pair).chain([mixed_pair()]) {
        let mut ends = Ends::marked(pair, "lag").await;
        marker::create_table(&mut ends.target, &ends.schema).await.expect("table at the target");
        let mut sampler = ends.start(ends.plan()).await;
        sampler.mark_window_begin();
        // Marker 2 is written after marker 1 was acknowledged, so that whatever passes from here
        // on is part of marker 1's lag.
        ends.wait_for_written(2).await;
        let acknowledged = Instant::now();
        let held = ends.wait_for_written(6).await;
        let at_least = acknowledged.elapsed();
        // Out of order: the first marker comes last.
        ends.replicate(&held[1..]).await;
        ends.replicate(&held[..1]).await;
        sampler.mark_window_end();
        sampler.end_markers().await;
        let all = ends.written().await;
        assert_eq!(ends.written().await, all, "no marker is written after the end");
        ends.replicate(&all[held.len()..]).await;
        wait_until("all markers are seen", || sampler.markers_outstanding() == 0).await;
        let observed = sampler.stop().await;

        let lag = metric(&observed, name::LAG_MARKER);
        let histogram = lag.as_histogram().expect("a distribution");
        assert!(histogram.n() >= held.len() as u64 && histogram.n() <= all.len() as u64);
        let max = Duration::from_micros(histogram.max().expect("not empty"));
        // Three significant digits are kept.
        assert!(max * 1_001 / 1_000 >= at_least, "{max:?} < {at_least:?}");
        assert!(
            lag.clock.starts_with("marker rows, polled every 10 ms; too long by at most "),
            "{}",
            lag.clock
        );
        assert_eq!((observed.unseen_markers, lag.n), (0, histogram.n()));
        assert!(!codes(&observed).contains(&"markers-unseen"));
        assert_eq!(metric(&observed, name::MARKER_SHARE).as_number(), Some(1.0));
    }
}

#[tokio::test]
async fn markers_that_never_arrive_count_with_their_age() {
    let mut ends = Ends::marked(pair(Flavor::Mysql), "unseen").await;
    // The target has no such table yet: that is no failure of the probe.
    let mut sampler = ends.start(ends.plan()).await;
    sampler.mark_window_begin();
    ends.wait_for_written(2).await;
    let acknowledged = Instant::now();
    ends.wait_for_written(5).await;
    sampler.mark_window_end();
    sampler.end_markers().await;
    let at_least = acknowledged.elapsed();
    let observed = sampler.stop().await;
    let lag = metric(&observed, name::LAG_MARKER).as_histogram().expect("a distribution");
    assert!(observed.unseen_markers >= 4 && observed.unseen_markers == lag.n());
    let max = Duration::from_micros(lag.max().expect("not empty"));
    assert!(max * 1_001 / 1_000 >= at_least, "{max:?} < {at_least:?}");
    assert_eq!(codes(&observed), ["markers-unseen"]);
    assert_eq!(metric(&observed, name::LAG_AGE).n, 0, "the target's age is not known");
}

#[tokio::test]
async fn numbering_goes_on_behind_markers_of_an_earlier_trial() {
    let mut ends = Ends::marked(pair(Flavor::Mariadb), "again").await;
    marker::create_table(&mut ends.target, &ends.schema).await.expect("table at the target");
    marker::create_table(&mut ends.source, &ends.schema).await.expect("it is there already");
    let insert = format!("INSERT INTO {} VALUES (41, 0)", ends.markers());
    run(&mut ends.source, &insert).await;
    ends.replicate(&[40, 41]).await;
    let mut sampler = ends.start(ends.plan()).await;
    sampler.mark_window_begin();
    ends.wait_for_written(3).await;
    sampler.end_markers().await;
    let written = ends.written().await;
    assert_eq!(written[..3], [41, 42, 43]);
    ends.replicate(&written[1..]).await;
    wait_until("all markers are seen", || sampler.markers_outstanding() == 0).await;
    let observed = sampler.stop().await;
    let lag = metric(&observed, name::LAG_MARKER);
    assert_eq!((lag.n, observed.unseen_markers), (written.len() as u64 - 1, 0));
}

#[tokio::test]
async fn a_probe_that_fails_is_told_and_the_rest_goes_on() {
    let mut ends = Ends::marked(pair(Flavor::Mariadb), "fails").await;
    let create = format!("CREATE TABLE {} (other INT)", ends.markers());
    run(&mut ends.target, &create).await;
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("samples.jsonl");
    let plan = ProbePlan { samples: Some(path.clone()), ..ends.plan() };
    let sampler = ends.start(plan).await;
    sampler.mark_window_begin();
    wait_until("a sample tells of the failure", || {
        samples(&path).iter().any(|sample| sample["error"].is_string())
    })
    .await;
    let observed = sampler.stop().await;
    let failed = observed.findings.iter().find(|f| f.code == "probe-failed").expect("a finding");
    assert!(failed.text.starts_with("The marker poll probe failed "), "{failed:?}");
    assert!(failed.evidence.contains("id"), "{failed:?}");
    assert!(metric(&observed, "cpu.generator").as_number().is_some());
    let samples = samples(&path);
    assert!(samples.iter().any(|sample| sample["failed-reads"].as_u64() > Some(0)));
}

fn samples(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| line.ends_with('}'));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[tokio::test]
async fn a_checkpoint_row_is_mapped_to_time_and_bytes() {
    for flavor in and_tidb([Flavor::Mysql, Flavor::Mariadb]) {
        let mut ends = Ends::marked(pair(flavor), "checkpoint").await;
        let (schema, table) = (ends.schema.clone(), "t_syncer_checkpoint");
        run(
            &mut ends.target,
            &format!(
                "CREATE TABLE {schema}.{table} (id VARCHAR(32), cp_schema VARCHAR(128), binlog_name \
                 VARCHAR(128), binlog_pos INT UNSIGNED, is_global BOOLEAN)"
            ),
        )
        .await;
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("samples.jsonl");
        let plan = ProbePlan {
            checkpoint_table: Some(table.into()),
            samples: Some(path.clone()),
            processes: ends.pair.lab().processes.clone(),
            ..ends.plan()
        };
        let committed = Arc::new(AtomicU64::new(7));
        let read = Arc::clone(&committed);
        let counters = Counters {
            committed_ops: Box::new(move || read.load(Ordering::Relaxed)),
            applied_rows: Box::new(|| 5),
            on_sample: Box::new(|_| {}),
        };
        let sampler = Sampler::start(plan, counters, &CancellationToken::new()).await;
        let sampler = sampler.unwrap_or_else(|error| panic!("failed to {error}"));
        ends.wait_for_written(1).await;
        let position = ends.source.binlog_position().await.expect("position");
        sampler.mark_window_begin();
        committed.store(100, Ordering::Relaxed);
        // The relay name of DM stands for the source's own file.
        let name = position.file.to_string().replacen('.', "|000001.", 1);
        let insert = format!(
            "INSERT INTO {schema}.{table} VALUES ('dmbench', '', '{name}', {}, 1), ('dmbench', 's', 'x', 4, 0)",
            position.offset
        );
        run(&mut ends.target, &insert).await;
        // Markers move the source on: the checkpoint falls behind.
        ends.wait_for_written(10).await;
        wait_until("a sample shows bytes behind", || {
            samples(&path).iter().any(|sample| sample["bytes-behind"].as_u64() > Some(0))
        })
        .await;
        for _ in 0..20 {
            run(&mut ends.target, &format!("DELETE FROM {schema}.{table} WHERE is_global = 7"))
                .await;
        }
        let observed = sampler.stop().await;
        assert_eq!(observed.standing, Some(Standing::Lagging));
        let lag = metric(&observed, name::LAG_CHECKPOINT);
        assert!(lag.n > 0 && lag.clock.starts_with("checkpoint row, read every 100 ms"));
        let bytes = metric(&observed, name::LAG_BYTES).as_histogram().expect("a distribution");
        assert!(bytes.max() > Some(100));
        let share = metric(&observed, name::MARKER_SHARE);
        let (n, value) = (share.n as f64, share.as_number().expect("a number"));
        assert!((value - n / (n + 93.0)).abs() < 1e-9, "{share:?}");
        if flavor == Flavor::Tidb {
            assert!(codes(&observed).contains(&"statements-not-counted"));
        } else {
            assert!(metric(&observed, name::TARGET_QPS).n >= 20, "the test's own DELETEs");
        }

        for process in ["source", "target", "generator"] {
            let of = |name: &str| metric(&observed, &format!("{name}.{process}")).as_number();
            assert!(of(name::MEMORY) > Some(1.0), "{process}");
            assert!(of(name::CPU) >= Some(0.0) && of(name::DISK_WRITE) >= Some(0.0), "{process}");
        }
        assert!(metric(&observed, "cpu.machine").dimension.starts_with("cores of "));
        assert!(metric(&observed, name::NETWORK).as_number() > Some(0.0));

        let samples = samples(&path);
        let last = samples.last().expect("samples");
        assert_eq!(
            (last["committed-ops"].as_u64(), last["applied-rows"].as_u64()),
            (Some(100), Some(5))
        );
        assert_eq!(last["checkpoint"].as_str(), Some(position.to_string().as_str()));
        assert!(last["source"].is_string() && last["cpu-s"]["generator"].is_number());
    }
}

#[tokio::test]
async fn markers_go_only_into_schemas_of_ours() {
    let mut session = pair(Flavor::Mariadb).source_session().await;
    let foreign = schema("foreign");
    run(&mut session, &format!("CREATE DATABASE {foreign}")).await;
    let refused = marker::create_table(&mut session, &foreign).await.expect_err("refused");
    assert!(refused.to_string().contains(&foreign), "{refused}");
    run(&mut session, &format!("DROP DATABASE {foreign}")).await;
}
