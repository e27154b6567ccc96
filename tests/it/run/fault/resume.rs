//! A sweep that was interrupted and resumed holds the trials of one that was not, in the same order,
//! and another program or server is refused.

use std::fs;

use dmbench::sweep::seats;
use dmbench::task::Task;
use rustix::process::Signal;

use super::{Running, assert_well, task};

/// Puts another text into a record.
fn forge(running: &Running, pointer: &str, text: &str) -> String {
    let path = running.run_folder().join("run.json");
    let before = fs::read_to_string(&path).expect("run.json");
    let mut run: serde_json::Value = serde_json::from_str(&before).expect("JSON");
    *run.pointer_mut(pointer).expect("there") = text.into();
    fs::write(&path, run.to_string()).expect("written");
    before
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
    let whole = forge(&running, "/binary-hash", "0123456789abcdef");
    running.resume();
    running.end_with(3);
    assert!(running.stderr().contains("another build of dmbench"), "{}", running.stderr());
    fs::write(&path, &whole).expect("restored");
    forge(&running, "/tasks/0/lab/target/version", "5.1.1");
    running.resume();
    running.end_with(3);
    assert!(running.stderr().contains("the target was"), "{}", running.stderr());
    assert!(running.records().1 == interrupted, "a refusal changes no trial");
    fs::write(&path, whole).expect("restored");

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
