//! Ctrl-C in every phase of a trial: a marked record, exit code 130, no process.
//!
//! Phases that pass quickly are held from outside: a stopped pipeline applies nothing, a locked
//! table on the source cannot be compared.

use dmbench::record::{Verdict, name};
use rustix::process::Signal;

use super::import::import;
use super::{Running, aborted, send, stream, task};

const INTERRUPTED: i32 = 130;

/// Checks what an interrupted run leaves; the phase named is one of `phases`.
fn assert_marked(running: &mut Running, phases: &[&str]) {
    running.end_with(INTERRUPTED);
    let (run, trials) = running.records();
    assert!(run.interrupted && run.ended.is_some());
    assert_eq!(trials.len(), 1);
    let reason = aborted(&trials[0]);
    let named = phases.iter().any(|phase| reason == format!("interrupted in phase {phase}"));
    assert!(named, "{reason}, expected one of {phases:?}");
    assert!(matches!(trials[0].verdict, Verdict::Unchecked { .. }), "{:?}", trials[0].verdict);
    let report = std::fs::read_to_string(running.run_folder().join("report.md")).expect("report");
    assert!(report.contains("interrupted"), "{report}");
}

/// A stream that reaches no end by itself within the test.
fn long_stream() -> Running {
    Running::start(&stream("mysql", "30s", "60s", ""))
}

fn short_stream(measure: &str) -> Running {
    Running::start(&stream("mysql", "0s", measure, ""))
}

fn backlog() -> Running {
    let phases = "ops = 100\ndrain-limit = \"60s\"";
    Running::start(&task("backlog", "mariadb", phases, "kind = \"closed\"", ""))
}

/// Stops the pipeline's process, so that nothing is applied any more.
fn hold_pipeline(running: &mut Running) -> u32 {
    let pid = running.wait("the pipeline", |r| r.processes("pipeline").first().copied());
    send(pid, Signal::STOP);
    pid
}

/// Locks a table of the source, so that it cannot be compared, for as long as `meanwhile` takes.
fn with_locked_source(running: &mut Running, password: &str, meanwhile: impl FnOnce(&mut Running)) {
    let lock = "LOCK TABLES dmbench.sbtest1 WRITE";
    let _session = running.execute("source", password, lock);
    meanwhile(running);
}

#[test]
fn a_stream_in_provision_or_seed() {
    let mut running = long_stream();
    running.phase(1, "provision");
    running.signal(Signal::INT);
    assert_marked(&mut running, &["provision", "seed"]);
}

#[test]
fn a_stream_in_settle() {
    let mut running = long_stream();
    running.phase(1, "settle");
    running.signal(Signal::INT);
    assert_marked(&mut running, &["settle"]);
}

#[test]
fn a_stream_in_warm() {
    let mut running = long_stream();
    running.phase(1, "warm");
    running.signal(Signal::INT);
    assert_marked(&mut running, &["warm"]);
}

/// What was committed before Ctrl-C is drained, and the record has the figures so far.
#[test]
fn a_stream_in_measure() {
    let mut running = short_stream("60s");
    running.phase(1, "measure");
    running.wait("some rows applied", |r| {
        let samples = r.run_folder().join("samples/t-0001-b1.jsonl");
        (std::fs::read_to_string(samples).ok()?.lines().count() > 5).then_some(())
    });
    running.signal(Signal::INT);
    assert_marked(&mut running, &["measure"]);
    let (_, trials) = running.records();
    for metric in [name::DRAIN_TIME, name::ACHIEVED] {
        assert!(trials[0].metric(metric).is_some(), "{metric}: {:?}", trials[0].metrics);
    }
}

#[test]
fn a_stream_in_drain() {
    let mut running = short_stream("2s");
    running.phase(1, "measure");
    let pipeline = hold_pipeline(&mut running);
    running.phase(1, "drain");
    running.signal(Signal::INT);
    running.wait("the first signal taken", |r| r.stderr().contains("stopping:").then_some(()));
    send(pipeline, Signal::CONT);
    assert_marked(&mut running, &["drain"]);
}

#[test]
fn a_stream_in_verify() {
    let mut running = short_stream("2s");
    let password = running.password();
    running.phase(1, "measure");
    let pipeline = hold_pipeline(&mut running);
    running.phase(1, "drain");
    with_locked_source(&mut running, &password, |running| {
        send(pipeline, Signal::CONT);
        running.phase(1, "verify");
        running.signal(Signal::INT);
        assert_marked(running, &["verify"]);
    });
}

