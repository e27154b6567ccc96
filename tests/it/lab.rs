//! The sandbox: real servers start, answer, and are gone afterwards, whatever happens.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dmbench::event::Events;
use dmbench::lab::facts;
use dmbench::lab::sandbox::{self, Needs, Process, Program, Sandbox, Settings};
use dmbench::mysql::{Endpoint, Flavor, Secret, Session};
use dmbench::record::LabFacts;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio_util::sync::CancellationToken;

use crate::support::holder::{self, Said};
use crate::support::{self, DMBENCH, wait_until};

async fn both_ends_answer(flavor: Flavor) {
    let pair = support::pair(flavor);
    for mut session in [pair.source_session().await, pair.target_session().await] {
        assert_eq!(session.server().flavor, flavor);
        session.binlog_position().await.expect("there is a binlog");
        let zone: Option<String> = session.value("SELECT @@global.time_zone").await.expect("asked");
        assert_eq!(zone.as_deref(), Some("+00:00"));
        let format: Option<String> =
            session.value("SELECT @@global.binlog_format").await.expect("asked");
        assert_eq!(format.as_deref(), Some("ROW"));
    }
}

#[tokio::test]
async fn mysql_answers_on_both_ends() {
    both_ends_answer(Flavor::Mysql).await;
}

#[tokio::test]
async fn mariadb_answers_on_both_ends() {
    both_ends_answer(Flavor::Mariadb).await;
}

#[tokio::test]
async fn a_mixed_pair_has_a_server_of_each_flavour_and_schemas_keep_tests_apart() {
    let pair = support::mixed_pair();
    let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
    assert_eq!(source.server().flavor, Flavor::Mysql);
    assert_eq!(target.server().flavor, Flavor::Mariadb);
    let schema = support::schema("mixed");
    assert_ne!(schema, support::schema("mixed"));
    for session in [&mut source, &mut target] {
        dmbench::mysql::owner::recreate(session, &schema, "test").await.expect("made");
        dmbench::mysql::owner::drop_if_ours(session, &schema).await.expect("dropped");
    }
}

#[tokio::test]
async fn servers_differ_in_identity_and_let_nobody_in_without_the_password() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let pair = support::pair(flavor);
        for endpoint in [pair.source(), pair.target()] {
            for user in ["root", "", "anybody"] {
                let open = Endpoint {
                    user: user.to_owned(),
                    password: Secret::default(),
                    ..endpoint.clone()
                };
                assert!(Session::connect(&open).await.is_err(), "{flavor} lets '{user}' in");
            }
        }
        let mut ids = Vec::new();
        for mut session in [pair.source_session().await, pair.target_session().await] {
            let name = if flavor == Flavor::Mysql { "server_uuid" } else { "server_id" };
            let sql = format!("SELECT CAST(@@global.{name} AS CHAR)");
            ids.push(session.value::<String>(&sql).await.expect("asked"));
        }
        assert_ne!(ids[0], ids[1]);
    }
}

#[tokio::test]
async fn facts_name_the_settings_that_bear_on_the_numbers() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let mut session = support::pair(flavor).source_session().await;
        let facts = facts::server_facts(&mut session).await.expect("read");
        assert!(facts.server.starts_with(&flavor.to_string()), "{}", facts.server);
        assert_eq!(facts.settings["binlog_row_image"], "FULL");
        assert_eq!(facts.settings["sync_binlog"], "0");
        assert_eq!(facts.settings.contains_key("gtid_mode"), flavor == Flavor::Mysql);
        assert_eq!(facts.settings.contains_key("gtid_strict_mode"), flavor == Flavor::Mariadb);
    }
}

#[tokio::test]
async fn tidb_answers_as_target_and_lets_nobody_in_without_the_password() {
    if !support::has_tidb() {
        return;
    }
    let pair = support::pair(Flavor::Tidb);
    let mut target = pair.target_session().await;
    assert_eq!(target.server().flavor, Flavor::Tidb);
    let facts = facts::server_facts(&mut target).await.expect("facts");
    assert!(facts.server.starts_with("TiDB ") && facts.settings.contains_key("tidb_txn_mode"));
    assert!(!facts.settings.contains_key("sync_binlog"), "it has no binlog to sync");
    let open = Endpoint { password: Secret::default(), ..pair.target().clone() };
    let refused = Session::connect(&open).await.map(|_| ()).expect_err("no password");
    assert_eq!(refused.code(), Some(1045), "{refused}");
    assert!(pair.lab().emulated[LabFacts::TARGET_STORAGE].contains("no TiKV"));
}

