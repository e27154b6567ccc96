//! Other people's locks and definitions.

use super::Running;
use super::{assert_aborted, assert_well, execute, stream, streams, streams_of};

/// A lock on a target's table that outlasts the drain's limit: the trial ends at that limit with
/// nothing compared. The next trial waits for the lock in its turn.
fn target_locked(server: &str) {
    let text = stream(server, "0s", "2s", "[repeat]\nblocks = 2").replace("\"60s\"", "\"2s\"");
    let mut running = Running::start(&text);
    let password = running.password();
    running.phase(1, "measure");
    let session = running.execute("target", &password, "LOCK TABLES dmbench.sbtest1 WRITE");
    running.phase(2, "provision");
    drop(session);
    running.end();
    running.assert_nothing_runs();
    let (_, trials) = running.records();
    let first = &trials[0];
    assert!(!first.counts() && first.verdict.word() == "unchecked", "{:?}", first.outcome);
    assert_eq!(trials[1].verdict.word(), "equal", "{:?}", trials[1].outcome);
}

#[test]
fn a_locked_table_of_mysql() {
    target_locked("mysql");
}

#[test]
fn a_locked_table_of_mariadb() {
    target_locked("mariadb");
}

/// A column more is replicated; a column that the workload writes and that is gone ends the trial.
fn altered(server: &str) {
    let mut running = streams_of(server, "3s", 3);
    let password = running.password();
    running.phase(1, "measure");
    let add = "ALTER TABLE dmbench.sbtest1 ADD COLUMN extra INT NOT NULL DEFAULT 7";
    drop(running.execute("source", &password, add));
    running.record(1);
    running.phase(2, "measure");
    let remove = "ALTER TABLE dmbench.sbtest1 DROP COLUMN pad";
    drop(running.execute("source", &password, remove));
    running.record(2);
    running.end_with(5);
    let (_, trials) = running.records();
    assert_well(&trials[0]);
    let hint = "changed the tables' definition";
    assert_aborted(&trials[1], "Unknown column 'pad'", &["measure", "warm"], hint);
    assert_well(&trials[2]);
}

#[test]
fn definitions_changed_under_the_workload_on_mysql() {
    altered("mysql");
}

#[test]
fn definitions_changed_under_the_workload_on_mariadb() {
    altered("mariadb");
}

/// A lock on a source's table while it is compared: the comparison waits for it.
#[test]
fn a_locked_table_under_the_comparison() {
    let mut running = streams("mariadb", 1);
    let password = running.password();
    running.phase(1, "measure");
    let pipeline = super::hold_pipeline(&mut running);
    running.phase(1, "drain");
    let mut session = running.execute("target", &password, "LOCK TABLES dmbench._dmbench WRITE");
    super::send(pipeline, rustix::process::Signal::CONT);
    running.phase(1, "verify");
    execute(&mut session, "UNLOCK TABLES");
    drop(session);
    running.end_with(0);
    assert_well(&running.records().1[0]);
}
