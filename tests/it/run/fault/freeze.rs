//! Servers and networks that stand still for a while: the trial outlives it, and what was lost of time
//! is in its figures.

use std::time::Duration;

use dmbench::mysql::Flavor;
use dmbench::mysql::patience::CONNECT_LIMIT;
use dmbench::record::{Metric, Outcome, Phase, Trial, name};

use super::super::import::bulk;
use super::stage::Stage;
use super::{assert_well, side_by_side, stream};

/// What a server or a network may be still for without a trial ending.
const LONG: Duration = Duration::from_secs(20);
/// Longer than an attempt to connect may take.
const MEDIUM: Duration = CONNECT_LIMIT.saturating_add(Duration::from_secs(1));
/// Enough to be told from what a unit takes anyway.
const SHORT: Duration = Duration::from_secs(3);

/// Checks that a unit's time has all of a standstill and its rate is over that time.
fn assert_holds(trial: &Trial, time: &str, rate: &str, still: Duration) {
    assert_well(trial);
    assert!(matches!(trial.outcome, Outcome::Finished { .. }), "{:?}", trial.outcome);
    let seconds = trial.number(time).expect("a time");
    assert!(seconds >= still.as_secs_f64(), "{time} is {seconds}");
    let rate = trial.metric(rate).expect("a rate");
    let rows = rate.as_number().expect("a number") * seconds;
    assert!((rows - rate.n as f64).abs() < 1.0, "{rate:?} over {seconds} s");
}

/// The network of a dump, then that of a load.
fn network_of_an_import(stage: &mut Stage) {
    let trial = stage.trial(async |scene| {
        scene.hold_dump().await;
        tokio::time::sleep(SHORT).await;
        scene.source.stall(false);
        scene.hold_load_of_this_trial().await;
        tokio::time::sleep(SHORT).await;
        scene.target.stall(false);
    });
    assert_holds(&trial, name::DUMP_TIME, name::DUMP_ROWS_RATE, SHORT);
    assert_holds(&trial, name::LOAD_TIME, name::LOAD_ROWS_RATE, SHORT);
}

/// The source itself in a dump, for everybody.
fn source_under_a_dump(stage: &mut Stage) {
    let trial = stage.trial(async |scene| {
        scene.hold_dump().await;
        scene.source.stall(false);
        scene.freeze("source", MEDIUM).await;
    });
    assert_holds(&trial, name::DUMP_TIME, name::DUMP_ROWS_RATE, MEDIUM);
}

/// The target itself in a load.
fn target_under_a_load(stage: &mut Stage) {
    let trial = stage.trial(async |scene| {
        scene.hold_load().await;
        scene.target.stall(false);
        scene.freeze("target", LONG).await;
    });
    assert_holds(&trial, name::LOAD_TIME, name::LOAD_ROWS_RATE, LONG);
}

/// The source while it is filled.
fn seed(stage: &mut Stage) {
    stage.slow(Duration::ZERO);
    stage.next_is(&stream("mysql", "0s", "2s", ""));
    let trial = stage.trial(async |scene| {
        scene.phase(Phase::Seed).await;
        scene.freeze("source", MEDIUM).await;
    });
    assert_well(&trial);
}

/// The pipeline's way to the target is held up within the window: the lag of markers has all of it.
fn way_of_a_stream(stage: &mut Stage) {
    stage.slow(Duration::ZERO);
    stage.next_is(&stream("mysql", "0s", "5s", ""));
    let trial = stage.trial(async |scene| {
        scene.phase(Phase::Measure).await;
        scene.target.stall(true);
        tokio::time::sleep(SHORT).await;
        scene.target.stall(false);
    });
    assert_well(&trial);
    let lag = trial.metric(name::LAG_MARKER).and_then(Metric::as_histogram).expect("markers");
    // A marker may have been written a tenth of a second after the stall began.
    let longest = lag.quantile(1.0).expect("some");
    assert!(longest >= (SHORT - Duration::from_millis(500)).as_micros() as u64, "{longest} us");
}

fn of_an_import(flavor: Flavor) -> Stage {
    let mut stage = Stage::new(flavor, &bulk(1));
    stage.slow(Duration::from_millis(20));
    network_of_an_import(&mut stage);
    stage
}

#[test]
fn nothing_is_lost_and_no_time_either() {
    let mysql = || {
        let mut stage = of_an_import(Flavor::Mysql);
        target_under_a_load(&mut stage);
        way_of_a_stream(&mut stage);
    };
    let mariadb = || {
        let mut stage = of_an_import(Flavor::Mariadb);
        source_under_a_dump(&mut stage);
        seed(&mut stage);
    };
    side_by_side(mysql, mariadb);
}
