//! Passwords typed on a terminal: a pseudo-terminal whose other end the test holds.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use dmbench::mysql::{Address, Flavor, Session};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{Pair, servers};
use crate::support::DMBENCH;

/// dmbench at a terminal, and the other end of that.
struct Desk {
    keys: File,
    child: Child,
    shown: String,
}

impl Desk {
    /// `setsid` makes its standard input the terminal of a session of its own.
    fn at_terminal(arguments: &[String]) -> Desk {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&keys).expect("granted");
        unlockpt(&keys).expect("unlocked");
        let name = ptsname(&keys, Vec::new()).expect("its name");
        let end: OwnedFd =
            rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("opened");
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", DMBENCH])
            .args(arguments)
            .stdin(Stdio::from(end))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("setsid, of util-linux");
        Desk { keys: keys.into(), child, shown: String::new() }
    }

    /// Waits until the terminal shows a text.
    fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let mut buffer = [0; 256];
            let length = self.keys.read(&mut buffer).expect("the terminal is there");
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }

    /// Types, and waits for the end; exit code, standard error and all that the terminal showed.
    fn types(mut self, keys: &[u8]) -> (i32, String, String) {
        self.keys.write_all(keys).expect("typed");
        let output = self.child.wait_with_output().expect("waited for");
        let mut rest = Vec::new();
        // Ends with an error once nobody has the other end.
        let _ = self.keys.read_to_end(&mut rest);
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        let code = output.status.code().expect("it ended by itself");
        (code, String::from_utf8_lossy(&output.stderr).into_owned(), self.shown)
    }
}

fn port(pair: &Pair) -> u16 {
    match pair.source().address {
        Address::Tcp { port, .. } => port,
        Address::Socket(_) => unreachable!("sandboxes are reached by TCP"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_asked_for_and_not_shown() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let mut session = Session::connect(pair.source()).await.expect("reached");
        for statement in [
            "DROP USER IF EXISTS prompted",
            "CREATE USER prompted IDENTIFIED BY 'ge h@im'",
            "GRANT ALL ON *.* TO prompted",
        ] {
            session.execute(statement).await.expect("executed");
        }
        let port = port(pair).to_string();
        let words = ["drive", "oltp_insert", "cleanup", "--user", "prompted", "--port", &port];
        let mut arguments = words.map(str::to_owned).to_vec();
        arguments.push("--password-prompt".to_owned());
        for (keys, wanted) in
            [(&b"ge h@ix\x7fm\r"[..], 0), (b"ge h@im2\r", 4), (b"ge h@im\x03", 130)]
        {
            let mut desk = Desk::at_terminal(&arguments);
            desk.wait_for(&format!("password of prompted@127.0.0.1:{port}: "));
            let (code, stderr, shown) = desk.types(keys);
            assert_eq!(code, wanted, "{stderr}");
            assert!(!shown.contains("h@i") && !stderr.contains("h@i"), "{shown}\n{stderr}");
        }
        session.execute("DROP USER prompted").await.expect("dropped");
    }
}

#[test]
fn without_a_terminal_nobody_is_asked() {
    let output = Command::new("setsid")
        .args(["--wait", DMBENCH, "clean", "--source", "mysql://u@127.0.0.1:1"])
        .args(["--target", "mysql://u@127.0.0.1:2", "--source-password-prompt"])
        .stdin(Stdio::null())
        .output()
        .expect("setsid, of util-linux");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("the password of u@127.0.0.1:1 on the terminal: "), "{stderr}");
    assert!(stderr.contains("help: where nobody can type, "), "{stderr}");
}
