//! Global settings, one at a time, on MySQL and MariaDB.

use dmbench::mysql::binlog::Stream;
use dmbench::mysql::{Flavor, Session};
use dmbench::trial::preflight::{End, Level};

use super::{faults, inspect, of, plan, servers};

/// Setting, value that is wrong, value that is right, where, and what the check says of it.
type Case = (&'static str, &'static str, &'static str, End, &'static str);

const BOTH: [Case; 11] = [
    ("binlog_format", "'STATEMENT'", "'ROW'", End::Source, "fail binlog-format source"),
    ("binlog_row_image", "'MINIMAL'", "'FULL'", End::Source, "fail binlog-row-image source"),
    ("binlog_expire_logs_seconds", "5", "0", End::Source, "fail binlog-retention source"),
    ("binlog_expire_logs_seconds", "100", "0", End::Source, "warn binlog-retention source"),
    ("max_connections", "12", "600", End::Source, "fail max-connections source"),
    ("max_connections", "12", "600", End::Target, "fail max-connections target"),
    ("max_allowed_packet", "524288", "67108864", End::Source, "fail max-allowed-packet source"),
    ("max_allowed_packet", "524288", "67108864", End::Target, "fail max-allowed-packet target"),
    ("time_zone", "'+02:00'", "'+00:00'", End::Target, "warn time-zone target"),
    (
        "sql_mode",
        "'ANSI_QUOTES,STRICT_TRANS_TABLES'",
        "DEFAULT",
        End::Target,
        "warn sql-mode target",
    ),
    ("read_only", "ON", "OFF", End::Target, "warn read-only target"),
];

const MYSQL: [Case; 7] = [
    (
        "binlog_row_value_options",
        "'PARTIAL_JSON'",
        "''",
        End::Source,
        "warn binlog-row-value-options source",
    ),
    ("binlog_transaction_compression", "ON", "OFF", End::Source, "warn binlog-compression source"),
    ("gtid_mode", "ON_PERMISSIVE", "ON", End::Source, "warn gtid source"),
    ("server_id", "0", "1", End::Source, "fail server-id source"),
    ("super_read_only", "ON", "OFF", End::Target, "fail read-only target"),
    ("super_read_only", "ON", "OFF", End::Source, "fail read-only source"),
    ("read_only", "OFF", "OFF", End::Source, ""),
];

const MARIADB: [Case; 2] = [
    ("log_bin_compress", "ON", "OFF", End::Source, "warn binlog-compression source"),
    ("expire_logs_days", "0.00002", "0", End::Source, "fail binlog-retention source"),
];

async fn each(flavor: Flavor, cases: &[Case]) {
    let (pair, _guard) = servers(flavor).await;
    let plan = plan("dmbench_settings");
    let clean = inspect(pair.source(), pair.target(), &plan).await;
    assert_eq!(faults(&clean), [""; 0], "as the sandbox configures them: {clean:#?}");
    let codes: std::collections::BTreeSet<_> = clean.iter().map(|check| check.code).collect();
    assert!(codes.len() >= 20, "{codes:?}");
    for (name, wrong, right, end, expected) in BOTH.iter().chain(cases) {
        let mut session = match end {
            End::Source => pair.source_session().await,
            _ => pair.target_session().await,
        };
        session.execute(&format!("SET GLOBAL {name} = {wrong}")).await.expect(name);
        let wrong = inspect(pair.source(), pair.target(), &plan).await;
        session.execute(&format!("SET GLOBAL {name} = {right}")).await.expect(name);
        if *name == "super_read_only" {
            session.execute("SET GLOBAL read_only = OFF").await.expect(name);
        }
        let expected: Vec<&str> = Some(*expected).filter(|e| !e.is_empty()).into_iter().collect();
        assert_eq!(faults(&wrong), expected, "{name}");
    }
    let again = inspect(pair.source(), pair.target(), &plan).await;
    assert_eq!(faults(&again), [""; 0], "what was set back passes");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_setting_of_mysql_is_seen_alone() {
    each(Flavor::Mysql, &MYSQL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_setting_of_mariadb_is_seen_alone() {
    each(Flavor::Mariadb, &MARIADB).await;
}

/// The targets here write no binlog.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_without_a_binlog_fails() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let checks = inspect(pair.target(), pair.source(), &plan("dmbench_settings")).await;
        assert_eq!(of(&checks, "binlog", End::Source)[0].level, Level::Fail);
        let mut bulk = plan("dmbench_settings");
        (bulk.copies, bulk.reads_binlog) = (false, false);
        let checks = inspect(pair.target(), pair.source(), &bulk).await;
        assert_eq!(faults(&checks), [""; 0], "a workload alone needs none");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_with_the_id_of_sync_fails() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let plan = plan("dmbench_settings");
        let mut session = pair.source_session().await;
        let here = session.binlog_position().await.expect("position");
        let stream = Stream::open(pair.source(), &here, plan.server_id).await.expect("stream");
        let taken = inspect(pair.source(), pair.target(), &plan).await;
        let check = of(&taken, "server-id", End::Source)[0];
        assert_eq!(check.level, Level::Fail, "{check}");
        let mut other = plan.clone();
        other.server_id += 1;
        let free = inspect(pair.source(), pair.target(), &other).await;
        assert_eq!(of(&free, "server-id", End::Source)[0].level, Level::Pass);
        drop(stream);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_in_use_warn() {
    let (pair, _guard) = servers(Flavor::Mariadb).await;
    let mut plan = plan("dmbench_settings");
    (plan.source_connections, plan.target_connections) = (600, 600);
    let one = Session::connect(pair.source()).await.expect("session");
    let checks = inspect(pair.source(), pair.target(), &plan).await;
    assert_eq!(of(&checks, "max-connections", End::Source)[0].level, Level::Warn);
    plan.source_connections = 601;
    let checks = inspect(pair.source(), pair.target(), &plan).await;
    assert_eq!(of(&checks, "max-connections", End::Source)[0].level, Level::Fail);
    one.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_for_both_ends_fails() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let checks = inspect(pair.source(), pair.source(), &plan("dmbench_settings")).await;
        assert_eq!(faults(&checks), ["fail same-server target"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn room_for_dumps_is_looked_at() {
    let (pair, _guard) = servers(Flavor::Mariadb).await;
    let here = tempfile::tempdir().expect("folder");
    let mut plan = plan("dmbench_settings");
    plan.scratch = here.path().join("not/there/yet");
    let checks = inspect(pair.source(), pair.target(), &plan).await;
    assert_eq!(faults(&checks), [""; 0]);
    assert!(!plan.scratch.exists(), "looking makes nothing");
    let free = rustix::fs::statvfs(here.path()).expect("known");
    let free = free.f_bavail * free.f_frsize;
    for (bytes, expected) in
        [(free / 4 * 3, "warn disk-space dmbench"), (free * 2, "fail disk-space dmbench")]
    {
        plan.dump_bytes = bytes;
        let checks = inspect(pair.source(), pair.target(), &plan).await;
        assert_eq!(faults(&checks), [expected]);
    }
    plan.dump_bytes = 0;
    std::fs::write(here.path().join("file"), "").expect("written");
    plan.scratch = here.path().join("file/below");
    let checks = inspect(pair.source(), pair.target(), &plan).await;
    assert_eq!(faults(&checks), ["fail scratch-folder dmbench"]);
}
