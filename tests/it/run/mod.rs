//! Runs as a whole: the dmbench program on private servers, from the outside.
//!
//! Every process of a run inherits a mark in its environment, so that a test can say for certain what
//! a run has left, whoever its parent is by then. Phases are awaited through `--metrics`.

mod crash;
mod exits;
mod fault;
mod hot_keys;
mod import;
mod interrupt;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dmbench::mysql::{Endpoint, Secret, Session};
use dmbench::record::{Outcome, Run, Store, Trial};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{DMBENCH, runtime};

/// Name of the variable that marks the processes of one run.
const MARK: &str = "DMBENCH_TEST_MARK";
/// Longest wait for anything; only a hang takes it.
const HANG: Duration = Duration::from_secs(150);

/// A task of two hundred rows and, where `rest` does not say otherwise, one block.
fn task(model: &str, server: &str, phases: &str, pace: &str, rest: &str) -> String {
    // TiDB can be no source.
    let source = if server == "tidb" { "mysql" } else { server };
    let once = if rest.contains("[repeat]") { "" } else { "[repeat]\nblocks = 1" };
    format!(
        r#"
question = "Does a run end as it should?"
model = "{model}"

[workload]
kind = "sysbench"
script = "oltp_write_only"
tables = 1
table-size = 200
rand-type = "zipfian"

[pace]
{pace}
clients = 4

[phases]
{phases}

[pipeline]
kind = "builtin"
sync = {{ worker-count = 4, checkpoint-flush-interval = "200ms" }}

[sandbox]
source = "{source}"
target = "{server}"
durability = "relaxed"
buffer-pool = 64

{rest}

{once}
"#
    )
}

/// A stream task. Its pace is closed, since then markers are frequent enough for a short window.
fn stream(server: &str, warm: &str, measure: &str, rest: &str) -> String {
    let phases = format!("warm = \"{warm}\"\nmeasure = \"{measure}\"\ndrain-limit = \"60s\"");
    task("stream", server, &phases, "kind = \"closed\"", rest)
}

/// A dmbench that runs tasks, in a folder of its own. Dropping it kills it.
struct Running {
    folder: TempDir,
    mark: String,
    child: Child,
    invocation: u32,
}

impl Running {
    /// Starts `dmbench run t.toml`.
    fn start(task: &str) -> Running {
        Running::start_by(&[], task)
    }

    /// As [`Running::start`], by a program that runs another one in its own place.
    fn start_by(launcher: &[&str], task: &str) -> Running {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let folder = tempfile::Builder::new().prefix("dmbench-run-").tempdir().expect("folder");
        fs::write(folder.path().join("t.toml"), task).expect("task");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let child = launch(launcher, folder.path(), &mark, 1, &[]);
        Running { folder, mark, child, invocation: 1 }
    }

    /// Starts it again to go on with its run.
    fn resume(&mut self) {
        self.invocation += 1;
        let run = self.run_folder();
        let run = run.to_str().expect("plain");
        let (folder, mark) = (self.folder.path(), &self.mark);
        self.child = launch(&[], folder, mark, self.invocation, &["--resume", run]);
    }

