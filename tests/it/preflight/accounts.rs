//! Accounts that hold exactly what the README says: whole trials succeed with them, and pre-flight
//! names each privilege that is taken away, with the statement that gives it back.

use std::path::Path;

use dmbench::event::Events;
use dmbench::lab::{Hold, Lab, leftover};
use dmbench::mysql::{Endpoint, Flavor, Secret, Session};
use dmbench::record::{Outcome, Point, Verdict};
use dmbench::task::Task;
use dmbench::telemetry::Gauges;
use dmbench::trial::preflight::{Check, End, Level, Plan};
use dmbench::trial::{self, Bench, Seat};
use tokio_util::sync::CancellationToken;

use super::{inspect, of, servers};
use crate::support::{DMBENCH, Pair};

const README: &str = include_str!("../../../README.md");
const DROP: &str = "DROP USER IF EXISTS 'bench'@'%'";

/// The GRANT statements of the README's next block of SQL behind `heading`.
fn documented(heading: &str) -> Vec<&'static str> {
    let (_, behind) = README.split_once(heading).expect("the README has the heading");
    let (_, block) = behind.split_once("```sql\n").expect("SQL follows");
    let (block, _) = block.split_once("```").expect("it ends");
    let grants: Vec<_> = block.lines().filter(|line| line.starts_with("GRANT ")).collect();
    assert!(grants.len() >= 2, "{block}");
    grants
}

/// A statement's privileges apart: privilege, place.
fn apart(grants: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    for grant in grants {
        let (privileges, rest) = grant["GRANT ".len()..].split_once(" ON ").expect("a place");
        let (place, _) = rest.split_once(" TO ").expect("an account");
        all.extend(privileges.split(", ").map(|privilege| (privilege, place)));
    }
    all
}

/// Makes the account with these grants and nothing else.
async fn account(session: &mut Session, grants: &[&str]) -> Endpoint {
    const PASSWORD: &str = "pa'ss\"%w@rd";
    let create =
        format!("CREATE USER 'bench'@'%' IDENTIFIED BY '{}'", PASSWORD.replace('\'', "''"));
    for statement in [DROP, &create].into_iter().chain(grants.iter().copied()) {
        session.execute(statement).await.expect(statement);
    }
    let mut endpoint = session.endpoint().clone();
    (endpoint.user, endpoint.password) = ("bench".to_owned(), Secret::new(PASSWORD));
    endpoint
}

fn source_grants(flavor: Flavor) -> Vec<&'static str> {
    documented(match flavor {
        Flavor::Mariadb => "Source, MariaDB",
        _ => "Source, MySQL",
    })
}

fn task(name: &str, model: &str, phases: &str) -> Task {
    let text = format!(
        "question = \"?\"\nmodel = \"{model}\"\n[workload]\nkind = \"sysbench\"\nscript = \
         \"oltp_write_only\"\ntables = 2\ntable-size = 300\n{phases}\n[pipeline]\nkind = \"builtin\"\n\
         [repeat]\nblocks = 1\n"
    );
    Task::parse(Path::new(name), &text, &[]).expect("a task")
}

