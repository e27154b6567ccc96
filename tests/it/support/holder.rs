//! A process that holds a sandbox, so that tests can end it in every way.
//!
//! It is this test binary again, running one ignored test. It says on standard output what it holds,
//! or why it has nothing, as one JSON line, and then does what it is told until it is killed.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dmbench::error::ErrorClass;
use dmbench::event::Events;
use dmbench::lab::sandbox::{Needs, Process, Program, Sandbox};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// What a holder says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    /// Servers run.
    Holds { servers: [Process; 2] },
    /// The start failed.
    Failed { error: String, is_lab: bool },
}

const FOLDER: &str = "DMBENCH_TEST_FOLDER";
const PROGRAMS: &str = "DMBENCH_TEST_PROGRAMS";
const MARK: &str = "holder says ";

/// Starts a holder in a process group of its own. Its cache folder, and so its ledger, is private;
/// templates are shared with the user's, unless the environment names another server program.
pub fn start(
    source: Program,
    target: Program,
    folder: &Path,
    environment: &[(&str, &Path)],
) -> (Child, Said) {
    if environment.is_empty() {
        share_templates(&folder.join("cache/dmbench"));
    }
    let mut child = Command::new(std::env::current_exe().expect("known"))
        .args(["--exact", "support::holder::holder", "--ignored", "--nocapture"])
        .env(FOLDER, folder.join("run"))
        .env(PROGRAMS, serde_json::to_string(&(source, target)).expect("plain"))
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("the test binary runs again");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let said = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once(MARK)?.1.to_owned()))
        .expect("the holder says what it holds");
    (child, serde_json::from_str(&said).expect("the holder writes JSON"))
}

fn share_templates(cache: &Path) {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let templates = base.expect("there is a home").join("dmbench/templates");
    std::fs::create_dir_all(&templates).expect("made");
    std::fs::create_dir_all(cache).expect("made");
    let link = cache.join("templates");
    if !link.exists() {
        std::os::unix::fs::symlink(templates, link).expect("linked");
    }
}

#[test]
#[ignore = "other tests run it as a process of its own"]
fn holder() {
    let folder = std::env::var_os(FOLDER).expect("set by the test that runs it");
    let programs = std::env::var(PROGRAMS).expect("set by the test that runs it");
    let (source, target) = serde_json::from_str(&programs).expect("plain");
    let sandbox = super::runtime().block_on(Sandbox::start(
        &super::settings(source, target),
        Needs::default(),
        Path::new(&folder),
        Path::new(super::DMBENCH),
        &Events::none(),
        &CancellationToken::new(),
    ));
    let said = match &sandbox {
        Ok(sandbox) => Said::Holds { servers: sandbox.processes() },
        Err(error) => {
            Said::Failed { error: error.to_string(), is_lab: error.class() == ErrorClass::Lab }
        }
    };
    let said = serde_json::to_string(&said).expect("plain");
    writeln!(std::io::stdout(), "\n{MARK}{said}").expect("the test listens");
    let mut order = String::new();
    std::io::stdin().lock().read_line(&mut order).expect("the test speaks or closes");
    assert_ne!(order.trim(), "panic", "as ordered");
}