    /// What it wrote to standard error so far.
    fn stderr(&self) -> String {
        let path = self.folder.path().join(format!("stderr-{}", self.invocation));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Waits for something that must happen before dmbench ends.
    fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&Running) -> Option<T>) -> T {
        let deadline = Instant::now() + HANG;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "ended before {what}: {ended:?}\n{}", self.stderr());
            assert!(Instant::now() < deadline, "waited too long for {what}\n{}", self.stderr());
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Waits until trial `number` is in `phase`.
    fn phase(&mut self, number: u32, phase: &str) {
        let address = self.wait("the address of its metrics", |running| {
            let stderr = running.stderr();
            let (_, after) = stderr.split_once("metrics at http://")?;
            Some(after.split_once("/metrics\n")?.0.to_owned())
        });
        let trial = format!("dmbench_trial {number}\n");
        let phase_line = format!("dmbench_phase{{phase=\"{phase}\"}} 1\n");
        self.wait(&format!("phase {phase} of trial {number}"), |_| {
            let series = scrape(&address)?;
            (series.contains(&trial) && series.contains(&phase_line)).then_some(())
        });
    }

    /// The sandbox's password, from the file that servers read while they start.
    fn password(&mut self) -> String {
        self.wait("servers to start", |running| {
            let sandbox = running.find_run_folder()?.join("sandbox");
            ["source", "target"].iter().find_map(|end| {
                let text = fs::read_to_string(sandbox.join(end).join("first.sql")).ok()?;
                let password = text.split_once("IDENTIFIED BY '")?.1.split_once("';")?.0;
                Some(password.to_owned())
            })
        })
    }

    /// Runs a statement on `source` or `target`, once the run has noted where that is. The session
    /// lasts as long as what is returned.
    fn execute(&mut self, end: &str, password: &str, statement: &str) -> (Session, Runtime) {
        self.try_execute(end, password, statement).expect("the sandbox lets root in")
    }

    /// As [`Running::execute`], by a server that may refuse.
    fn try_execute(
        &mut self,
        end: &str,
        password: &str,
        statement: &str,
    ) -> Result<(Session, Runtime), dmbench::mysql::session::Error> {
        let address = self.wait("the servers' addresses", |running| {
            let run = Store::open(&running.find_run_folder()?).run().ok()?;
            let lab = run.tasks.first()?.lab.clone()?;
            Some(if end == "source" { lab.source.address } else { lab.target.address })
        });
        let (host, port) = address.rsplit_once(':').expect("host:port");
        let port = port.parse().expect("a port");
        let endpoint = Endpoint::tcp(host, port, "root", Secret::new(password));
        let runtime = runtime();
        let session = runtime.block_on(async {
            let mut session = Session::connect(&endpoint).await?;
            session.execute(statement).await?;
            Ok(session)
        });
        Ok((session?, runtime))
    }

    /// Sends dmbench a signal.
    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Processes of the run whose command line has `word`.
    fn processes(&self, word: &str) -> Vec<u32> {
        let of = |pid: &u32| command_line(*pid).contains(word);
        marked(&self.mark).into_iter().filter(of).collect()
    }

    /// Waits for its end.
    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + HANG;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(Instant::now() < deadline, "does not end\n{}", self.stderr());
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Waits for its end and checks the exit code, and that no process of the run is left.
    fn end_with(&mut self, code: i32) {
        let status = self.end();
        assert_eq!(status.code(), Some(code), "{}", self.stderr());
        self.assert_nothing_runs();
    }

    /// Checks that no process is left: neither server, guard nor pipeline.
    fn assert_nothing_runs(&self) {
        crate::support::wait_until("no process of the run is left", || {
            marked(&self.mark).is_empty()
        });
    }

    fn find_run_folder(&self) -> Option<PathBuf> {
        let mut runs = fs::read_dir(self.folder.path().join("out")).ok()?;
        Some(runs.next()?.ok()?.path())
    }

    fn run_folder(&self) -> PathBuf {
        self.find_run_folder().expect("the run has a folder")
    }

    /// What the run left on disk.
    fn records(&self) -> (Run, Vec<Trial>) {
        let store = Store::open(&self.run_folder());
        (store.run().expect("run.json"), store.trials().expect("trials"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The guard stops the rest.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(launcher: &[&str], folder: &Path, mark: &str, invocation: u32, words: &[&str]) -> Child {
    let file = |name: &str| {
        fs::File::create(folder.join(format!("{name}-{invocation}"))).expect("a file for output")
    };
    let mut program = launcher.iter().copied().chain([DMBENCH]);
    Command::new(program.next().expect("at least dmbench"))
        .args(program)
        .args(["run", "t.toml", "--out", "out", "--metrics", "127.0.0.1:0"])
        .args(words)
        .current_dir(folder)
        .env(MARK, mark)
        .env_remove("RUST_LOG")
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .expect("dmbench starts")
}

/// Runs dmbench to its end in a folder: exit code, stdout, stderr.
fn dmbench(folder: &Path, words: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let output = Command::new(DMBENCH)
        .args(words)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .envs(environment.iter().copied())
        .output()
        .expect("dmbench runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("an exit code");
    (code, text(&output.stdout), text(&output.stderr))
}

fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    // It may have ended by itself meanwhile, which what follows will show.
    let _ = kill_process(pid, signal);
}

/// Living processes with a mark in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc").expect("/proc").flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        })
        .collect()
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

fn aborted(trial: &Trial) -> &str {
    match &trial.outcome {
        Outcome::Aborted { reason } => reason,
        other => panic!("not aborted: {other:?}"),
    }
}
