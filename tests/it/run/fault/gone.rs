//! Servers that are killed or frozen, and sessions that are.

use dmbench::record::{Outcome, Trial, name};
use rustix::process::Signal;

use super::{assert_aborted, assert_well, hold_pipeline, kill_sessions, send, streams, streams_of};

/// One server after the other is killed, each in another phase of another trial; the sandbox is
/// started again for the next.
fn killed(server: &str, kills: [(&str, &str); 3]) {
    let mut running = streams(server, 4);
    for (number, (end, phase)) in (1..).zip(kills) {
        running.phase(number, phase);
        send(running.server(end), Signal::KILL);
        running.record(number);
    }
    running.end_with(5);
    let (run, trials) = running.records();
    assert!(!run.interrupted && run.ended.is_some());
    assert_eq!(trials.len(), 4);
    for (trial, (end, phase)) in trials.iter().zip(kills) {
        // What meets the loss first tells it: the vigil, or whoever had a statement under way.
        let after = ["provision", "seed", "settle", "warm", "measure", "drain", "verify"];
        let from = after.iter().position(|known| *known == phase).expect("a phase");
        assert_aborted(trial, "failed to ", &after[from..], "");
        let told = super::aborted(trial).contains(&format!("keep the {end} running: its process"));
        assert!(told, "{}", super::aborted(trial));
    }
    assert_well(&trials[3]);
}

#[test]
fn killed_servers_of_mysql() {
    killed("mysql", [("target", "seed"), ("source", "measure"), ("target", "settle")]);
}

#[test]
fn killed_servers_of_mariadb() {
    killed("mariadb", [("source", "seed"), ("target", "measure"), ("source", "settle")]);
}

/// Frozen for longer than an attempt to connect may take, twice: a target under sync, and a source
/// under verification. Nothing is lost and nothing is made up.
fn frozen(server: &str) {
    let mut running = streams(server, 1);
    running.phase(1, "measure");
    let target = running.server("target");
    send(target, Signal::STOP);
    running.phase(1, "drain");
    send(target, Signal::CONT);
    let source = running.server("source");
    running.phase(1, "verify");
    send(source, Signal::STOP);
    let frozen = std::time::Instant::now();
    running.wait("the freeze to outlast an attempt to connect", |_| {
        (frozen.elapsed() > dmbench::mysql::patience::CONNECT_LIMIT).then_some(())
    });
    send(source, Signal::CONT);
    running.end_with(0);
    let (_, trials) = running.records();
    assert_well(&trials[0]);
}

#[test]
fn frozen_servers_of_mysql() {
    frozen("mysql");
}

#[test]
fn frozen_servers_of_mariadb() {
    frozen("mariadb");
}

/// All sessions on the target are ended again and again from measure to the end of the trial; sync
/// and comparison outlive it, and the record says that it was so.
#[test]
fn killed_sessions_on_the_target() {
    let mut running = streams_of("mysql", "3s", 1);
    let password = running.password();
    running.phase(1, "measure");
    let mut session = running.execute("target", &password, "SET @of = 'the killer'");
    let mut rounds = 0;
    while !running.has_record(1) && rounds < 10 {
        if kill_sessions(&mut session, "TRUE") > 0 {
            rounds += 1;
        }
        super::execute(&mut session, "DO SLEEP(0.5)");
    }
    drop(session);
    running.end_with(0);
    let (_, trials) = running.records();
    assert_well(&trials[0]);
    let told = trials[0].findings.iter().any(|finding| finding.text.contains("tried again"));
    assert!(told, "{:?}", trials[0].findings);
    let number = |class: &str| trials[0].number(&format!("{}{class}", name::SYNC_RETRIES));
    assert!(number(".connection") > Some(0.0), "sessions were lost: {:?}", number(""));
    assert!(number("") >= number(".connection"));
}

/// The same on both ends from the trial's first phase on, on MariaDB: whatever it comes to, no row is
/// lost unnoticed, and the next trial is none the worse.
#[test]
fn killed_sessions_on_both_ends() {
    let mut running = streams("mariadb", 3);
    let password = running.password();
    running.phase(1, "seed");
    let mut sessions =
        ["source", "target"].map(|end| running.execute(end, &password, "SET @of = 'the killer'"));
    while !running.has_record(1) {
        for session in &mut sessions {
            kill_sessions(session, "TRUE");
        }
        let (session, runtime) = &mut sessions[0];
        // The run may be over by then, and its servers gone.
        if runtime.block_on(session.execute("DO SLEEP(1)")).is_err() {
            break;
        }
    }
    drop(sessions);
    let status = running.end();
    running.assert_nothing_runs();
    let (_, trials) = running.records();
    assert!(trials.iter().all(|trial| trial.verdict.word() != "differs"), "{}", running.stderr());
    assert_well(&trials[2]);
    let failed =
        |trial: &Trial| matches!(trial.outcome, Outcome::Aborted { .. } | Outcome::Invalid { .. });
    let code = if trials.iter().any(failed) { 5 } else { 0 };
    assert_eq!(status.code(), Some(code), "{}", running.stderr());
}

/// A server killed while the pipeline stands still, so that nothing but the vigil can notice.
#[test]
fn a_target_killed_in_drain() {
    let mut running = streams("mariadb", 2);
    running.phase(1, "measure");
    hold_pipeline(&mut running);
    running.phase(1, "drain");
    send(running.server("target"), Signal::KILL);
    running.record(1);
    running.end_with(5);
    let (_, trials) = running.records();
    assert_aborted(&trials[0], "keep the target running: its process", &["drain"], "");
    assert_well(&trials[1]);
}
