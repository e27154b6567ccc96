//! A binlog that is purged under its reader, or written in another form by somebody else.

use dmbench::mysql::Session;
use rustix::process::Signal;
use tokio::runtime::Runtime;

use super::{
    assert_aborted, assert_well, execute, hold_pipeline, kill_sessions, send, streams, streams_of,
};

/// The reader stands still, its connection is cut, and what it has yet to read is purged.
fn purged(server: &str) {
    let mut running = streams(server, 2);
    let password = running.password();
    running.phase(1, "measure");
    let pipeline = hold_pipeline(&mut running);
    // What is written from now on can only be had by connecting again, and a file that is being read
    // is not purged.
    let mut session = running.execute("source", &password, "SET @of = 'the purger'");
    running.wait("the reader's end", |_| {
        (kill_sessions(&mut session, "command LIKE 'Binlog Dump%'") == 0).then_some(())
    });
    execute(&mut session, "UPDATE dmbench.sbtest1 SET k = k + 1 WHERE id = 7");
    running.phase(1, "drain");
    execute(&mut session, "FLUSH BINARY LOGS");
    execute(&mut session, "FLUSH BINARY LOGS");
    // A server may hold on to a file for a moment after its reader has gone.
    running.wait("the purge", |_| {
        let last = binlogs(&mut session).pop().expect("a file");
        execute(&mut session, &format!("PURGE BINARY LOGS TO '{last}'"));
        (binlogs(&mut session).len() == 1).then_some(())
    });
    drop(session);
    send(pipeline, Signal::CONT);
    running.record(1);
    running.end_with(5);
    let (_, trials) = running.records();
    assert_aborted(&trials[0], "ERROR 1236", &["drain"], "no longer has the binlog");
    assert_well(&trials[1]);
}

fn binlogs((session, runtime): &mut (Session, Runtime)) -> Vec<String> {
    let rows = runtime.block_on(session.rows("SHOW BINARY LOGS")).expect("the files");
    rows.iter().map(|row| row.get(0).expect("a name")).collect()
}

#[test]
fn purged_on_mysql() {
    purged("mysql");
}

#[test]
fn purged_on_mariadb() {
    purged("mariadb");
}

/// Rows without all columns, then a statement instead of rows: sync ends and names the table.
fn other_form(server: &str) {
    // Long enough for a loaded machine: what ends a trial ends it at once.
    let mut running = streams_of(server, "20s", 3);
    let password = running.password();
    running.phase(1, "measure");
    let mut session =
        running.execute("source", &password, "SET SESSION binlog_row_image = 'MINIMAL'");
    execute(&mut session, "UPDATE dmbench.sbtest1 SET k = k + 1 WHERE id = 7");
    drop(session);
    running.record(1);
    running.phase(2, "measure");
    let mut session =
        running.execute("source", &password, "SET SESSION binlog_format = 'STATEMENT'");
    execute(&mut session, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    execute(&mut session, "UPDATE dmbench.sbtest1 SET k = k + 1 WHERE id = 7");
    drop(session);
    running.record(2);
    running.end_with(5);
    let (_, trials) = running.records();
    for trial in &trials[..2] {
        assert_aborted(trial, "sbtest1", &["measure", "drain"], "");
    }
    assert_well(&trials[2]);
}

#[test]
fn another_form_on_mysql() {
    other_form("mysql");
}

#[test]
fn another_form_on_mariadb() {
    other_form("mariadb");
}
