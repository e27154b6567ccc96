//! Passwords full of URL and shell characters work, and appear nowhere: in no record, log, report,
//! error or output, and in no process' command line or environment but the one the user put it in.

use std::fs;
use std::path::Path;

use dmbench::mysql::Flavor;

use super::{BULK, Desk, account, servers};

const PASSWORDS: [&str; 2] = ["s3cr3t:/?#[]@!$&'()*+,;=%41\\\"` é", "$(s3cr3t){}<>|~^ -p --x=1 %"];
/// In both, and in nothing else.
const TELLING: &str = "s3cr3t";

/// Every file below a folder that holds the secret.
fn telling(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            telling(&path, found);
        } else if fs::read(&path).is_ok_and(|bytes| holds(&bytes)) {
            found.push(path.display().to_string());
        }
    }
}

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(TELLING.len()).any(|window| window == TELLING.as_bytes())
}

/// Processes below `root` whose command line, or whose environment if they are not `root`, holds it.
fn telling_processes(root: u32) -> (usize, Vec<String>) {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let pids = fs::read_dir("/proc").expect("/proc").flatten();
    let pids: Vec<u32> = pids.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    let below: Vec<u32> = pids.into_iter().filter(|&pid| parent(pid) == Some(root)).collect();
    let read = |pid: u32, what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let mut found = Vec::new();
    for &pid in below.iter().chain(&[root]) {
        if holds(&read(pid, "cmdline")) || (pid != root && holds(&read(pid, "environ"))) {
            found.push(String::from_utf8_lossy(&read(pid, "cmdline")).replace('\0', " "));
        }
    }
    (below.len(), found)
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_appear_nowhere() {
    for flavor in [Flavor::Mysql, Flavor::Mariadb] {
        let (pair, _guard) = servers(flavor).await;
        let source = account(pair.source(), "odd'us er", "", PASSWORDS[0]).await;
        let target = account(pair.target(), "odd'us er", "", PASSWORDS[1]).await;
        let desk = Desk::of(&source, &target, BULK, "");
        let lab = fs::read_to_string(desk.path().join("lab.toml")).expect("lab.toml");
        let lab = lab.replace("odd'us er", "odd%27us%20er");
        // The source's by file, the target's by the environment.
        let by_environment =
            lab.replace("password-file = \"target.secret\"", "password-env = \"TARGET_PASSWORD\"");
        let wrong = lab.replace("source.secret", "wrong.secret");
        fs::write(desk.path().join("lab.toml"), by_environment).expect("written");
        fs::write(desk.path().join("wrong.toml"), wrong).expect("written");
        let mut outputs = Vec::new();
        let mut children = 0;
        for words in [
            ["-vv", "check", "t.toml", "--lab", "lab.toml", "--json"].as_slice(),
            &["-vv", "run", "t.toml", "--lab", "lab.toml"],
            &["drive", "oltp_insert", "prepare", "--lab", "lab.toml", "-vv"],
            &[
                "-vv",
                "drive",
                "oltp_insert",
                "run",
                "--lab",
                "lab.toml",
                "--events",
                "20",
                "--json",
            ],
            &["-vv", "verify", "--lab", "lab.toml", "--schemas", "dmbench_drive"],
            &["-vv", "clean", "--lab", "lab.toml"],
            &["-vv", "drive", "oltp_insert", "cleanup", "--lab", "lab.toml"],
            &["-vv", "check", "t.toml", "--lab", "wrong.toml"],
            &["-vv", "run", "t.toml", "--lab", "wrong.toml"],
        ] {
            fs::write(desk.path().join("wrong.secret"), format!("{TELLING}-wrong"))
                .expect("written");
            let out = |name: &str| fs::File::create(desk.path().join(name)).expect("a file");
            let mut child = desk
                .command(words)
                .env("TARGET_PASSWORD", PASSWORDS[1])
                .stdout(out("stdout"))
                .stderr(out("stderr"))
                .spawn()
                .expect("dmbench starts");
            let status = loop {
                let (count, found) = telling_processes(child.id());
                children += count;
                assert_eq!(found, [""; 0], "{words:?}");
                if let Some(status) = child.try_wait().expect("a child") {
                    break status;
                }
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            };
            let read = |name: &str| fs::read_to_string(desk.path().join(name)).expect("read");
            let expected = match words {
                [.., "wrong.toml"] => 4,
                [_, "verify", ..] => 6,
                _ => 0,
            };
            assert_eq!(status.code(), Some(expected), "{words:?} {}", read("stderr"));
            outputs.push(read("stdout") + &read("stderr"));
        }
        assert!(children > 0, "the pipeline's process was seen");
        for name in ["source.secret", "wrong.secret", "target.secret"] {
            fs::remove_file(desk.path().join(name)).expect("removed");
        }
        let mut found = Vec::new();
        telling(desk.path(), &mut found);
        assert_eq!(found, [""; 0]);
        assert!(!holds(outputs.concat().as_bytes()), "{outputs:?}");
        assert!(outputs.concat().contains("ERROR 1045"), "a wrong password was refused");
    }
}

#[test]
fn a_password_on_the_command_line_is_refused_without_repeating_it() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("lab.toml"), "[source]\nurl = \"mysql://u:s3cr3t@h\"\n")
        .expect("written");
    fs::write(folder.path().join("t.toml"), BULK).expect("written");
    for words in [
        ["run", "t.toml", "--lab", "lab.toml"].as_slice(),
        &["check", "t.toml", "--lab", "lab.toml"],
        &["verify", "--lab", "lab.toml", "--schemas", "x"],
        &["drive", "oltp_insert", "run", "--lab", "lab.toml"],
        &["clean", "--lab", "lab.toml"],
        &["clean", "--source", "mysql://u:s3cr3t@h", "--target", "mysql://u@h"],
    ] {
        let code = if words.contains(&"--source") { 2 } else { 3 };
        let output = std::process::Command::new(crate::support::DMBENCH)
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("dmbench starts");
        let told = [output.stdout, output.stderr].concat();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&told));
        assert!(!holds(&told), "{}", String::from_utf8_lossy(&told));
        assert!(!folder.path().join("out").exists(), "nothing was begun");
    }
}
