//! Servers of one's own that are restarted under a trial: nobody starts those of a sandbox again, so
//! the trial runs in this process on servers that the test restarts.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use dmbench::event::{Event, Events};
use dmbench::lab::Lab;
use dmbench::mysql::{Endpoint, Flavor, Session};
use dmbench::record::{Phase, Trial};
use dmbench::task::Task;
use dmbench::telemetry::Gauges;
use dmbench::trial::{self, Bench, Seat};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use super::{assert_well, send, stream};
use crate::support::{DMBENCH, fresh_pair, runtime, schema, wait_until};

/// A server that this test started. Dropping it kills it.
struct Restarted(Child);

impl Drop for Restarted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a server and starts it as it was started, on the same port.
fn restart(pid: u32) -> Restarted {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    // What the first start reads is not kept.
    let words = words.filter(|word| !word.is_empty() && !word.starts_with("--init-file="));
    let words: Vec<_> = words.map(|word| word.into_owned()).collect();
    send(pid, Signal::KILL);
    // Locks on its files go with the process.
    wait_until("the server is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
    });
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Restarted(command.spawn().expect("the server starts again"))
}

/// One trial of a stream on a lab, with something done when measure begins.
fn trial_on(lab: Lab, at_measure: impl FnOnce() + Send + 'static) -> Trial {
    let scratch = tempfile::tempdir().expect("folder");
    let text = stream("mysql", "0s", "3s", "");
    let task = Task::parse(Path::new("t.toml"), &text, &[]).expect("a task");
    let point = task.points().remove(0);
    let task = task.at(&point).expect("a point");
    let seat = Seat {
        task: "t".to_owned(),
        task_hash: task.hash.clone(),
        point,
        block: 1,
        order: 1,
        order_in_block: 1,
    };
    let (events, mut happenings) = Events::channel();
    let schema = schema("restart");
    let (folder, gauges) = (scratch.path().join("scratch"), Gauges::new());
    let mut bench =
        Bench::new(lab, &folder, Path::new(DMBENCH), "a run", &schema, &events, &gauges);
    let samples = scratch.path().join("samples.jsonl");
    runtime().block_on(async {
        let fault = async {
            while let Some(event) = happenings.recv().await {
                if matches!(event, Event::PhaseBegan { phase: Phase::Measure, .. }) {
                    break;
                }
            }
            tokio::task::spawn_blocking(at_measure).await.expect("it is done");
            std::future::pending::<()>().await;
        };
        let cancel = CancellationToken::new();
        tokio::select! {
            trial = trial::run(&mut bench, &task, &seat, samples, &cancel) => trial,
            () = fault => unreachable!("it pends"),
        }
    })
}

/// Restarts one end under sync.
fn restarted(flavor: Flavor, end: &'static str) -> Trial {
    let pair = fresh_pair(flavor);
    let mut lab = pair.lab().clone();
    let pid = lab.processes.iter().find(|(name, _)| name == end).expect("it has a process").1;
    // As a lab of one's own has it: nobody knows its processes.
    lab.processes.clear();
    let back = std::sync::Arc::new(std::sync::Mutex::new(None));
    let kept = std::sync::Arc::clone(&back);
    let trial = trial_on(lab, move || {
        *kept.lock().expect("ours") = Some(restart(pid));
    });
    assert_answers(if end == "source" { pair.source() } else { pair.target() });
    trial
}

fn assert_answers(endpoint: &Endpoint) {
    runtime().block_on(Session::connect(endpoint)).expect("the server is back");
}

/// Rows under way are applied once the target is back, and the record says so.
fn target_restarted(flavor: Flavor) {
    let trial = restarted(flavor, "target");
    assert_well(&trial);
    let told = trial.findings.iter().any(|finding| finding.text.contains("tried again"));
    assert!(told, "{:?}", trial.findings);
}

#[test]
fn the_target_on_mysql() {
    target_restarted(Flavor::Mysql);
}

#[test]
fn the_target_on_mariadb() {
    target_restarted(Flavor::Mariadb);
}

/// Clients and the binlog's reader connect again. An op whose commit was cut off may be of unknown
/// fate, which makes the trial invalid; the ends are equal all the same.
fn source_restarted(flavor: Flavor) {
    let trial = restarted(flavor, "source");
    assert_eq!(trial.verdict.word(), "equal", "{:?} {:?}", trial.outcome, trial.verdict);
}

#[test]
fn the_source_on_mysql() {
    source_restarted(Flavor::Mysql);
}

#[test]
fn the_source_on_mariadb() {
    source_restarted(Flavor::Mariadb);
}
