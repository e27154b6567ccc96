//! Servers and networks that stand still for a while: the trial outlives it, and what was lost of time
//! is in its figures.

use std::time::Duration;

use dmbench::mysql::Flavor;
use dmbench::mysql::patience::CONNECT_LIMIT;
use dmbench::record::{Outcome, Phase, Trial, name};

use super::super::import::bulk;
use super::stage::Stage;
use super::{assert_well, stream};

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

/// On both flavours side by side, since most of it is waiting.
#[test]
fn nothing_is_lost_and_no_time_either() {
    let on = |flavor, of_one_end: fn(&mut Stage)| {
        let mut stage = Stage::new(flavor, &bulk(1));
        stage.slow(Duration::from_millis(20));
        network_of_an_import(&mut stage);
        of_one_end(&mut stage);
        seed(&mut stage);
    };
    std::thread::scope(|threads| {
        threads.spawn(|| on(Flavor::Mysql, target_under_a_load));
        threads.spawn(|| on(Flavor::Mariadb, source_under_a_dump));
    });
}
