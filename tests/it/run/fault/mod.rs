//! Faults of servers, sessions, disks and people while a run is under way.
//!
//! A fault is put in when a phase is reached, never after a time. Of each it is asserted how the trial
//! at hand ended, what its record says, that a later trial of the same sweep ended equal, the exit
//! code, and that no process is left.

mod binlog;
mod disk;
mod freeze;
mod gone;
mod import;
mod lock;
mod reach;
mod refused;
mod restart;
mod resume;
mod stage;

use dmbench::mysql::{Flavor, Session};
use dmbench::record::{Level, Outcome, Trial};
use rustix::process::Signal;
use tokio::runtime::Runtime;

use super::{Running, aborted, command_line, dmbench, marked, send, stream, task};

/// A stream of so many trials, two seconds each.
fn streams(server: &str, blocks: u32) -> Running {
    streams_of(server, "2s", blocks)
}

fn streams_of(server: &str, measure: &str, blocks: u32) -> Running {
    let repeat = format!("[repeat]\nblocks = {blocks}");
    Running::start(&stream(server, "0s", measure, &repeat))
}

impl Running {
    /// The process of `source` or `target`.
    fn server(&self, end: &str) -> u32 {
        let data = format!("/sandbox/{end}/");
        let is_server = |pid: &u32| {
            let line = command_line(*pid);
            line.contains("--datadir=") && line.contains(&data) && !line.contains("__guard")
        };
        marked(&self.mark).into_iter().find(is_server).expect("the server runs")
    }

    /// Whether the trial of a number has left its record.
    fn has_record(&self, number: u32) -> bool {
        let begin = format!("t-{number:04}-");
        let Some(run) = self.find_run_folder() else { return false };
        let trials = std::fs::read_dir(run.join("trials")).into_iter().flatten().flatten();
        trials.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&begin))
    }

    /// Waits for the record of a trial that is not the last.
    fn record(&mut self, number: u32) {
        self.wait(&format!("the record of trial {number}"), |r| r.has_record(number).then_some(()));
    }
}

/// A statement on a session that [`Running::execute`] gave.
fn execute((session, runtime): &mut (Session, Runtime), statement: &str) {
    runtime.block_on(session.execute(statement)).expect("the server takes it");
}

/// A number in the second column of the answer's first row.
fn status((session, runtime): &mut (Session, Runtime), statement: &str) -> u64 {
    let rows = runtime.block_on(session.rows(statement)).expect("the server answers");
    rows.first().and_then(|row| row.get(1)).expect("a number")
}

/// Ends all sessions but the one given; those that are gone by then do not matter.
fn kill_sessions((session, runtime): &mut (Session, Runtime), which: &str) -> usize {
    let list = format!(
        "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = \
         'root' AND {which}"
    );
    runtime.block_on(async {
        let rows = session.rows(&list).await.expect("the list of sessions");
        for row in &rows {
            let id: u64 = row.get(0).expect("an id");
            let _ = session.execute(&format!("KILL {id}")).await;
        }
        rows.len()
    })
}

/// Checks that a trial ended as if nothing had been.
fn assert_well(trial: &Trial) {
    assert_eq!(trial.verdict.word(), "equal", "{:?} {:?}", trial.outcome, trial.verdict);
    let usable = !matches!(trial.outcome, Outcome::Aborted { .. } | Outcome::Invalid { .. });
    assert!(usable, "{:?}", trial.outcome);
}

/// Checks that a trial was aborted for a reason that has these words, in one of these phases, and that
/// its finding says so with a hint of these words.
fn assert_aborted(trial: &Trial, words: &str, phases: &[&str], hint: &str) {
    let reason = aborted(trial);
    let placed = phases.iter().any(|phase| reason.ends_with(&format!(", in phase {phase}")));
    assert!(reason.contains(words) && placed, "{reason}\nexpected {words} in {phases:?}");
    assert!(!reason.contains('\n'), "{reason}");
    assert_eq!(trial.verdict.word(), "unchecked");
    let finding = trial.findings.iter().find(|finding| finding.code == "trial-aborted");
    let finding = finding.expect("a finding tells why");
    assert_eq!(finding.level, Level::Error);
    assert!(reason.starts_with(&finding.evidence), "{finding:?}");
    assert!(finding.hint.contains(hint), "{finding:?}");
}

/// Stops the trial's pipeline, so that a phase lasts.
fn hold_pipeline(running: &mut Running) -> u32 {
    let pid = running.wait("the pipeline", |r| r.processes("pipeline").first().copied());
    send(pid, Signal::STOP);
    pid
}

/// Does two things side by side, since much of a fault is waiting.
fn side_by_side(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    std::thread::scope(|threads| {
        threads.spawn(one);
        threads.spawn(other);
    });
}

/// Tests a fault on both flavours side by side.
fn on_both(test: fn(Flavor)) {
    side_by_side(|| test(Flavor::Mysql), || test(Flavor::Mariadb));
}
