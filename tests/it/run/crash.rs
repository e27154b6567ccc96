//! kill -9 of dmbench, and going on where it stopped.

use dmbench::record::Outcome;
use rustix::process::Signal;

use super::{Running, dmbench, stream};

/// Killed in the second of two trials; p99 lag has a limit that nothing meets, so that the run ends
/// with exit code 7 once it is complete.
#[test]
fn a_killed_run_leaves_no_process_and_is_resumed() {
    let limited = "[limits]\nlag-p99 = \"1us\"\n\n[repeat]\nblocks = 2";
    let text = stream("mysql", "500ms", "2s", limited);
    let mut running = Running::start(&text);
    running.phase(2, "measure");
    running.signal(Signal::KILL);
    running.end();
    running.assert_nothing_runs();
    let (run, trials) = running.records();
    assert!(run.ended.is_none() && !run.interrupted);
    assert_eq!(trials.len(), 1, "the second trial had not ended");
    let first = trials[0].clone();

    let here = running.folder.path().to_owned();
    let folder = running.run_folder();
    let folder = folder.to_str().expect("plain");
    let resume = ["run", "t.toml", "--resume", folder];
    std::fs::write(here.join("t.toml"), text.replace("clients = 4", "clients = 5")).expect("task");
    let (code, _, stderr) = dmbench(&here, &resume, &[]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("task t has changed"), "{stderr}");
    assert!(running.records() == (run, trials), "a refusal changes nothing");

    std::fs::write(here.join("t.toml"), text).expect("task");
    running.resume();
    running.end_with(7);
    let (run, trials) = running.records();
    assert!(run.ended.is_some());
    assert_eq!(trials.iter().map(|t| t.order).collect::<Vec<_>>(), [1, 2]);
    assert!(trials[0] == first, "what had ended is kept");
    for trial in &trials {
        let limit_missed =
            matches!(trial.outcome, Outcome::Bounded { .. } | Outcome::Saturated { .. });
        assert!(limit_missed, "{:?}", trial.outcome);
        assert_eq!(trial.verdict.word(), "equal");
    }
    let (code, _, stderr) = dmbench(&here, &["report", folder], &[]);
    assert_eq!(code, 7, "{stderr}");
}
