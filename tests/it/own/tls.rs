//! Encrypted connections, with certificates made here: what each mode accepts and how each refusal
//! reads, on private servers that `sandbox up` starts by a program that adds the certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use dmbench::lab::sandbox::{Program, find};
use dmbench::mysql::raw::{Raw, cells};
use dmbench::mysql::session::Error;
use dmbench::mysql::{Endpoint, Secret, Session, Tls, TlsMode};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use super::{BULK, Desk, account};
use crate::support::DMBENCH;

/// Two authorities, a server's certificate and a client's, as PEM files.
fn certificates(folder: &Path, names: &[&str]) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
    };
    let (right, wrong) = (authority("right"), authority("wrong"));
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("written");
    write("ca.pem", right.pem());
    write("wrong-ca.pem", wrong.pem());
    for (name, names) in [("server", names), ("client", &["client"])] {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("parameters");
        write(&format!("{name}.pem"), params.signed_by(&key, &right).expect("signed").pem());
        write(&format!("{name}-key.pem"), key.serialize_pem());
    }
}

/// A kept sandbox whose servers have these flags too. It is taken down when dropped.
struct Servers {
    folder: TempDir,
    source: Endpoint,
    target: Endpoint,
}

impl Servers {
    fn start(program: Program, names: &[&str], flags: &str) -> Servers {
        let folder = tempfile::Builder::new().prefix("dmbench-tls-").tempdir().expect("folder");
        certificates(folder.path(), names);
        let real = find(program).expect("a server to test with").path;
        let wrapper = folder.path().join("server-program");
        let flags = flags.replace("{}", &folder.path().display().to_string());
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*--port=*) exec '{real}' \"$@\" {flags};;\n*) exec '{real}' \"$@\";;\nesac\n",
            real = real.display()
        );
        fs::write(&wrapper, script).expect("written");
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("executable");
        let (word, variable) = match program {
            Program::Mariadb => ("mariadb", "DMBENCH_MARIADBD"),
            _ => ("mysql", "DMBENCH_MYSQLD"),
        };
        let output = Command::new(DMBENCH)
            .args([
                "sandbox", "up", "--source", word, "--target", word, "--json", "--folder", "kept",
            ])
            .current_dir(folder.path())
            .env(variable, &wrapper)
            .output()
            .expect("dmbench starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let file = PathBuf::from(kept["password-file"].as_str().expect("a file"));
        let password = fs::read_to_string(folder.path().join(file)).expect("a password");
        let end = |end: &str| {
            let port = u16::try_from(kept[end]["port"].as_u64().expect("a port")).expect("a port");
            Endpoint::tcp("127.0.0.1", port, "root", Secret::new(password.trim_end()))
        };
        Servers { source: end("source"), target: end("target"), folder }
    }

    fn desk(&self, task: &str, tls: &str) -> Desk {
        let desk = Desk::of(&self.source, &self.target, task, &format!("tls = {{ {tls} }}"));
        for name in ["ca.pem", "wrong-ca.pem", "client.pem", "client-key.pem"] {
            fs::copy(self.folder.path().join(name), desk.path().join(name)).expect("copied");
        }
        desk
    }

    /// Asks both ends by a lab file: exit code, what they said of the encryption, error and help.
    fn check(&self, tls: &str) -> (i32, String, String) {
        let desk = self.desk(BULK, tls);
        let (code, stdout, stderr) = desk.dmbench(&["check", "t.toml", "--lab", "lab.toml"]);
        let encrypted = stdout.lines().find(|line| line.starts_with("  encrypted"));
        (code, encrypted.unwrap_or_default().to_owned(), stderr)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let down = ["sandbox", "down", "--folder", "kept"];
        let _ = Command::new(DMBENCH).args(down).current_dir(self.folder.path()).output();
    }
}

const FLAGS: &str = "--ssl-ca='{}/ca.pem' --ssl-cert='{}/server.pem' --ssl-key='{}/server-key.pem'";

