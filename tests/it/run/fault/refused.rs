//! Servers that are there and refuse: read-only, out of connections.

use dmbench::mysql::Flavor;
use dmbench::record::Phase;

use super::stage::Stage;
use super::{
    Running, assert_aborted, assert_well, execute, hold_pipeline, on_both, send, status, stream,
    streams, streams_of,
};
use rustix::process::Signal;

/// A target made read-only under sync ends the pipeline at once: that does not pass by itself. On
/// MySQL only: MariaDB's `read_only` does not bind an account of all privileges.
#[test]
fn a_target_made_read_only() {
    let mut running = streams_of("mysql", "4s", 2);
    let password = running.password();
    running.phase(1, "measure");
    let mut session = running.execute("target", &password, "SET GLOBAL super_read_only = ON");
    running.wait("the end of the pipeline", |r| r.processes("pipeline").is_empty().then_some(()));
    execute(&mut session, "SET GLOBAL super_read_only = OFF");
    execute(&mut session, "SET GLOBAL read_only = OFF");
    drop(session);
    running.end_with(5);
    let (_, trials) = running.records();
    let phases = ["measure", "drain"];
    assert_aborted(&trials[0], "ERROR 1290", &phases, "SET GLOBAL read_only = OFF");
    assert_well(&trials[1]);
}

/// A stream of transactions of one statement each: MySQL becomes read-only between two statements, for
/// which those of larger transactions wait that hold each other's rows.
fn inserts(server: &str, rest: &str) -> String {
    stream(server, "0s", "3s", rest).replace("oltp_write_only", "oltp_insert")
}

/// A source made read-only under the workload ends the trial at once, too.
#[test]
fn a_source_made_read_only() {
    let mut running = Running::start(&inserts("mysql", "[repeat]\nblocks = 3"));
    let password = running.password();
    running.phase(1, "measure");
    let mut session = running.execute("source", &password, "SET GLOBAL super_read_only = ON");
    running.record(1);
    execute(&mut session, "SET GLOBAL super_read_only = OFF");
    execute(&mut session, "SET GLOBAL read_only = OFF");
    drop(session);
    // The second may have begun before.
    running.record(2);
    running.end_with(5);
    let (_, trials) = running.records();
    assert_aborted(&trials[0], "ERROR 1290", &["measure"], "SET GLOBAL read_only = OFF");
    assert_well(&trials[2]);
}

/// One end after the other is made read-only for an account that is bound by it, as on other people's
/// servers.
fn read_only(flavor: Flavor) {
    let mut stage = Stage::new(flavor, &inserts("mysql", ""));
    stage.without_exemption();
    for end in ["source", "target"] {
        let refused = stage.trial(async |scene| {
            scene.phase(Phase::Measure).await;
            scene.execute(end, &["SET GLOBAL read_only = ON"]).await;
        });
        let hint = "SET GLOBAL read_only = OFF";
        assert_aborted(&refused, "ERROR 1290", &["measure", "drain"], hint);
        stage.execute(end, &["SET GLOBAL read_only = OFF"]);
    }
    assert_well(&stage.trial(async |_| {}));
}

#[test]
fn each_end_made_read_only() {
    on_both(read_only);
}

/// No connection is to be had for the comparison until others go: it is tried again until then.
#[test]
fn a_target_out_of_connections() {
    let mut running = streams("mariadb", 1);
    let password = running.password();
    running.phase(1, "measure");
    let pipeline = hold_pipeline(&mut running);
    running.phase(1, "drain");
    // More than there will be room for, whoever else goes.
    let guests: Vec<_> =
        (0..13).map(|_| running.execute("target", &password, "SET @of = 'a guest'")).collect();
    let mut session = running.execute("target", &password, "SET GLOBAL max_connections = 10");
    let refusals = "SHOW GLOBAL STATUS LIKE 'Connection_errors_max_connections'";
    let before = status(&mut session, refusals);
    send(pipeline, Signal::CONT);
    running.phase(1, "verify");
    running.wait("a refusal", |_| (status(&mut session, refusals) > before).then_some(()));
    execute(&mut session, "SET GLOBAL max_connections = 151");
    drop((guests, session));
    running.end_with(0);
    assert_well(&running.records().1[0]);
}