#[test]
fn a_backlog_in_seed() {
    let mut running = backlog();
    running.phase(1, "seed");
    running.signal(Signal::TERM);
    assert_marked(&mut running, &["seed"]);
}

#[test]
fn a_backlog_in_settle() {
    let mut running = backlog();
    running.phase(1, "settle");
    running.signal(Signal::INT);
    assert_marked(&mut running, &["settle"]);
}

#[test]
fn a_backlog_in_measure() {
    let mut running = backlog();
    running.phase(1, "settle");
    hold_pipeline(&mut running);
    running.phase(1, "measure");
    running.signal(Signal::INT);
    assert_marked(&mut running, &["measure"]);
}

#[test]
fn a_backlog_in_verify() {
    let mut running = backlog();
    let password = running.password();
    running.phase(1, "settle");
    let pipeline = hold_pipeline(&mut running);
    running.phase(1, "measure");
    with_locked_source(&mut running, &password, |running| {
        send(pipeline, Signal::CONT);
        running.phase(1, "verify");
        running.signal(Signal::INT);
        assert_marked(running, &["verify"]);
    });
}

/// Interrupts an import whose pipeline stands still, and lets it go on.
fn interrupt_held(running: &mut Running, pipeline: u32) {
    running.signal(Signal::INT);
    running.wait("the first signal taken", |r| r.stderr().contains("stopping:").then_some(()));
    send(pipeline, Signal::CONT);
    assert_marked(running, &["measure"]);
}

fn in_its_dump() {
    let mut running = Running::start(&import("mysql", 1));
    running.phase(1, "measure");
    let pipeline = running.hold_dump();
    interrupt_held(&mut running, pipeline);
    assert!(running.records().1[0].metric(name::DUMP_TIME).is_none());
}

/// What the dump took is known by then and kept.
fn in_its_load() {
    let mut running = Running::start(&import("mariadb", 1));
    let password = running.password();
    running.phase(1, "measure");
    let pipeline = running.hold_load(&password);
    interrupt_held(&mut running, pipeline);
    let (_, trials) = running.records();
    assert!(trials[0].metric(name::DUMP_TIME).is_some(), "{:?}", trials[0].metrics);
    assert!(trials[0].metric(name::LOAD_TIME).is_none());
}

/// Side by side, since much of both is waiting.
#[test]
fn an_import() {
    std::thread::scope(|threads| {
        threads.spawn(in_its_dump);
        threads.spawn(in_its_load);
    });
}

#[test]
fn a_drive_in_measure() {
    let phases = "warm = \"0s\"\nmeasure = \"100s\"";
    let text = task("drive", "mariadb", phases, "kind = \"closed\"", "");
    let (before, rest) = text.split_once("[pipeline]").expect("a pipeline");
    let (_, after) = rest.split_once("[sandbox]").expect("a sandbox");
    let mut running = Running::start(&format!("{before}[sandbox]{after}"));
    running.phase(1, "measure");
    running.wait("some ops", |r| {
        let stderr = r.stderr();
        let (_, after) = stderr.split_once("metrics at http://")?;
        let series = super::scrape(after.split_once("/metrics\n")?.0)?;
        let line = series.lines().find(|line| line.starts_with("dmbench_committed_ops_total "))?;
        (line.rsplit(' ').next()?.parse::<f64>().ok()? > 0.0).then_some(())
    });
    running.signal(Signal::INT);
    assert_marked(&mut running, &["measure"]);
    let (_, trials) = running.records();
    assert!(trials[0].number(name::ACHIEVED) > Some(0.0), "{:?}", trials[0].metrics);
}

/// The second Ctrl-C abandons a drain that the first one allowed.
#[test]
fn twice_ends_at_once() {
    let mut running = short_stream("60s");
    running.phase(1, "measure");
    hold_pipeline(&mut running);
    running.signal(Signal::INT);
    running.wait("the first signal taken", |r| r.stderr().contains("stopping:").then_some(()));
    running.phase(1, "drain");
    running.signal(Signal::INT);
    running.end_with(INTERRUPTED);
    assert!(running.stderr().contains("abandoned"), "{}", running.stderr());
    let (run, trials) = running.records();
    assert!(run.ended.is_none() && trials.is_empty(), "nothing is made up for what was abandoned");
}
