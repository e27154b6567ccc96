//! The exit codes that records decide, by the records alone: `dmbench report` ends as its run did.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use dmbench::error::Exit;
use dmbench::record::{
    LabFacts, Limits, Machine, Metric, Model, Outcome, Point, Run, SCHEMA, ServerFacts, Store,
    TaskFacts, Trial, Verdict, name,
};
use jiff::Timestamp;

fn dmbench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dmbench"));
    command.env_remove("RUST_LOG");
    command
}

fn server() -> ServerFacts {
    ServerFacts {
        server: "MySQL 9.7.4".into(),
        version: "9.7.4".into(),
        address: "127.0.0.1:3306".into(),
        settings: BTreeMap::new(),
        tls: None,
    }
}

fn run(interrupted: bool) -> Run {
    let task = TaskFacts {
        name: "lag".into(),
        question: "How far behind?".into(),
        model: Model::Stream,
        pipeline: "builtin".into(),
        workload: "sysbench oltp_insert, 1 × 100 rows, uniform".into(),
        text: "model = \"stream\"".into(),
        overrides: Vec::new(),
        hash: "0".repeat(16),
        knobs: Vec::new(),
        points: vec![Point::new()],
        blocks: 2,
        seed: 42,
        limits: Limits { lag_p99_s: Some(5.0) },
        lab: Some(LabFacts {
            kind: "sandbox".into(),
            source: server(),
            target: server(),
            emulated: BTreeMap::new(),
        }),
        findings: Vec::new(),
    };
    Run {
        schema: SCHEMA,
        id: "example".into(),
        began: Timestamp::UNIX_EPOCH,
        ended: Some(Timestamp::UNIX_EPOCH),
        interrupted,
        dmbench: "0.1.0".into(),
        binary_hash: "of another build".into(),
        command: vec!["dmbench".into(), "run".into()],
        machine: Machine {
            system: "Debian".into(),
            kernel: "6.1".into(),
            cpu: "x".into(),
            cores: 2,
            memory_bytes: 1 << 32,
            filesystem: "ext4".into(),
        },
        tasks: vec![task],
    }
}

fn trial(order: u32, outcome: Outcome, verdict: Verdict) -> Trial {
    let rate = Metric::number(name::SYNC_ROWS_RATE, "rows/s", dmbench::record::Better::Higher, 9.0);
    Trial {
        schema: SCHEMA,
        task: "lag".into(),
        task_hash: "0".repeat(16),
        model: Model::Stream,
        point: Point::new(),
        block: order,
        order,
        order_in_block: 1,
        seed: 42,
        began: Timestamp::UNIX_EPOCH,
        phases: Vec::new(),
        configuration: BTreeMap::new(),
        emulated: BTreeMap::new(),
        replayed: None,
        source_end: None,
        outcome,
        verdict,
        findings: Vec::new(),
        metrics: vec![rate],
    }
}

fn report_ends(folder: &Path, run: &Run, trials: &[Trial]) -> (i32, String) {
    let folder = folder.join("run");
    let store = Store::create(&folder).expect("folder");
    store.save_run(run).expect("run");
    for trial in trials {
        store.save_trial(trial).expect("trial");
    }
    let output = dmbench().arg("report").arg(&folder).output().expect("dmbench runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("an exit code"), told)
}

#[test]
fn a_report_ends_as_its_run_did() {
    let equal = || Verdict::Equal { tables: 1, rows: 100 };
    let differs = || Verdict::Differs { missing: 1, surplus: 0, changed: 0, examples: vec![] };
    let unchecked = || Verdict::Unchecked { reason: "no time".into() };
    let good = |order| trial(order, Outcome::Sustained { rate: 9.0 }, equal());
    let aborted = |order| trial(order, Outcome::Aborted { reason: "gone".into() }, unchecked());
    let saturated = |order| {
        let outcome = Outcome::Saturated { rate: 9.0, dimension: "ops/s".into() };
        trial(order, outcome, unchecked())
    };
    let wrong = |order| trial(order, Outcome::Sustained { rate: 9.0 }, differs());
    for (interrupted, trials, exit) in [
        (false, vec![good(1), good(2)], Exit::Ok),
        (false, vec![good(1), aborted(2)], Exit::TrialFailed),
        (false, vec![good(1), wrong(2)], Exit::Differs),
        (false, vec![good(1), saturated(2)], Exit::LimitMissed),
        (false, vec![saturated(1), aborted(2)], Exit::TrialFailed),
        (false, vec![wrong(1), saturated(2), aborted(3)], Exit::Differs),
        (true, vec![good(1)], Exit::Interrupted),
        (true, vec![], Exit::Interrupted),
    ] {
        let parent = tempfile::tempdir().expect("folder");
        let (code, told) = report_ends(parent.path(), &run(interrupted), &trials);
        assert_eq!(code, exit as i32, "{exit:?}\n{told}");
    }
}

#[test]
fn records_that_cannot_be_understood_exit_3() {
    for (text, why) in [
        ("{ \"schema\": 999 }", "its schema is 999"),
        ("{}", "it has no schema number"),
        ("half a rec", "expected value"),
    ] {
        let parent = tempfile::tempdir().expect("folder");
        fs::create_dir(parent.path().join("trials")).expect("folder");
        fs::write(parent.path().join("run.json"), text).expect("record");
        let output = dmbench().arg("report").arg(parent.path()).output().expect("dmbench runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(Exit::Invalid as i32), "{told}");
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_run_that_is_not_there_exits_2() {
    let parent = tempfile::tempdir().expect("folder");
    let mut command = dmbench();
    command.current_dir(parent.path()).args(["report", "none"]);
    assert_eq!(command.output().expect("dmbench runs").status.code(), Some(Exit::Usage as i32));
}

#[test]
fn a_run_of_another_build_is_not_resumed() {
    let parent = tempfile::tempdir().expect("folder");
    let folder = parent.path().join("run");
    Store::create(&folder).expect("folder").save_run(&run(true)).expect("run");
    let task = Path::new(env!("CARGO_MANIFEST_DIR")).join("tasks/smoke/lag.toml");
    let output =
        dmbench().arg("run").arg(task).arg("--resume").arg(&folder).output().expect("dmbench runs");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(Exit::Invalid as i32), "{told}");
    assert!(told.contains("another build"), "{told}");
}

#[test]
fn runs_are_listed_with_their_outcomes() {
    let parent = tempfile::tempdir().expect("folder");
    let equal = Verdict::Equal { tables: 1, rows: 100 };
    let good = trial(1, Outcome::Sustained { rate: 9.0 }, equal);
    report_ends(parent.path(), &run(true), &[good]);
    let output = dmbench().arg("list").arg("--out").arg(parent.path()).output().expect("runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("lag  1 sustained; 1 equal; interrupted"), "{told}");
}
