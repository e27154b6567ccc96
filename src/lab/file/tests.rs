//! What lab files may say, and how each refusal reads.

use super::*;

const TARGET: &str = "[target]\nurl = \"mysql://root@db:4000\"\n";

fn parse(text: &str) -> Result<LabFile, Error> {
    LabFile::parse(Path::new("lab.toml"), text)
}

/// Place, text, excerpt and help of a refusal.
fn refused(text: &str) -> String {
    let error = parse(text).expect_err(text);
    let help = error.help().unwrap_or_default();
    format!("{error}\n{}\n{help}", error.excerpt().unwrap_or_default())
}

#[test]
fn a_whole_file_is_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["ca.pem", "cert.pem", "key.pem"] {
        std::fs::write(folder.path().join(name), "x").expect("written");
    }
    std::fs::write(folder.path().join("secret"), "p@ss:'\"\\ \n").expect("written");
    let text = r#"
        [source]
        url = "mysql://bench@[::1]:3307"
        password-file = "secret"
        seen-by-pipeline = "10.0.0.5"
        tls = { ca = "ca.pem", cert = "cert.pem", key = "key.pem" }
        [target]
        url = "mysql://root@/run/my%20sql.sock"
        status-url = "http://10.0.1.6:10080"
        may-configure-replication = true
        [dm]
        masters = ["http://10.0.1.7:8261"]
        workers = ["http://10.0.1.8:8262"]
        [[prometheus]]
        name = "tikv"
        url = "http://10.0.1.9:20180/metrics"
    "#;
    let file = LabFile::parse(&folder.path().join("lab.toml"), text).expect("a lab");
    assert_eq!(file.source.to_string(), "bench@[::1]:3307");
    assert_eq!(file.source.password.expose(), "p@ss:'\"\\ ", "all but the line break");
    assert_eq!(file.source.tls.mode, TlsMode::VerifyIdentity);
    assert_eq!(file.source.tls.ca.as_deref(), Some(folder.path().join("ca.pem").as_path()));
    assert_eq!(file.source_for_pipeline.to_string(), "bench@10.0.0.5:3306");
    assert_eq!(file.source_for_pipeline.password, file.source.password);
    assert_eq!(file.target.to_string(), "root@/run/my sql.sock");
    assert_eq!(file.target, file.target_for_pipeline);
    assert!(file.may_configure_replication && file.dm.is_some());
    assert_eq!((file.lab().kind.as_str(), file.prometheus.len()), ("own servers", 1));
}

#[test]
fn a_target_may_have_several_addresses() {
    let file = parse(&format!(
        "[source]\nurl = \"mysql://u@h\"\n{TARGET}addresses = [\"[::1]\", \"b:4\"]"
    ));
    let file = file.expect("a lab");
    assert_eq!(file.source.addresses(), "h:3306");
    for end in [&file.target, &file.target_for_pipeline] {
        assert_eq!(end.addresses(), "db:4000, [::1]:3306, b:4");
        let each: Vec<_> = end.each().iter().map(Endpoint::to_string).collect();
        assert_eq!(each, ["root@db:4000", "root@[::1]:3306", "root@b:4"]);
    }
}

#[test]
fn refusals_show_place_and_remedy() {
    let source = |lines: &str| format!("[source]\nurl = \"mysql://u@h\"\n{lines}\n{TARGET}");
    for (text, wanted) in [
        (source("pasword-env = \"X\""), "lab.toml:3:1: unknown key \"pasword-env\""),
        (source("pasword-env = \"X\""), "did you mean \"password-env\"? allowed here: url, "),
        (source("status-url = \"http://h\""), "unknown key \"status-url\""),
        (source("password-env = \"DMBENCH_NO_SUCH\""), "DMBENCH_NO_SUCH is not set"),
        (source("password-file = \"nowhere\""), "the file nowhere cannot be read"),
        (source("password-env = \"A\"\npassword-file = \"b\""), "both given"),
        (source("password-prompt = true\npassword-file = \"b\""), "beside another password"),
        (source("seen-by-pipeline = \"h:x\""), "\"x\" is no port"),
        (source("tls = { mode = \"verify_ca\" }"), "did you mean \"verify-ca\"?"),
        (source("tls = { mode = \"required\", ca = \"ca.pem\" }"), "checks no certificate"),
        (source("tls = { cert = \"c.pem\" }"), "\"cert\" and \"key\""),
        (source("tls = { ca = \"nowhere.pem\" }"), "nowhere.pem cannot be read"),
        (source("tls = { c = 1 }"), "allowed here: mode, ca, cert, key"),
        (source("[lab]"), "allowed here: source, target, dm, prometheus"),
        (source("[dm]\nmasters = [\"10.0.0.1\"]"), "does not begin with http://"),
        ("[source]\nurl = [\"mysql://u@h\"]\n".to_owned(), "further addresses of a target"),
        (source("addresses = [\"h\"]"), "unknown key \"addresses\""),
        (source("") + "addresses = [\"x\", \"db:4000\"]", "db:4000 is named twice"),
        (source("") + "addresses = [\"x:y\"]", "\"y\" is no port"),
        (source("") + "seen-by-pipeline = \"x\"\naddresses = [\"y\"]", "leave one of them out"),
        ("[source]\nurl = 5\n".to_owned(), "lab.toml:2:7: "),
        (TARGET.to_owned(), "key \"source\" is missing"),
        ("[source]\nurl = \"mysql://u@/s\"\ntls = {}\n[target]\n".to_owned(), "\"url\" is missing"),
        (format!("[source]\nurl = \"mysql://u@/s\"\ntls = {{}}\n{TARGET}"), "Unix socket"),
        ("[source]\nurl = \n".to_owned(), "lab.toml:2:"),
    ] {
        let told = refused(&text);
        assert!(told.contains(wanted), "{wanted} in:\n{told}");
    }
}

#[test]
fn a_password_in_the_file_is_refused_and_never_repeated() {
    for text in [
        format!("[source]\nurl = \"mysql://u:ge@h:eim@h\"\n{TARGET}"),
        format!("source = {{ url = \"mysql://u:ge@h:eim@h\", x = 1 }}\n{TARGET}"),
        format!("[source]\nurl = \"mysql://u@h\"\npassword = \"ge@h:eim\"\n{TARGET}"),
        format!("[source]\nurl = \"mysql://u@h\"\n\"password\"= \"ge@h:eim\"\n{TARGET}"),
        format!("source = \"mysql://u:ge@h:eim@h\"\n{TARGET}"),
        "[source]\nurl = \"mysql://u:ge@h:eim@h\n".to_owned(),
        format!("[source]\npassword = 'ge@h:eim\n{TARGET}"),
    ] {
        let told = refused(&text);
        assert!(!told.contains("eim") && !told.contains("ge@"), "{told}");
    }
    let told = refused(&format!("[source]\nurl = \"mysql://u@h\"\npassword = \"x\"\n{TARGET}"));
    assert!(told.contains("password-env") && told.contains("has no place"), "{told}");
    let told = refused(&format!("[source]\nurl = \"mysql://u:x@h\"\n{TARGET}"));
    assert!(told.contains("holds a password") && told.contains("password-file"), "{told}");
}
