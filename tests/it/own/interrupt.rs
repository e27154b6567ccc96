//! Ctrl-C in the commands that work on one server.

use std::net::TcpListener;
use std::process::Stdio;

use dmbench::mysql::Flavor;
use rustix::process::{Pid, Signal, kill_process};

use super::{BULK, Desk, servers};
use crate::support::wait_until;

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
