//! Whole runs and checks on servers that dmbench did not start.

use dmbench::mysql::Flavor;

use super::{BULK, Desk, execute, schemas, servers, stream};
use crate::support::contents;

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_own_servers_says_so_and_leaves_nothing() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let desk = Desk::new(pair, BULK, "");
        let (code, stdout, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml"]);
        assert_eq!(code, 0, "{flavor}: {stderr}");
        assert!(stderr.contains("[sandbox] of task t is left aside"), "{stderr}");
        assert!(stdout.contains("own servers"), "{stdout}");
        let run = desk.run_json();
        let lab = &run["tasks"][0]["lab"];
        assert_eq!(
            (&lab["kind"], &lab["emulated"]),
            (&"own servers".into(), &serde_json::json!({}))
        );
        assert_eq!(lab["source"]["address"], pair.source().address.to_string());
        assert_eq!(schemas(pair.source()).await, [""; 0]);
        assert_eq!(schemas(pair.target()).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_with_the_same_servers_only() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let task = BULK.replace("blocks = 1", "blocks = 2");
    let desk = Desk::new(pair, &task, "");
    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml"]);
    assert_eq!(code, 0, "{stderr}");
    let run = desk.run_json()["id"].as_str().expect("an id").to_owned();
    // As if it had been stopped before its last trial.
    let trials = desk.path().join("out").join(&run).join("trials");
    let paths = std::fs::read_dir(&trials).expect("trials").map(|e| e.expect("entry").path());
    let last = paths.max().expect("two trials");
    std::fs::remove_file(&last).expect("removed");
    let folder = desk.path().join("out").join(&run);
    // As a run that was killed leaves it.
    std::fs::create_dir(folder.join("scratch")).expect("made");
    let before = contents(&folder);

    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--resume", &run]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("begun on lab \"own servers\", not on \"sandbox\""), "{stderr}");
    let swapped = Desk::of(pair.target(), pair.source(), &task, "");
    let lab = swapped.path().join("lab.toml").display().to_string();
    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", &lab, "--resume", &run]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("the source was 127.0.0.1:"), "{stderr}");
    std::fs::write(desk.path().join("t.toml"), BULK).expect("written");
    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml", "--resume", &run]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("task t has changed"), "{stderr}");
    std::fs::write(desk.path().join("t.toml"), task).expect("written");
    assert!(contents(&folder) == before, "a refusal changes nothing");
    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml", "--resume", &run]);
    assert_eq!(code, 0, "{stderr}");
    assert!(last.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pipeline_uses_the_address_that_it_sees() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let desk = Desk::new(pair, BULK, "seen-by-pipeline = \"127.0.0.1:1\"");
    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml"]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("connect to root@127.0.0.1:1: "), "{stderr}");
    assert!(stderr.contains("help: nothing listens there"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_shows_both_ends_and_what_fails() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let desk = Desk::new(pair, &stream("1s"), "");
    let (code, stdout, stderr) = desk.dmbench(&["check", "t.toml", "--lab", "lab.toml"]);
    assert_eq!(code, 0, "{stderr}");
    for word in ["round trip", "50 pings", "± ", "binlog_format", "MySQL 9", "left aside"] {
        assert!(stdout.contains(word), "{word} in {stdout}");
    }
    execute(pair.source(), &["CREATE DATABASE dmbench"]).await;
    let words = ["check", "t.toml", "--lab", "lab.toml", "--json"];
    let (code, stdout, _) = desk.dmbench(&words);
    let json: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let (run_code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml"]);
    execute(pair.source(), &["DROP DATABASE dmbench"]).await;
    assert_eq!((code, run_code), (4, 4), "{stdout} {stderr}");
    assert!(stderr.contains("owner"), "{stderr}");
    assert_eq!(json["checks"][0]["level"], "fail");
    let round_trip = &json["servers"]["source"]["round-trip"];
    assert!(round_trip["median-s"].as_f64() > Some(0.0) && round_trip["n"] == 50, "{round_trip}");
    assert!(json["servers"]["target"]["clock"]["error-s"].as_f64() > Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_varies_private_servers_is_refused_by_name() {
    let (pair, _guard) = servers(Flavor::Mysql).await;
    let varied = format!(
        "{BULK}[[knob]]\nname = \"sandbox.target-round-trip\"\nvalues = [\"1ms\", \"2ms\"]\n"
    );
    let desk = Desk::new(pair, &varied.replace("target-round-trip = \"50ms\"", ""), "");
    for command in ["run", "check"] {
        let (code, _, stderr) = desk.dmbench(&[command, "t.toml", "--lab", "lab.toml"]);
        assert_eq!(code, 3, "{stderr}");
        assert!(stderr.contains("varies sandbox.target-round-trip"), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_file_serves_verify_and_drive() {
    let (pair, _guard) = servers(Flavor::Mariadb).await;
    let desk = Desk::new(pair, BULK, "");
    for step in ["prepare", "run", "cleanup"] {
        let words = ["drive", "oltp_insert", step, "--lab", "lab.toml", "--events", "50"];
        let (code, _, stderr) = desk.dmbench(&words);
        assert_eq!(code, 0, "{step}: {stderr}");
        if step == "run" {
            let words = ["verify", "--lab", "lab.toml", "--schemas", "dmbench_drive"];
            let (code, stdout, stderr) = desk.dmbench(&words);
            assert_eq!(code, 6, "the target lacks the schema: {stdout} {stderr}");
        }
    }
    let (code, _, stderr) =
        desk.dmbench(&["verify", "--lab", "lab.toml", "--source", "mysql://u@h", "--schemas", "x"]);
    assert_eq!(code, 2, "{stderr}");
}

/// Source and target are filled alike, and then a row of the target is changed and another one goes.
#[tokio::test(flavor = "multi_thread")]
async fn verify_exits_6_for_a_row_that_differs_and_names_it() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let desk = Desk::new(pair, BULK, "");
        let swapped = Desk::of(pair.target(), pair.source(), BULK, "");
        let drive = |desk: &Desk, step: &str| {
            let words = ["drive", "oltp_insert", step, "--lab", "lab.toml", "--table-size", "500"];
            let (code, _, stderr) = desk.dmbench(&words);
            assert_eq!(code, 0, "{step}: {stderr}");
        };
        drive(&desk, "prepare");
        drive(&swapped, "prepare");
        let verify = ["verify", "--lab", "lab.toml", "--schemas", "dmbench_drive"];
        let (code, stdout, stderr) = desk.dmbench(&verify);
        assert_eq!(code, 0, "{stdout} {stderr}");
        assert_eq!(stdout, "equal: 500 rows in 1 tables\n");
        let change = "UPDATE dmbench_drive.sbtest1 SET c = 'another' WHERE id = 7";
        execute(pair.target(), &[change, "DELETE FROM dmbench_drive.sbtest1 WHERE id = 8"]).await;
        let (code, stdout, stderr) = desk.dmbench(&verify);
        assert_eq!(code, 6, "{stdout} {stderr}");
        let told = "differs: 1 rows missing in the target, 0 surplus, 1 changed\n";
        assert!(stdout.starts_with(told), "{stdout}");
        let named = ["id=7: values differ", "id=8: missing in the target"];
        let named = named.map(|what| format!("  dmbench_drive.sbtest1 {what}\n")).concat();
        assert!(stdout.ends_with(&named), "{stdout}");
        let (code, stdout, _) = desk.dmbench(&[&verify[..], &["--json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!((code, &json["verdict"]["is"]), (6, &"differs".into()), "{stdout}");
        drive(&desk, "cleanup");
        drive(&swapped, "cleanup");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_reached_and_an_ipv6_address_is_understood() {
    let (pair, _guard) = servers(Flavor::Mariadb).await;
    let desk = Desk::new(pair, BULK, "");
    let lab = std::fs::read_to_string(desk.path().join("lab.toml")).expect("lab.toml");
    let mut session = pair.source_session().await;
    let socket: String = session.value("SELECT @@socket").await.expect("asked").expect("a path");
    let by_socket = lab.replacen(&format!("@{}", pair.source().address), &format!("@{socket}"), 1);
    std::fs::write(desk.path().join("lab.toml"), by_socket).expect("written");
    let (code, stdout, stderr) = desk.dmbench(&["check", "t.toml", "--lab", "lab.toml"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(&socket), "{stdout}");
    let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml"]);
    assert_eq!(code, 0, "{stderr}");

    // Servers of tests listen on IPv4; nobody listens at this address, and the error names it.
    let nobody = lab.replacen(&format!("@{}", pair.source().address), "@[::1]:1", 1);
    std::fs::write(desk.path().join("lab.toml"), nobody).expect("written");
    let (code, _, stderr) = desk.dmbench(&["check", "t.toml", "--lab", "lab.toml"]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("connect to root@[::1]:1: "), "{stderr}");
    assert!(!stderr.contains("failed to lookup"), "{stderr}");
}
