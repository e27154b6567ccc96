//! One run at a time has a lab.

use dmbench::lab::{Hold, LOCK};
use dmbench::mysql::{Flavor, Session};

use super::{BULK, Desk, servers, stream};
use crate::support::wait_until;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_is_refused_in_one_line_and_the_first_goes_on() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let hold = Hold::take(pair.source(), pair.target()).await.expect("free");
        let desk = Desk::new(pair, BULK, "");
        for words in [
            ["run", "t.toml", "--lab", "lab.toml"].as_slice(),
            &["clean", "--lab", "lab.toml", "--yes"],
        ] {
            let (code, _, stderr) = desk.dmbench(words);
            assert_eq!(code, 4, "{stderr}");
            let error = stderr.lines().find(|line| line.starts_with("error: ")).expect("an error");
            assert!(error.contains("take the lock \"dmbench\" on the source"), "{error}");
            assert!(stderr.contains("help: another run uses this lab"), "{stderr}");
        }
        hold.check().expect("still ours");
        hold.release().await;
        Hold::take(pair.source(), pair.target()).await.expect("free again").release().await;
    }
}

#[tokio::test]
async fn one_server_as_both_ends_is_told_as_such() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let error = Hold::take(pair.source(), pair.source()).await.expect_err("one server");
    assert!(error.to_string().contains("source and target are one server"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lock_ends_the_run_in_good_order() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let desk = Desk::new(pair, &stream("100s"), "");
    let mut run = desk.start(&["run", "t.toml", "--lab", "lab.toml"]);
    let mut session = Session::connect(pair.target()).await.expect("reached");
    let mut holder = None;
    let sql = format!("SELECT IS_USED_LOCK('{LOCK}')");
    while holder.is_none() {
        assert!(run.try_wait().expect("a child").is_none(), "{}", desk.stderr());
        holder = session.value::<u64>(&sql).await.expect("asked");
    }
    // In a trial, where there is something to end.
    wait_until("a trial measures", || {
        let out = desk.path().join("out");
        let runs = std::fs::read_dir(out).into_iter().flatten().flatten();
        runs.map(|run| run.path().join("samples")).any(|samples| samples.is_dir())
    });
    session.execute(format!("KILL {}", holder.expect("held"))).await.expect("killed");
    wait_until("the run ends", || run.try_wait().expect("a child").is_some());
    let code = run.wait().expect("ended").code();
    assert_eq!(code, Some(4), "{}", desk.stderr());
    assert!(desk.stderr().contains("keep the lock \"dmbench\" on the target"), "{}", desk.stderr());
    let (code, stdout, stderr) = desk.dmbench(&["clean", "--lab", "lab.toml", "--yes"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("dropped"), "what a run cannot drop any more is left: {stdout}");
}