fn assert_refused((code, _, stderr): (i32, String, String), error: &str, help: &str) {
    assert_eq!(code, 4, "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    let told: Vec<_> = lines.iter().filter(|line| line.starts_with("error: ")).collect();
    assert!(told.len() == 1 && told[0].contains(error), "{error} in {stderr}");
    assert!(lines.iter().any(|line| line.starts_with("help: ") && line.contains(help)), "{stderr}");
}

#[test]
fn every_mode_accepts_and_refuses_what_it_says() {
    for program in [Program::Mysql, Program::Mariadb] {
        let servers = Servers::start(program, &["db.example", "127.0.0.1"], FLAGS);
        for tls in [
            "mode = \"preferred\"",
            "mode = \"required\"",
            "",
            "mode = \"verify-ca\", ca = \"ca.pem\"",
            "mode = \"verify-identity\", ca = \"ca.pem\"",
            "ca = \"ca.pem\", cert = \"client.pem\", key = \"client-key.pem\"",
        ] {
            let (code, encrypted, stderr) = servers.check(tls);
            assert_eq!(code, 0, "{program:?} {tls}: {stderr}");
            assert_eq!(encrypted.matches("TLSv1.").count(), 2, "{program:?} {tls}: {encrypted}");
        }
        let (code, encrypted, _) = servers.check("mode = \"disabled\"");
        assert_eq!((code, encrypted.matches("no").count()), (0, 2), "{encrypted}");
        for mode in ["verify-ca", "verify-identity"] {
            let refused = servers.check(&format!("mode = \"{mode}\", ca = \"wrong-ca.pem\""));
            assert_refused(refused, "invalid peer certificate", "tls.ca");
        }
        let known = servers.check("mode = \"verify-identity\"");
        assert_refused(known, "invalid peer certificate", "tls.ca");
    }
}

/// Connections of the load generator encrypt and refuse exactly as all others do.
#[tokio::test]
async fn a_raw_connection_keeps_to_the_modes() {
    for program in [Program::Mysql, Program::Mariadb] {
        let servers = Servers::start(program, &["*.db.example"], FLAGS);
        let file = |name: &str| Some(servers.folder.path().join(name));
        let (mut let_in, mut refused) = (0, 0);
        for mode in [
            TlsMode::Disabled,
            TlsMode::Preferred,
            TlsMode::Required,
            TlsMode::VerifyCa,
            TlsMode::VerifyIdentity,
        ] {
            for ca in [None, file("ca.pem"), file("wrong-ca.pem")] {
                let (cert, key) = (file("client.pem"), file("client-key.pem"));
                let tls = Tls { mode, ca, cert, key };
                let endpoint = Endpoint { tls, ..servers.source.clone() };
                let said = |error: Error| error.to_string();
                let session = Session::connect(&endpoint).await.map(drop).map_err(said);
                let raw = Raw::connect(&endpoint).await.map_err(said);
                let Ok(mut raw) = raw else {
                    assert_eq!(raw.map(drop), session, "{:?}", endpoint.tls);
                    refused += 1;
                    continue;
                };
                assert_eq!(session, Ok(()), "{:?}", endpoint.tls);
                let mut cipher = Vec::new();
                let status = "SHOW STATUS LIKE 'Ssl_cipher'";
                let row =
                    |row: &[u8]| cipher = cells(row).nth(1).flatten().expect("a cipher").to_vec();
                raw.rows(status, row).await.expect("asked");
                assert_eq!(cipher.is_empty(), mode == TlsMode::Disabled, "{:?}", endpoint.tls);
                let_in += 1;
            }
        }
        assert_eq!((let_in, refused), (10, 5), "{program:?}");
    }
}

#[test]
fn a_wrong_name_matters_to_verify_identity_alone() {
    for program in [Program::Mysql, Program::Mariadb] {
        let servers = Servers::start(program, &["*.db.example"], FLAGS);
        let refused = servers.check("ca = \"ca.pem\"");
        assert_refused(refused, "not valid for name", "verify-ca");
        let (code, encrypted, stderr) = servers.check("mode = \"verify-ca\", ca = \"ca.pem\"");
        assert_eq!((code, encrypted.matches("TLSv1.").count()), (0, 2), "{stderr}");
        let refused = servers.check("mode = \"verify-ca\", ca = \"wrong-ca.pem\"");
        assert_refused(refused, "invalid peer certificate", "tls.ca");
        // The pipeline's process gets its settings too: a whole run.
        let desk = servers.desk(BULK, "mode = \"verify-ca\", ca = \"ca.pem\"");
        let (code, _, stderr) = desk.dmbench(&["run", "t.toml", "--lab", "lab.toml"]);
        assert_eq!(code, 0, "{program:?}: {stderr}");
        let run = desk.run_json();
        let tls = &run["tasks"][0]["lab"]["target"]["tls"];
        assert!(tls.as_str().is_some_and(|tls| tls.starts_with("TLSv1.")), "{tls}");
    }
}

#[test]
fn a_certificate_without_a_name_cannot_be_verified_and_is_not() {
    let servers = Servers::start(Program::Mysql, &[], FLAGS);
    for mode in ["verify-ca", "verify-identity"] {
        let refused = servers.check(&format!("mode = \"{mode}\", ca = \"ca.pem\""));
        assert_refused(refused, "not valid for any names", "must hold a name");
    }
}

#[test]
fn a_server_without_tls_is_refused_by_all_that_want_it() {
    for program in [Program::Mysql, Program::Mariadb] {
        let off = if program == Program::Mysql { "--tls-version=''" } else { "--skip-ssl" };
        let servers = Servers::start(program, &["127.0.0.1"], off);
        for tls in ["mode = \"required\"", "ca = \"ca.pem\""] {
            let refused = servers.check(tls);
            assert_refused(refused, "asked for SSL but server does not", "switch TLS on");
        }
        let (code, encrypted, stderr) = servers.check("mode = \"preferred\"");
        assert_eq!((code, encrypted.matches("no").count()), (0, 2), "{stderr}");
    }
}

#[tokio::test]
async fn who_must_encrypt_or_show_a_certificate_is_told() {
    let servers = Servers::start(Program::Mysql, &["127.0.0.1"], FLAGS);
    let account = account(&servers.source, "strict", "", "p").await;
    let mut session = Session::connect(&servers.source).await.expect("reached");
    session.execute("ALTER USER 'strict'@'127.0.0.1' REQUIRE X509").await.expect("altered");
    session.execute("SET GLOBAL require_secure_transport = ON").await.expect("set");
    let by = |account: &Endpoint, tls: &str| {
        let desk = Desk::of(account, &servers.target, BULK, &format!("tls = {{ {tls} }}"));
        for name in ["client.pem", "client-key.pem"] {
            fs::copy(servers.folder.path().join(name), desk.path().join(name)).expect("copied");
        }
        desk.dmbench(&["check", "t.toml", "--lab", "lab.toml"])
    };
    assert_refused(by(&servers.source, "mode = \"disabled\""), "ERROR 3159", "mode = \"required\"");
    assert_refused(by(&account, "mode = \"required\""), "ERROR 1045", "check user, password");
    let (code, _, stderr) = by(&account, "cert = \"client.pem\", key = \"client-key.pem\"");
    assert_eq!(code, 0, "{stderr}");
}
