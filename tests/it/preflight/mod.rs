//! Pre-flight on real servers: every check that a setting can make fail does so, and passes again.
//!
//! Servers of these tests are private to this module, since global settings are changed; one test at a
//! time has a pair.

mod accounts;
mod settings;
mod tables;

use std::path::Path;
use std::time::Duration;

use dmbench::mysql::{Endpoint, Flavor};
use dmbench::trial::preflight::{self, Check, End, Level, Plan};
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;

use crate::support::{self, Pair};

/// A pair of servers, as long as this is held. The target writes no binlog.
async fn servers(flavor: Flavor) -> (&'static Pair, MutexGuard<'static, ()>) {
    let pair = support::changed_pair(flavor);
    (pair, pair.alone().await)
}

/// The plan of a small stream.
fn plan(schema: &str) -> Plan {
    Plan {
        schema: schema.to_owned(),
        meta_schema: "dmbench_meta".to_owned(),
        copies: true,
        reads_binlog: true,
        source_connections: 20,
        target_connections: 20,
        keeps_binlog: Duration::from_secs(60),
        dump_bytes: 1_000_000,
        source_statement: 1_000_000,
        target_statement: 1_000_000,
        scratch: Path::new("/tmp").to_owned(),
        server_id: 0x8000_1234,
    }
}

async fn inspect(source: &Endpoint, target: &Endpoint, plan: &Plan) -> Vec<Check> {
    let checks = preflight::inspect(source, target, plan, &CancellationToken::new()).await;
    let checks = checks.expect("both ends answer");
    assert!(checks.is_sorted_by(|a, b| a.level >= b.level), "worst first");
    for check in &checks {
        // MariaDB shows hashes of passwords among the grants.
        assert!(!check.to_string().contains("PASSWORD"), "{check}");
        assert_eq!(check.remedy.is_empty(), check.level == Level::Pass, "{check}");
    }
    checks
}

/// What did not pass, as `fail binlog-format source`.
fn faults(checks: &[Check]) -> Vec<String> {
    let bad = checks.iter().filter(|check| check.level > Level::Pass);
    let mut faults: Vec<_> =
        bad.map(|check| format!("{} {} {}", check.level, check.code, check.end)).collect();
    faults.sort();
    faults.dedup();
    faults
}

/// The checks of a code on an end.
fn of<'a>(checks: &'a [Check], code: &str, end: End) -> Vec<&'a Check> {
    checks.iter().filter(|check| check.code == code && check.end == end).collect()
}
