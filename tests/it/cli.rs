//! The command line from outside: help, exit codes, plans, refusals. Nothing here needs a server.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use dmbench::error::Exit;
use tempfile::TempDir;

/// dmbench in a folder of its own, with no account's settings around it.
fn dmbench(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dmbench"));
    command.current_dir(folder).env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Runs to the end and returns exit code, stdout and stderr.
fn ends(command: &mut Command) -> (i32, String, String) {
    let output = command.output().expect("dmbench runs");
    (
        output.status.code().expect("an exit code"),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn help_is_a_result_and_names_the_exit_codes() {
    let here = folder();
    let (code, stdout, stderr) = ends(dmbench(here.path()).arg("--help"));
    assert_eq!((code, stderr.as_str()), (Exit::Ok as i32, ""));
    for (exit, sentence) in Exit::ALL {
        assert!(stdout.contains(&format!("{:>3}  {sentence}", exit as u8)), "{stdout}");
    }
    for hidden in ["pipeline", "sandbox-guard"] {
        assert!(!stdout.lines().any(|line| line.trim().starts_with(hidden)), "{stdout}");
    }
}

/// Runs dmbench with one of its outputs to a device that takes no byte: exit code, what the other took.
#[cfg(target_os = "linux")]
fn with_full(words: &[&str], full: &str) -> (i32, String) {
    use std::fs::OpenOptions;
    let device = OpenOptions::new().write(true).open("/dev/full").expect("a device of Linux");
    let here = folder();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dmbench"));
    command.args(words).current_dir(here.path()).env_remove("RUST_LOG");
    // Where no server is to be had a run ends soon.
    for variable in ["DMBENCH_MYSQLD", "DMBENCH_MARIADBD", "DMBENCH_TIDB"] {
        command.env(variable, "/nowhere");
    }
    match full {
        "stdout" => command.stdout(device),
        _ => command.stderr(device),
    };
    let output = command.output().expect("dmbench runs");
    let other = if full == "stdout" { output.stderr } else { output.stdout };
    let other = String::from_utf8_lossy(&other).into_owned();
    (output.status.code().expect("no signal"), other)
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_an_error_of_one_line_with_a_hint() {
    let task = repository().join("tasks/smoke/dump.toml");
    let task = task.to_str().expect("plain");
    for words in
        [&["--help"][..], &["--version"], &["list"], &["completions", "bash"], &["check", task]]
    {
        let (code, stderr) = with_full(words, "stdout");
        assert_eq!(code, Exit::Lab as i32, "{words:?}: {stderr}");
        assert!(
            stderr.starts_with("error: failed to write to standard output: No space"),
            "{stderr}"
        );
        let lines: Vec<_> = stderr.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("help: "), "{stderr}");
    }
}

/// Nobody can be told, which changes no result.
#[cfg(target_os = "linux")]
#[test]
fn a_log_that_cannot_be_written_is_no_failure() {
    let (code, stdout) = with_full(&["completions", "bash", "-vv"], "stderr");
    assert_eq!(code, Exit::Ok as i32);
    assert!(stdout.contains("dmbench"), "{stdout}");
    let task = repository().join("tasks/smoke/dump.toml");
    let run = ["run", task.to_str().expect("plain"), "-vv", "--metrics", "127.0.0.1:0"];
    assert_eq!(with_full(&run, "stderr").0, Exit::Lab as i32);
    assert_eq!(with_full(&["fly"], "stderr").0, Exit::Usage as i32);
}

#[test]
fn a_command_line_that_makes_no_sense_exits_2() {
    let here = folder();
    for words in [
        vec![],
        vec!["unknown"],
        vec!["check"],
        vec!["check", "--unknown", "a.toml"],
        vec!["completions", "cmd.exe"],
        vec!["drive", "oltp_fly", "run"],
        vec!["drive", "oltp_insert", "run", "--rate", "-1"],
        vec!["drive", "oltp_insert", "run", "--pace", "poisson"],
        vec!["drive", "oltp_insert", "run", "--pace", "closed", "--rate", "5"],
        vec!["drive", "oltp_insert", "run", "--password-env", "DMBENCH_TEST_NOT_SET"],
        vec!["verify", "--source", "mysql://a:b@h", "--target", "mysql://a@h", "--schemas", "s"],
    ] {
        let (code, stdout, stderr) = ends(dmbench(here.path()).args(&words));
        assert_eq!((code, stdout.as_str()), (Exit::Usage as i32, ""), "{words:?}\n{stderr}");
        assert!(!stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn a_schema_that_every_run_drops_is_not_driven() {
    let here = folder();
    for schema in ["dmbench", "dmbench_meta", "DMBench"] {
        for step in ["prepare", "run", "cleanup"] {
            let words = ["drive", "oltp_insert", step, "--port", "1", "--schema", schema];
            let (code, stdout, stderr) = ends(dmbench(here.path()).args(words));
            assert_eq!((code, stdout.as_str()), (Exit::Usage as i32, ""), "{step}\n{stderr}");
            let said = format!("error: failed to drive schema {schema}: every run drops it\n");
            assert!(stderr.starts_with(&said), "{stderr}");
            assert!(stderr.contains("name another --schema, such as dmbench_drive"), "{stderr}");
        }
    }
}

#[test]
fn a_password_in_a_url_is_refused_and_not_repeated() {
    let here = folder();
    let words =
        ["verify", "--source", "mysql://a:geheim@h", "--target", "mysql://a@h", "--schemas", "s"];
    let (_, _, stderr) = ends(dmbench(here.path()).args(words));
    assert!(stderr.contains("password-env"), "{stderr}");
}

#[test]
fn an_invalid_task_exits_3_with_line_and_caret() {
    let here = folder();
    fs::write(
        here.path().join("wrong.toml"),
        "question = \"?\"\nmodel = \"bulk\"\n\n[workload]\nkind = \"sysbench\"\ntabels = 3\n",
    )
    .expect("task");
    let (code, stdout, stderr) = ends(dmbench(here.path()).args(["check", "wrong.toml"]));
    assert_eq!((code, stdout.as_str()), (Exit::Invalid as i32, ""));
    insta::assert_snapshot!(stderr);
}

#[test]
fn a_missing_task_exits_3() {
    let here = folder();
    let (code, _, stderr) = ends(dmbench(here.path()).args(["check", "none.toml"]));
    assert_eq!(code, Exit::Invalid as i32);
    assert!(stderr.starts_with("error: failed to read task none.toml: "), "{stderr}");
    assert_eq!(stderr.matches("No such file").count(), 1, "a cause is told once: {stderr}");
}

#[test]
fn an_unreachable_server_exits_4() {
    let here = folder();
    // Port 1 of loopback: refused at once.
    let (code, _, stderr) = ends(dmbench(here.path()).args([
        "verify",
        "--source",
        "mysql://a@127.0.0.1:1",
        "--target",
        "mysql://a@127.0.0.1:1",
        "--schemas",
        "s",
    ]));
    assert_eq!(code, Exit::Lab as i32, "{stderr}");
    assert!(stderr.contains("failed to connect to a@127.0.0.1:1"), "{stderr}");
    let (code, _, stderr) =
        ends(dmbench(here.path()).args(["drive", "oltp_insert", "cleanup", "--port", "1"]));
    assert_eq!(code, Exit::Lab as i32, "{stderr}");
}

#[test]
fn a_plan_reads_well() {
    let (code, stdout, stderr) = ends(dmbench(&repository()).args([
        "check",
        "tasks/demo/worker-count.toml",
        "tasks/demo/import.toml",
        "--set",
        "repeat.seed=7",
    ]));
    assert_eq!((code, stderr.as_str()), (Exit::Ok as i32, ""));
    // Expected durations change with the constants they are made of.
    insta::with_settings!({ filters => [
        (r"(?m)  \d+ (ms|s|min \d+ s|h \d+ min)$", "  [time]"),
        (r"about \d+ \S+( \d+ \S+)? \(", "about [time] ("),
    ]}, { insta::assert_snapshot!(stdout) });
}

#[test]
fn a_plan_can_be_read_by_programs() {
    let (code, stdout, _) = ends(dmbench(&repository()).args([
        "check",
        "--json",
        "tasks/demo/worker-count.toml",
        "--set",
        "sync.worker-count=[3,5]",
    ]));
    assert_eq!(code, Exit::Ok as i32);
    let plan: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&plan["schema"], &plan["tasks"][0]["trials"]), (&1.into(), &4.into()));
    assert!(stdout.starts_with("{\n  \"schema\": 1,") && plan["checks"].is_null());
    assert_eq!(plan["tasks"][0]["points"][1]["pipeline.sync.worker-count"], "5");
}

#[test]
fn every_shell_gets_completions() {
    let here = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, stdout, _) = ends(dmbench(here.path()).args(["completions", shell]));
        assert_eq!(code, Exit::Ok as i32, "{shell}");
        assert!(stdout.contains("dmbench") && stdout.contains("verify"), "{shell}");
    }
}

#[test]
fn an_empty_folder_has_nothing_to_list() {
    let here = folder();
    let (code, stdout, _) = ends(dmbench(here.path()).arg("list"));
    assert_eq!((code, stdout.as_str()), (Exit::Ok as i32, "no tasks in tasks\n\nno runs in out\n"));
}

#[test]
fn tasks_are_listed_with_their_questions() {
    let (code, stdout, _) = ends(dmbench(&repository()).args(["list", "--json"]));
    assert_eq!(code, Exit::Ok as i32);
    let listed: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let tasks = listed["tasks"].as_array().expect("tasks");
    assert!(tasks.len() >= 15, "{stdout}");
    assert!(tasks.iter().all(|task| task["model"] != "invalid"), "{stdout}");
}

#[test]
fn a_broken_pipe_is_no_failure() {
    let here = folder();
    let exe = env!("CARGO_BIN_EXE_dmbench");
    let (code, _, stderr) = ends(Command::new("bash").current_dir(here.path()).args([
        "-o",
        "pipefail",
        "-c",
        &format!("'{exe}' completions bash | true"),
    ]));
    assert_eq!((code, stderr.as_str()), (0, ""));
}
