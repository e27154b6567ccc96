//! Faults in the middle of a timed dump and a timed load. A dump has one position and is never pieced
//! together; a load goes on. Each fault is put into a trial of its own, and the next one is none the
//! worse for it.

use std::time::Duration;

use dmbench::mysql::Flavor;
use dmbench::record::{Outcome, Phase, Trial, name};
use rustix::process::Signal;

use super::super::import::{ROWS, bulk, import};
use super::stage::Stage;
use super::{Running, assert_aborted, assert_well, on_both, send, side_by_side};

/// A network slow enough that a dump and a load last about a second each.
fn stage(flavor: Flavor) -> Stage {
    let mut stage = Stage::new(flavor, &bulk(1));
    stage.slow(Duration::from_millis(20));
    stage
}

/// Checks that a trial ended well and tells what was tried again, with a reason.
fn assert_tried_again(trial: &Trial) {
    assert_well(trial);
    assert!(matches!(trial.outcome, Outcome::Finished { .. }), "{:?}", trial.outcome);
    assert_eq!(trial.metric(name::LOAD_ROWS_RATE).expect("a rate").n, ROWS);
    let remark = trial.findings.iter().find(|finding| finding.code == "pipeline-remark");
    let remark = &remark.expect("it is told").text;
    assert!(remark.contains("again") && remark.contains("because: "), "{remark}");
}

/// Checks that a trial was aborted in its dump.
fn assert_dump_lost(trial: &Trial) {
    assert_aborted(trial, "run \"SELECT ", &["measure"], "sessions were killed");
    assert!(trial.metric(name::DUMP_TIME).is_none(), "{:?}", trial.metrics);
}

fn dump_lost(stage: &mut Stage) {
    let killed = stage.trial(async |scene| {
        scene.hold_dump().await;
        scene.kill_sessions("source").await;
        scene.source.stall(false);
    });
    assert_dump_lost(&killed);
    let cut = stage.trial(async |scene| {
        scene.hold_dump().await;
        scene.source.cut();
        scene.source.stall(false);
    });
    assert_dump_lost(&cut);
    let restarted = stage.trial(async |scene| {
        scene.hold_dump().await;
        scene.restart("source").await;
        scene.source.stall(false);
    });
    assert_dump_lost(&restarted);
    let begin = stage.trial(async |scene| {
        scene.hold_before_dump().await;
        scene.source.cut();
        scene.source.stall(false);
    });
    assert_tried_again(&begin);
}

fn load_goes_on(stage: &mut Stage) {
    // Ever later: while it connects, forgets what was loaded before, makes its tables.
    let begin = stage.trial(async |scene| {
        scene.hold_before_load().await;
        scene.target.stall(false);
        for later in 1..8 {
            scene.cut_target_after(Duration::from_millis(25 * later)).await;
        }
    });
    assert_well(&begin);
    let killed = stage.trial(async |scene| {
        scene.hold_load().await;
        scene.kill_sessions("target").await;
        scene.target.stall(false);
    });
    assert_tried_again(&killed);
    let cut = stage.trial(async |scene| {
        scene.hold_load().await;
        scene.target.cut();
        scene.target.stall(false);
    });
    assert_tried_again(&cut);
    let restarted = stage.trial(async |scene| {
        scene.hold_load().await;
        scene.restart("target").await;
        scene.target.stall(false);
    });
    assert_tried_again(&restarted);
}

/// A target that becomes read-only under the load is not tried again: that does not pass by itself. On
/// MySQL only, since MariaDB lets whoever has all privileges write.
fn target_made_read_only(stage: &mut Stage) {
    let refused = stage.trial(async |scene| {
        scene.hold_load().await;
        scene.execute("target", &["SET GLOBAL super_read_only = ON"]).await;
        scene.target.stall(false);
    });
    assert_aborted(&refused, "ERROR 1290", &["measure"], "SET GLOBAL read_only = OFF");
    stage.execute("target", &["SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"]);
    assert_well(&stage.trial(async |_| {}));
}

#[test]
fn a_lost_dump_and_a_load_that_goes_on() {
    on_both(|flavor| {
        let mut stage = stage(flavor);
        dump_lost(&mut stage);
        load_goes_on(&mut stage);
        if flavor == Flavor::Mysql {
            target_made_read_only(&mut stage);
        }
    });
}

/// The target's tablespace has no room for all rows: the trial ends at once, and the next when there is.
fn target_full(flavor: Flavor) {
    let task = bulk(1).replace("table-size = 2000", "table-size = 60_000");
    let task = task.replace("rows = 25", "rows = 10_000").replace("size = 2000", "size = 200_000");
    let mut stage = Stage::new(flavor, &task);
    let full = stage.trial(async |scene| {
        scene.phase(Phase::Seed).await;
        let small = "--innodb-data-file-path=ibdata1:12M:autoextend:max:14M";
        scene.restart_with("target", &[small, "--innodb-file-per-table=OFF"]).await;
    });
    assert_aborted(&full, "ERROR 1114", &["measure"], "disk or tablespace is full: make room");
    // Files of their own have room.
    stage.execute("target", &["SET GLOBAL innodb_file_per_table = ON"]);
    assert_well(&stage.trial(async |_| {}));
}

#[test]
fn a_full_target() {
    on_both(target_full);
}

/// A server of a sandbox is killed in the dump or the load of a trial; it is started again for the next.
fn server_killed(server: &str, end: &str) {
    let mut running = Running::start(&import(server, 2));
    let password = running.password();
    running.phase(1, "measure");
    let pipeline = match end {
        "source" => running.hold_dump(),
        _ => running.hold_load(&password),
    };
    send(running.server(end), Signal::KILL);
    send(pipeline, Signal::CONT);
    running.record(1);
    running.end_with(5);
    let (run, trials) = running.records();
    assert!(!run.interrupted && run.ended.is_some() && trials.len() == 2);
    let told = format!("keep the {end} running: its process");
    assert_aborted(&trials[0], &told, &["measure"], "ran out of memory");
    // What was measured before is kept.
    assert_eq!(trials[0].metric(name::DUMP_TIME).is_some(), end == "target");
    assert_well(&trials[1]);
}

#[test]
fn a_killed_server() {
    side_by_side(|| server_killed("mariadb", "source"), || server_killed("mysql", "target"));
}
