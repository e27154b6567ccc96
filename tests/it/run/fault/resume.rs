//! A sweep that was interrupted and resumed holds the trials of one that was not, in the same order.
//! Another task, program or server is refused, and a refusal changes not a byte.

use std::fs;

use dmbench::sweep::seats;
use dmbench::task::Task;
use rustix::process::Signal;

use super::{Running, assert_well, task};
use crate::support::contents;

/// Puts another text into a record.
fn forge(running: &Running, pointer: &str, text: &str) -> String {
    let path = running.run_folder().join("run.json");
    let before = fs::read_to_string(&path).expect("run.json");
    let mut run: serde_json::Value = serde_json::from_str(&before).expect("JSON");
    *run.pointer_mut(pointer).expect("there") = text.into();
    fs::write(&path, run.to_string()).expect("written");
    before
}

/// Resumes and checks that the refusal says why, starts nothing and leaves everything as it was.
fn assert_refused(running: &mut Running, told: &str) {
    let before = contents(&running.run_folder());
    running.resume();
    running.end_with(3);
    let stderr = running.stderr();
    assert!(stderr.contains(told), "{told} in {stderr}");
    assert!(!stderr.contains("starting"), "{stderr}");
    assert!(contents(&running.run_folder()) == before, "a refusal changes nothing: {told}");
}

#[test]
fn an_interrupted_sweep_becomes_whole() {
    let phases = "ops = 100\ndrain-limit = \"60s\"";
    let knob = "[[knob]]\nname = \"sync.batch\"\nvalues = [1, 10]\n\n[repeat]\nblocks = 2";
    let text = task("backlog", "mariadb", phases, "kind = \"closed\"", knob);
    let mut running = Running::start(&text);
    running.phase(2, "settle");
    running.signal(Signal::INT);
    running.end_with(130);
    let (_, interrupted) = running.records();
    assert_eq!(interrupted.len(), 2);

    let path = running.run_folder().join("run.json");
    for (pointer, forged, told) in [
        ("/binary-hash", "0123456789abcdef", "another build of dmbench"),
        ("/tasks/0/lab/kind", "own servers", "not on \"sandbox\""),
        ("/tasks/0/lab/target/server", "MariaDB 5.1.1", "the target was MariaDB 5.1.1 and is"),
        ("/tasks/0/hash", "0123456789abcdef", "task t has changed"),
    ] {
        let whole = forge(&running, pointer, forged);
        assert_refused(&mut running, told);
        fs::write(&path, whole).expect("restored");
    }

    running.resume();
    running.end_with(0);
    let (_, trials) = running.records();
    let task = running.folder.path().join("t.toml");
    let task = Task::load(&task, &[]).expect("the task");
    let expected = seats(&task.name, &task.hash, &task.points(), 2, task.repeat.seed);
    let expected: Vec<_> = expected.iter().map(|s| (s.order, s.block, s.point.clone())).collect();
    let held: Vec<_> = trials.iter().map(|t| (t.order, t.block, t.point.clone())).collect();
    assert_eq!(held, expected);
    trials.iter().for_each(assert_well);
    assert!(trials[0] == interrupted[0], "what had ended is kept");
}