async fn start(
    settings: &Settings,
    folder: &Path,
    cancel: &CancellationToken,
) -> Result<Sandbox, dmbench::lab::Error> {
    let (needs, events) = (Needs::default(), Events::none());
    Sandbox::start(settings, needs, folder, Path::new(DMBENCH), &events, cancel).await
}

#[tokio::test]
async fn network_and_commit_delay_are_emulated_measured_and_printed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut settings = Settings {
        target_round_trip: Duration::from_millis(3),
        target_commit_delay: Duration::from_millis(20),
        ..support::settings(Program::Mariadb, Program::Mariadb)
    };
    let started = start(&settings, folder.path(), &CancellationToken::new()).await;
    let mut sandbox = started.expect("MariaDB starts twice");
    let lab = sandbox.lab().clone();
    assert_ne!(lab.target_for_pipeline, lab.target);
    assert_eq!(lab.source_for_pipeline, lab.source);
    assert!(lab.emulated["target-round-trip"].starts_with("3 ms asked, "), "{lab:?}");
    assert!(lab.emulated["target-commit-delay"].starts_with("20 ms asked"), "{lab:?}");

    let mut session = Session::connect(&lab.target_for_pipeline).await.expect("connected");
    session.execute("CREATE DATABASE d").await.expect("made");
    session.execute("CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=InnoDB").await.expect("made");
    let began = std::time::Instant::now();
    session.execute("INSERT INTO d.t VALUES (1)").await.expect("inserted");
    assert!(began.elapsed() >= Duration::from_millis(23), "took {:?}", began.elapsed());

    settings.target_round_trip = Duration::ZERO;
    sandbox.set_network(&settings).await.expect("changed");
    assert_eq!(sandbox.lab().target_for_pipeline, lab.target);
    assert!(!sandbox.lab().emulated.contains_key("target-round-trip"));
    sandbox.stop().await.expect("stopped");
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a process id")
}

/// The parent of a server is its guard.
fn guard_of(server: Process) -> Process {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid)).expect("it runs");
    let fields = stat.rsplit_once(')').expect("a name in parentheses").1;
    let parent = fields.split_ascii_whitespace().nth(1).expect("a parent");
    Process::now(parent.parse().expect("a number"))
}

fn holds(said: Said) -> [Process; 2] {
    match said {
        Said::Holds { servers } => servers,
        Said::Failed { error, .. } => panic!("failed to {error}"),
    }
}

/// Everything a sandbox needs on disk is gone.
fn nothing_is_left(folder: &Path) -> bool {
    let gone = |path: &str| !folder.join("run").join(path).exists();
    let ledger = folder.join("cache/dmbench/sandboxes");
    let entries = std::fs::read_dir(ledger).map_or(0, Iterator::count);
    ["source/data", "target/data", "source/first.sql"].into_iter().all(gone) && entries == 0
}

fn servers_end_when_their_owner_does(program: Program, end: impl FnOnce(&mut std::process::Child)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut owner, said) = holder::start(program, program, folder.path(), &[]);
    let servers = holds(said);
    let guard = guard_of(servers[0]);
    assert!(servers.iter().all(Process::is_alive) && guard.is_alive());
    end(&mut owner);
    owner.wait().expect("it is ours");
    wait_until("the servers have ended", || !servers.iter().any(Process::is_alive));
    wait_until("the guard has ended", || !guard.is_alive());
    assert!(nothing_is_left(folder.path()));
}

#[test]
fn nothing_is_left_after_kill_9_of_dmbench() {
    servers_end_when_their_owner_does(Program::Mysql, |owner| {
        kill_process(raw(owner.id()), Signal::KILL).expect("sent");
    });
}

#[test]
fn nothing_is_left_after_ctrl_c_which_reaches_the_whole_group() {
    servers_end_when_their_owner_does(Program::Mariadb, |owner| {
        kill_process_group(raw(owner.id()), Signal::INT).expect("sent");
    });
}

#[test]
fn nothing_is_left_after_a_panic() {
    servers_end_when_their_owner_does(Program::Mariadb, |owner| {
        owner.stdin.as_mut().expect("piped").write_all(b"panic\n").expect("told");
    });
}

#[test]
fn ctrl_c_alone_does_not_stop_the_servers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut owner, said) = holder::start(Program::Mariadb, Program::Mariadb, folder.path(), &[]);
    let servers = holds(said);
    let group = |pid: u32| rustix::process::getpgid(Some(raw(pid))).expect("it runs");
    for process in [servers[0], servers[1], guard_of(servers[0])] {
        assert_ne!(group(process.pid), group(owner.id()), "Ctrl-C would reach it");
    }
    drop(owner.stdin.take());
    owner.wait().expect("it is ours");
    wait_until("the servers have ended", || !servers.iter().any(Process::is_alive));
}

