//! Twenty rows, sixteen clients and workers, every script: what is committed is applied, and both ends
//! are equal. The same runs show that passwords stay out of files and that reports need no server.

use std::fs;
use std::path::Path;

use dmbench::record::name;

use super::{Running, command_line, dmbench, marked, stream};
use crate::support::has_tidb;

fn hot(server: &str) -> String {
    let scripts = r#"
[[knob]]
name = "workload.script"
values = ["oltp_insert", "oltp_write_only", "oltp_update_index"]
"#;
    stream(server, "500ms", "2s", scripts)
        .replace("table-size = 200", "table-size = 20")
        .replace("worker-count = 4", "worker-count = 16")
        .replace("clients = 4", "clients = 16")
        .replace("script = \"oltp_write_only\"\n", "")
}

fn check(server: &str) {
    let mut running = Running::start(&hot(server));
    let password = running.password();
    assert_eq!(password.len(), 32, "{password}");
    running.phase(1, "measure");
    let commands: Vec<_> = marked(&running.mark).into_iter().map(command_line).collect();
    assert!(commands.len() >= 5, "dmbench, guard, two servers, pipeline: {commands:?}");
    for command in &commands {
        assert!(!command.contains(&password), "{command}");
    }
    running.end_with(0);

    let (run, trials) = running.records();
    assert_eq!(trials.len(), 3);
    for trial in &trials {
        let (committed, applied) =
            (trial.number(name::COMMITTED_ROWS), trial.number(name::APPLIED_ROWS));
        assert!(committed > Some(100.0), "{:?}: {committed:?}", trial.point);
        assert_eq!(committed, applied, "{:?}", trial.point);
        assert_eq!(trial.verdict.word(), "equal", "{:?}: {:?}", trial.point, trial.verdict);
        let word = trial.outcome.word();
        assert!(!["invalid", "aborted"].contains(&word), "{:?}", trial.outcome);
    }
    assert!(run.ended.is_some() && !run.interrupted);
    let read = assert_no_file_has(&running.run_folder(), password.as_bytes());
    assert!(read > 6, "run.json, three trials, reports, log: only {read} files");
    assert_reports_need_no_server(&running);
}

fn assert_no_file_has(folder: &Path, secret: &[u8]) -> u32 {
    let mut read = 0;
    for entry in fs::read_dir(folder).expect("folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read += assert_no_file_has(&path, secret);
        } else {
            let bytes = fs::read(&path).expect("readable");
            let found = bytes.windows(secret.len()).any(|window| window == secret);
            assert!(!found, "{} has the password", path.display());
            read += 1;
        }
    }
    read
}

fn assert_reports_need_no_server(running: &Running) {
    let folder = running.run_folder();
    let run = folder.to_str().expect("plain");
    for (format, file) in [("json", "report.json"), ("markdown", "report.md")] {
        let words = ["report", run, "--format", format];
        let (code, stdout, stderr) = dmbench(running.folder.path(), &words, &[("PATH", "")]);
        assert_eq!(code, 0, "{stderr}");
        let before = fs::read_to_string(folder.join(file)).expect("report");
        let differing = stdout.lines().zip(before.lines()).find(|(now, then)| now != then);
        assert_eq!(differing, None, "{file}");
        assert_eq!(stdout.len(), before.len(), "{file}");
    }
}

#[test]
fn on_mysql() {
    check("mysql");
}

#[test]
fn on_mariadb() {
    check("mariadb");
}

#[test]
fn on_tidb() {
    if has_tidb() {
        check("tidb");
    }
}
