//! Servers that cannot be used from the start, told by the commands that take a server's URL: one line
//! of error, a line of help, exit code 4, and no long wait where waiting cannot help.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use dmbench::lab::proxy::Proxy;
use dmbench::mysql::patience::CONNECT_LIMIT;
use dmbench::mysql::{Address, Flavor};

use super::dmbench;
use crate::support::pair;

/// Runs `drive` and `verify` against a server and gives what each wrote to stderr.
fn refused(host: &str, port: u16, password: &str) -> [String; 2] {
    let here = tempfile::tempdir().expect("folder");
    let environment = [("SECRET", password)];
    let (url, port) = (format!("mysql://root@{host}:{port}"), port.to_string());
    let drive = [
        "drive",
        "oltp_insert",
        "run",
        "--host",
        host,
        "--port",
        &port,
        "--password-env",
        "SECRET",
    ];
    let secrets = ["--source-password-env", "SECRET", "--target-password-env", "SECRET"];
    let verify = ["verify", "--source", &url, "--target", &url, "--schemas", "none"];
    let verify = [&verify[..], &secrets[..]].concat();
    [&drive[..], &verify[..]].map(|words| {
        let (code, stdout, stderr) = dmbench(here.path(), words, &environment);
        assert_eq!(code, 4, "{words:?}\n{stdout}\n{stderr}");
        assert!(stderr.starts_with("error: failed to connect to "), "{stderr}");
        let lines: Vec<_> = stderr.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("help: "), "{stderr}");
        stderr
    })
}

#[test]
fn a_refused_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let began = Instant::now();
    for stderr in refused("127.0.0.1", port, "secret") {
        assert!(stderr.contains("Connection refused") && stderr.contains("nothing listens"));
    }
    assert!(began.elapsed() < CONNECT_LIMIT, "nothing is waited for");
}

/// Connections are accepted and nobody greets.
#[test]
fn a_server_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    for stderr in refused("127.0.0.1", port, "secret") {
        assert!(stderr.contains("no answer within 10 s") && stderr.contains("frozen"), "{stderr}");
    }
}

fn wrong_password(flavor: Flavor) {
    let Address::Tcp { host, port } = &pair(flavor).source().address else { panic!("TCP") };
    for stderr in refused(host, *port, "p%a's$w\"ord") {
        assert!(stderr.contains("ERROR 1045") && stderr.contains("check user"), "{stderr}");
        assert!(!stderr.contains("p%a"), "{stderr}");
    }
}

#[test]
fn a_wrong_password_on_mysql() {
    wrong_password(Flavor::Mysql);
}

#[test]
fn a_wrong_password_on_mariadb() {
    wrong_password(Flavor::Mariadb);
}

/// A schema that is not there, and a network that takes a second each way.
#[test]
fn a_wrong_schema_behind_a_slow_network() {
    let source = pair(Flavor::Mariadb).source();
    let Address::Tcp { host, port } = &source.address else { panic!("TCP") };
    let proxy = Proxy::start(format!("{host}:{port}").parse().expect("plain")).expect("a port");
    proxy.set_round_trip(Duration::from_millis(500));
    let here = tempfile::tempdir().expect("folder");
    let port = proxy.address().port().to_string();
    let words = ["drive", "oltp_insert", "run", "--port", &port, "--password-env", "SECRET"];
    let words = [&words[..], &["--schema", "none"]].concat();
    let (code, _, stderr) = dmbench(here.path(), &words, &[("SECRET", source.password.expose())]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("none") && stderr.contains("help: "), "{stderr}");
}