#[test]
fn servers_end_even_when_dmbench_and_the_guard_are_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut owner, said) = holder::start(Program::Mysql, Program::Mariadb, folder.path(), &[]);
    let servers = holds(said);
    kill_process(raw(guard_of(servers[0]).pid), Signal::KILL).expect("sent");
    kill_process(raw(owner.id()), Signal::KILL).expect("sent");
    owner.wait().expect("it is ours");
    wait_until("the servers have ended", || !servers.iter().any(Process::is_alive));
    assert!(!nothing_is_left(folder.path()), "nobody was there to remove the data");
    // The next start in the same home clears it away.
    let (mut next, said) = holder::start(Program::Mariadb, Program::Mysql, folder.path(), &[]);
    holds(said);
    drop(next.stdin.take());
    next.wait().expect("it is ours");
    wait_until("everything is gone", || nothing_is_left(folder.path()));
}

/// With no data folder kept from an earlier start both ends make theirs at the same time.
#[test]
fn two_mariadbs_start_side_by_side_for_the_first_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let environment = [("XDG_CACHE_HOME", folder.path())];
    let (mut owner, said) =
        holder::start(Program::Mariadb, Program::Mariadb, folder.path(), &environment);
    holds(said);
    drop(owner.stdin.take());
    owner.wait().expect("it is ours");
    let templates = folder.path().join("dmbench/templates");
    assert!(templates.read_dir().expect("made").next().is_some(), "they were not the first");
}

/// A program that says it is MySQL, makes a data folder, and fails to start.
fn broken_mysqld(folder: &Path) -> PathBuf {
    let path = folder.join("mysqld");
    let script = "#!/bin/sh\ncase \"$*\" in\n\
        *--version*) echo 'mysqld  Ver 8.4.0 for Linux on x86_64';;\n\
        *--initialize-insecure*) for a; do case $a in --datadir=*) mkdir -p ${a#*=};; esac; done;;\n\
        *) echo 'this server is broken' >&2; exit 3;;\nesac\n";
    std::fs::write(&path, script).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    path
}

#[test]
fn a_failed_start_is_a_lab_error_with_the_log_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let broken = broken_mysqld(folder.path());
    let environment = [("DMBENCH_MYSQLD", broken.as_path())];
    let (mut owner, said) =
        holder::start(Program::Mariadb, Program::Mysql, folder.path(), &environment);
    // The start has returned: everything must be gone already.
    let left = !nothing_is_left(folder.path());
    drop(owner.stdin.take());
    owner.wait().expect("it is ours");
    let Said::Failed { error, is_lab } = said else { panic!("a broken server started") };
    assert!(is_lab, "{error}");
    assert!(error.starts_with("start MySQL 8.4.0 as target: it ended"), "{error}");
    assert!(error.contains("this server is broken"), "{error}");
    assert!(!left, "the other server or its data is left");
}

#[tokio::test]
async fn an_interrupted_start_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let settings = support::settings(Program::Mariadb, Program::Mariadb);
    let started = start(&settings, folder.path(), &cancel).await;
    assert!(started.expect_err("interrupted").is_interruption());
    assert!(!folder.path().join("source/data").exists());
}

#[tokio::test]
async fn a_kept_sandbox_stays_until_it_is_taken_down() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = support::settings(Program::Mariadb, Program::Mariadb);
    let (events, cancel) = (Events::none(), CancellationToken::new());
    let up = || sandbox::up(&settings, folder.path(), Path::new(DMBENCH), &events, &cancel);
    let kept = up().await.expect("started");
    assert!(up().await.is_err(), "one is up already");
    let mode = std::fs::metadata(&kept.password_file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let password = std::fs::read_to_string(&kept.password_file).expect("read");
    for server in [&kept.source, &kept.target] {
        assert!(server.is_running());
        let secret = Secret::new(password.as_str());
        let endpoint = Endpoint::tcp(server.host.as_str(), server.port, &server.user, secret);
        Session::connect(&endpoint).await.expect("it answers").close().await;
    }
    assert_eq!(sandbox::status(folder.path()).expect("read"), Some(kept.clone()));
    let told = std::process::Command::new(DMBENCH)
        .args(["sandbox", "--json", "status", "--folder"])
        .arg(folder.path())
        .output()
        .expect("dmbench runs");
    let told = String::from_utf8(told.stdout).expect("JSON");
    assert_eq!(told.matches("\"schema\"").count(), 1, "{told}");
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["source"]["port"], kept.source.port);
    assert_eq!(sandbox::down(folder.path()).expect("stopped"), 2);
    assert!(!kept.source.is_running() && !kept.target.is_running());
    assert_eq!(sandbox::status(folder.path()).expect("read"), None);
}
