//! Exit codes of runs. Those of limits and interruptions are beside the tests of their cause.

use std::fs;

use dmbench::record::{Outcome, Store, Verdict};
use rustix::process::Signal;

use super::{Running, aborted, dmbench, send, stream, task};

#[test]
fn a_run_of_nothing_exits_2_and_of_a_wrong_task_3() {
    let here = tempfile::tempdir().expect("folder");
    assert_eq!(dmbench(here.path(), &["run"], &[]).0, 2);
    assert_eq!(dmbench(here.path(), &["run", "t.toml", "--resume", "none"], &[]).0, 3, "no task");
    let wrong = stream("mysql", "1s", "1s", "").replace("warm", "worm");
    fs::write(here.path().join("t.toml"), wrong).expect("task");
    assert_eq!(dmbench(here.path(), &["run", "t.toml"], &[]).0, 3);
    fs::write(here.path().join("t.toml"), stream("mysql", "1s", "1s", "")).expect("task");
    assert_eq!(dmbench(here.path(), &["run", "t.toml", "--resume", "none"], &[]).0, 2, "no run");
    assert!(!here.path().join("out").exists(), "what cannot begin leaves no folder");
}

/// dmbench cannot find its own program, which it starts pipelines from: nothing that its user did.
#[cfg(target_os = "linux")]
#[test]
fn a_fault_of_dmbench_itself_exits_1_and_says_so() {
    let here = tempfile::tempdir().expect("folder");
    fs::write(here.path().join("t.toml"), stream("mysql", "1s", "1s", "")).expect("task");
    let copy = here.path().join("dmbench");
    fs::copy(env!("CARGO_BIN_EXE_dmbench"), &copy).expect("a copy");
    let ended = std::process::Command::new("sh")
        .args(["-c", "exec 3<dmbench; rm dmbench; exec /proc/self/fd/3 run t.toml"])
        .current_dir(here.path())
        .output()
        .expect("sh runs");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("error: failed to read the program"), "{stderr}");
    assert!(stderr.contains("\nhelp: this is a fault of dmbench"), "{stderr}");
}

/// A path that is set is the only place looked at, so that this holds on machines with servers.
#[test]
fn without_a_server_a_run_exits_4_and_names_the_package() {
    let here = tempfile::tempdir().expect("folder");
    fs::write(here.path().join("t.toml"), stream("mariadb", "1s", "1s", "")).expect("task");
    let nowhere = [("PATH", "/nowhere"), ("DMBENCH_MARIADBD", "/nowhere/mariadbd")];
    let (code, _, stderr) = dmbench(here.path(), &["run", "t.toml"], &nowhere);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("mariadb-server"), "{stderr}");
}

/// The first of two trials loses its pipeline: it is aborted, the other one is not.
#[test]
fn a_failed_trial_exits_5_and_the_sweep_goes_on() {
    let mut running = Running::start(&stream("mariadb", "500ms", "2s", "[repeat]\nblocks = 2"));
    running.phase(1, "measure");
    for pid in running.processes("pipeline") {
        send(pid, Signal::KILL);
    }
    running.end_with(5);
    let (run, trials) = running.records();
    assert!(!run.interrupted && run.ended.is_some());
    assert_eq!(trials.len(), 2);
    let why = aborted(&trials[0]);
    assert!(why.contains("keep the pipeline running"), "{why}");
    assert!(
        why.ends_with("in phase measure"),
        "noticed at once, not when the workload ends: {why}"
    );
    assert_eq!(trials[1].verdict.word(), "equal");
    let usable = !matches!(trials[1].outcome, Outcome::Aborted { .. } | Outcome::Invalid { .. });
    assert!(usable, "{:?}", trials[1].outcome);
}

/// A row is put into the target behind the pipeline's back.
#[test]
fn a_difference_exits_6() {
    let phases = "ops = 100\ndrain-limit = \"60s\"";
    let text = task("backlog", "mysql", phases, "kind = \"closed\"", "");
    let mut running = Running::start(&text);
    let password = running.password();
    running.phase(1, "settle");
    let surplus = "INSERT INTO dmbench.sbtest1 (id, k, c, pad) VALUES (1000000, 1, 'c', 'pad')";
    running.execute("target", &password, surplus);
    running.end_with(6);
    let (_, trials) = running.records();
    let Verdict::Differs { surplus, missing, changed, examples } = &trials[0].verdict else {
        panic!("{:?}", trials[0].verdict);
    };
    assert_eq!((*surplus, *missing, *changed), (1, 0, 0));
    assert!(examples[0].contains("1000000"), "{examples:?}");
    assert!(!trials[0].counts());
}

/// More clients than the servers allow connections.
#[test]
fn servers_that_are_not_fit_exit_4_before_anything_is_written() {
    let pace = "kind = \"closed\"";
    let text = task("backlog", "mariadb", "ops = 100\ndrain-limit = \"60s\"", pace, "");
    let mut running = Running::start(&text.replace("clients = 4", "clients = 700"));
    running.end_with(4);
    let (run, trials) = running.records();
    assert!(trials.is_empty() && run.ended.is_some());
    let finding = &run.tasks[0].findings[0];
    assert_eq!(finding.code, "preflight-max-connections");
    let stderr = running.stderr();
    assert!(stderr.contains("error: failed to begin task t: source: max_connections is 600"));
    assert!(stderr.contains(&format!("→ {}\n", finding.hint)), "{stderr}");
    assert!(finding.hint.starts_with("SET GLOBAL max_connections = 7"), "{finding:?}");
}

/// A backlog that may take twenty days, of a source that keeps files for thirty.
#[test]
fn what_is_worth_a_word_is_logged_and_recorded() {
    let pace = "kind = \"closed\"";
    let phases = "ops = 300000000\ndrain-limit = \"24h\"";
    let text = task("backlog", "mysql", phases, pace, "[repeat]\nblocks = 20");
    let mut running = Running::start(&text);
    let findings = running.wait("findings in run.json", |running| {
        let run = Store::open(&running.find_run_folder()?).run().ok()?;
        run.tasks.first().map(|task| task.findings.clone()).filter(|found| !found.is_empty())
    });
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].code, "preflight-binlog-retention");
    assert!(findings[0].text.starts_with("source: files are kept for 2592000 s"), "{findings:?}");
    assert!(
        running.stderr().contains("WARN warn binlog-retention (source)"),
        "{}",
        running.stderr()
    );
}
