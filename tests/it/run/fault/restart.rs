//! Servers of one's own that are restarted under a stream: nobody starts those of a sandbox again.

use dmbench::mysql::Flavor;
use dmbench::record::{Phase, Trial};

use super::stage::Stage;
use super::{assert_well, stream};

/// Restarts one end under sync.
fn restarted(flavor: Flavor, end: &str) -> Trial {
    let mut stage = Stage::new(flavor, &stream("mysql", "0s", "3s", ""));
    stage.trial(async |scene| {
        scene.phase(Phase::Measure).await;
        scene.restart(end).await;
    })
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
