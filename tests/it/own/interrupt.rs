//! Ctrl-C in the commands that work on one server.

use std::net::TcpListener;
use std::process::Stdio;

use dmbench::lab::Hold;
use dmbench::mysql::{Flavor, Session};
use rustix::process::{Pid, Signal, kill_process};

use super::{BULK, Desk, execute, schemas, servers};
use crate::support::{schema, wait_until};

/// Starts dmbench, interrupts it once `when` holds, and gives exit code and stdout.
fn interrupted(desk: &Desk, words: &[&str], when: impl Fn(&Desk) -> bool) -> (Option<i32>, String) {
    let stdout = desk.path().join("stdout");
    let file = std::fs::File::create(&stdout).expect("a file");
    let mut child =
        desk.command(words).stdout(file).stderr(Stdio::null()).spawn().expect("dmbench starts");
    wait_until("it is at work", || {
        assert_eq!(child.try_wait().expect("a child"), None, "it goes on until Ctrl-C");
        when(desk)
    });
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::INT).expect("sent");
    wait_until("it ends", || child.try_wait().expect("a child").is_some());
    let code = child.wait().expect("ended").code();
    (code, std::fs::read_to_string(stdout).expect("read"))
}

fn stdout_has(desk: &Desk, words: &str) -> bool {
    std::fs::read_to_string(desk.path().join("stdout")).is_ok_and(|text| text.contains(words))
}

/// What was driven until then is reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_drive_reports_what_it_has() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let desk = Desk::new(pair, BULK, "");
        let drive = ["drive", "oltp_insert"];
        let lab = ["--lab", "lab.toml", "--table-size", "100", "--clients", "2"];
        let (code, _, stderr) = desk.dmbench(&[&drive[..], &["prepare"], &lab].concat());
        assert_eq!(code, 0, "{stderr}");
        let run = ["run", "--time", "300", "--report-interval", "1"];
        let run = [&drive[..], &run, &lab].concat();
        let (code, stdout) = interrupted(&desk, &run, |desk| stdout_has(desk, "[ 1s ]"));
        assert_eq!(code, Some(130), "{stdout}");
        for words in ["SQL statistics:", "transactions:", "\ninterrupted\n"] {
            assert!(stdout.contains(words), "{words} in {stdout}");
        }
        let (code, _, stderr) = desk.dmbench(&[&drive[..], &["cleanup"], &lab].concat());
        assert_eq!(code, 0, "{stderr}");
    }
}

/// A server that never greets is not waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_drive_that_has_not_begun() {
    let (pair, _guard) = servers(Flavor::Mariadb).await;
    let desk = Desk::new(pair, BULK, "");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("bound").port().to_string();
    let words = ["drive", "oltp_insert", "run", "--port", &port];
    let accepted = std::sync::Mutex::new(Vec::new());
    let (code, stdout) = interrupted(&desk, &words, |_| {
        let mut accepted = accepted.lock().expect("ours");
        accepted.extend(listener.accept());
        !accepted.is_empty()
    });
    assert_eq!((code, stdout.as_str()), (Some(130), ""));
}

/// The dump waits for its lock behind somebody's, and all writers of the source wait behind the dump:
/// Ctrl-C ends that at once, not when the server's patience does.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_dump_waits_for_its_lock() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let desk = Desk::new(pair, BULK, "");
        let (other, source) = (schema("other"), pair.source());
        let make = format!("CREATE TABLE {other}.t (id INT PRIMARY KEY)");
        execute(source, &[&format!("CREATE DATABASE {other}"), &make]).await;
        let mut blocker = pair.source_session().await;
        blocker.execute(format!("LOCK TABLES {other}.t WRITE")).await.expect("locked");
        let mut session = pair.source_session().await;
        let mut run = desk.start(&["run", "t.toml", "--lab", "lab.toml"]);
        while waiting(&mut session).await == 0 {
            assert_eq!(run.try_wait().expect("a child"), None, "{}", desk.stderr());
        }
        let pid = Pid::from_raw(run.id().cast_signed()).expect("a process");
        kill_process(pid, Signal::INT).expect("sent");
        wait_until("it ends", || run.try_wait().expect("a child").is_some());
        assert_eq!(run.wait().expect("ended").code(), Some(130), "{}", desk.stderr());
        assert_eq!(waiting(&mut session).await, 0);
        assert_eq!(schemas(source).await, [""; 0]);
        Hold::take(source, pair.target()).await.expect("free again").release().await;
        blocker.close().await;
        execute(source, &[&format!("DROP DATABASE {other}")]).await;
    }
}

/// Sessions that wait to lock all tables.
async fn waiting(session: &mut Session) -> u64 {
    let sql =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'FLUSH TABLES WITH%'";
    session.value(sql).await.expect("asked").unwrap_or(0)
}