async fn trials(pair: &Pair, source: &Endpoint, target: &Endpoint) {
    let folder = tempfile::tempdir().expect("folder");
    let lab = Lab {
        source: source.clone(),
        target: target.clone(),
        source_for_pipeline: source.clone(),
        target_for_pipeline: target.clone(),
        ..pair.lab().clone()
    };
    let stream = "[pace]\nkind = \"closed\"\nclients = 2\n[phases]\nwarm = \"200ms\"\n\
                  measure = \"1s\"\ndrain-limit = \"60s\"";
    let (scratch, dmbench) = (folder.path().join("scratch"), Path::new(DMBENCH));
    let events = Events::none();
    let mut bench =
        Bench::new(lab, &scratch, dmbench, "accounts", "dmbench", &events, &Gauges::default());
    for task in [task("bulk.toml", "bulk", ""), task("stream.toml", "stream", stream)] {
        let plan =
            Plan::of(std::slice::from_ref(&task), "dmbench", &scratch, "accounts").expect("a plan");
        let checks = inspect(source, target, &plan).await;
        assert!(checks.iter().all(|check| check.level == Level::Pass), "{checks:#?}");
        let seat = Seat {
            task: task.name.clone(),
            task_hash: task.hash.clone(),
            point: Point::new(),
            block: 1,
            order: 1,
            order_in_block: 1,
        };
        let samples = folder.path().join("samples.jsonl");
        let trial = trial::run(&mut bench, &task, &seat, samples, &CancellationToken::new()).await;
        assert!(matches!(trial.verdict, Verdict::Equal { .. }), "{:?}", trial.outcome);
        let failed = matches!(trial.outcome, Outcome::Aborted { .. } | Outcome::Invalid { .. });
        assert!(!failed, "{:?}", trial.outcome);
        let refused = trial.findings.iter().find(|found| found.text.contains("denied"));
        assert_eq!(refused, None);
    }
    let hold = Hold::take(source, target).await.expect("the lock needs no privilege");
    for endpoint in [source, target] {
        let found = leftover::find(endpoint).await.expect("asked");
        let schemas: Vec<_> = found.iter().map(|found| found.schema.as_str()).collect();
        assert!(schemas.contains(&"dmbench"), "{schemas:?}");
        leftover::remove(endpoint, &schemas).await.expect("dropped");
    }
    hold.release().await;
}

/// Takes each privilege away and gives it back by the statement that pre-flight prints.
async fn one_by_one(
    admin: &mut Session,
    end: End,
    grants: &[&'static str],
    check: impl AsyncFn() -> Vec<Check>,
) {
    for (privilege, place) in apart(grants) {
        let revoke = format!("REVOKE {privilege} ON {place} FROM 'bench'@'%'");
        admin.execute(&revoke).await.expect(privilege);
        let checks = check().await;
        let bad: Vec<_> = checks.iter().filter(|check| check.level > Level::Pass).collect();
        assert_eq!(bad.len(), 1, "{privilege} on {place}: {bad:#?}");
        let bad = bad[0];
        assert_eq!((bad.code, bad.end), ("privilege", end));
        assert!(bad.evidence.starts_with(privilege), "{privilege}: {bad}");
        assert_eq!(bad.remedy, format!("GRANT {privilege} ON {place} TO 'bench'@'%'"));
        let may_be_missing = privilege == "BACKUP_ADMIN";
        assert_eq!(bad.level, if may_be_missing { Level::Warn } else { Level::Fail }, "{bad}");
        admin.execute(&bad.remedy).await.expect("the remedy is a statement");
        let checks = check().await;
        assert_eq!(of(&checks, "privilege", end)[0].level, Level::Pass, "{privilege}");
    }
}

async fn exactly(flavor: Flavor) {
    let (pair, _guard) = servers(flavor).await;
    let (mut on_source, mut on_target) = (pair.source_session().await, pair.target_session().await);
    let (of_source, of_target) = (source_grants(flavor), documented("Target, be it"));
    let source = account(&mut on_source, &of_source).await;
    let target = account(&mut on_target, &of_target).await;
    trials(pair, &source, &target).await;
    let plan = super::plan("dmbench");
    let check = async || inspect(&source, &target, &plan).await;
    one_by_one(&mut on_source, End::Source, &of_source, check).await;
    one_by_one(&mut on_target, End::Target, &of_target, check).await;
    // Table locks stand in for the lock of everything.
    let lock = if flavor == Flavor::Mariadb { "RELOAD" } else { "FLUSH_TABLES" };
    for statement in [
        format!("REVOKE {lock} ON *.* FROM 'bench'@'%'"),
        "GRANT LOCK TABLES ON `dmbench`.* TO 'bench'@'%'".to_owned(),
    ] {
        on_source.execute(&statement).await.expect("granted");
    }
    let checks = check().await;
    assert_eq!(of(&checks, "privilege", End::Source)[0].level, Level::Warn, "{checks:#?}");
    // A bound of the account's own, and one that nobody but the privileged passes.
    on_target.execute("ALTER USER 'bench'@'%' WITH MAX_USER_CONNECTIONS 3").await.expect("set");
    let checks = check().await;
    let bound = of(&checks, "max-user-connections", End::Target)[0];
    assert_eq!(bound.level, Level::Fail);
    on_target.execute(&bound.remedy).await.expect("the remedy is a statement");
    let checks = check().await;
    assert_eq!(of(&checks, "max-user-connections", End::Target)[0].level, Level::Pass);
    on_target.execute("SET GLOBAL read_only = ON").await.expect("set");
    let checks = check().await;
    on_target.execute("SET GLOBAL read_only = OFF").await.expect("set");
    assert_eq!(of(&checks, "read-only", End::Target)[0].level, Level::Fail);
    on_source.execute(DROP).await.expect("dropped");
    on_target.execute(DROP).await.expect("dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_privileges_are_enough_on_mysql_and_each_is_missed() {
    exactly(Flavor::Mysql).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_privileges_are_enough_on_mariadb_and_each_is_missed() {
    exactly(Flavor::Mariadb).await;
}

/// The same by a role, which counts only while it is active.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_counts_once_it_is_active() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let (mut on_source, mut on_target) =
            (pair.source_session().await, pair.target_session().await);
        let source = account(&mut on_source, &[]).await;
        let target = account(&mut on_target, &documented("Target, be it")).await;
        on_source.execute("CREATE ROLE bench_role").await.expect("a role");
        for grant in source_grants(flavor) {
            let grant = grant.replace("'bench'@'%'", "bench_role");
            on_source.execute(&grant).await.expect("granted");
        }
        on_source.execute("GRANT bench_role TO 'bench'@'%'").await.expect("granted");
        let plan = super::plan("dmbench");
        let checks = inspect(&source, &target, &plan).await;
        let missing = of(&checks, "privilege", End::Source);
        assert!(missing.len() >= 10 && missing[0].evidence.contains("bench_role"), "{missing:#?}");
        let word = if flavor == Flavor::Mariadb { "FOR" } else { "TO" };
        let activate = format!("SET DEFAULT ROLE bench_role {word} 'bench'@'%'");
        on_source.execute(&activate).await.expect("activated");
        let checks = inspect(&source, &target, &plan).await;
        assert_eq!(super::faults(&checks), [""; 0], "{checks:#?}");
        for statement in [DROP, "DROP ROLE bench_role"] {
            on_source.execute(statement).await.expect("dropped");
        }
        on_target.execute(DROP).await.expect("dropped");
    }
}

/// MySQL alone has them: a schema taken out of what is held everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_partial_revoke_is_a_missing_privilege() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let mut admin = pair.source_session().await;
    admin.execute("SET GLOBAL partial_revokes = ON").await.expect("set");
    let source = account(&mut admin, &["GRANT ALL ON *.* TO 'bench'@'%'"]).await;
    admin.execute("CREATE DATABASE dm_partly").await.expect("made");
    admin.execute("REVOKE INSERT ON dm_partly.* FROM 'bench'@'%'").await.expect("revoked");
    let plan = super::plan("dm_partly");
    let checks = inspect(&source, pair.target(), &plan).await;
    let missing: Vec<_> = of(&checks, "privilege", End::Source);
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].remedy, "GRANT INSERT ON `dm_partly`.* TO 'bench'@'%'");
    admin.execute(&missing[0].remedy).await.expect("the remedy is a statement");
    let checks = inspect(&source, pair.target(), &plan).await;
    assert_eq!(of(&checks, "privilege", End::Source)[0].level, Level::Pass);
    for statement in [DROP, "DROP DATABASE dm_partly", "SET GLOBAL partial_revokes = OFF"] {
        admin.execute(statement).await.expect("as it was");
    }
}
