//! Trials in this process, on servers of the test's own and a network that does what it is told: what
//! happens in the middle of a dump or a load is put in there and not about then.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dmbench::event::{Event, Events};
use dmbench::lab::proxy::Proxy;
use dmbench::mysql::{Address, Endpoint, Flavor, Session};
use dmbench::record::{Phase, Trial};
use dmbench::task::Task;
use dmbench::telemetry::Gauges;
use dmbench::trial::{self, Bench, Seat};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::super::import::ROWS;
use super::send;
use crate::support::{DMBENCH, Pair, fresh_pair, runtime, schema, wait_until};

/// Servers, the network before them, and what trials share.
pub(super) struct Stage {
    flavor: Flavor,
    runtime: Runtime,
    scratch: TempDir,
    task: Task,
    bench: Bench,
    order: u32,
    scene: Scene,
}

/// What a fault is made with.
pub(super) struct Scene {
    /// Between the pipeline and the source.
    pub(super) source: Proxy,
    /// Between the pipeline and the target.
    pub(super) target: Proxy,
    /// The servers themselves.
    pub(super) pair: Pair,
    schema: String,
    folder: PathBuf,
    happenings: Receiver<Event>,
    pids: [u32; 2],
    commands: [Option<Vec<String>>; 2],
    restarted: Vec<Restarted>,
}

/// A server that this test started. Dropping it kills it.
struct Restarted(Child);

impl Drop for Restarted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn relay(server: &Endpoint) -> (Proxy, Endpoint) {
    let address = server.address.to_string().parse().expect("an address");
    let proxy = Proxy::start(address).expect("a port");
    let host = proxy.address().ip().to_string();
    let through = Address::Tcp { host, port: proxy.address().port() };
    (proxy, Endpoint { address: through, ..server.clone() })
}

impl Stage {
    /// A task on fresh servers. As in a lab of one's own nobody knows their processes.
    pub(super) fn new(flavor: Flavor, task: &str) -> Stage {
        let pair = fresh_pair(flavor);
        let mut lab = pair.lab().clone();
        let pids = ["source", "target"].map(|end| {
            lab.processes.iter().find(|(name, _)| name == end).expect("it has a process").1
        });
        lab.processes.clear();
        let (source, source_for_pipeline) = relay(&lab.source);
        let (target, target_for_pipeline) = relay(&lab.target);
        (lab.source_for_pipeline, lab.target_for_pipeline) =
            (source_for_pipeline, target_for_pipeline);
        let scratch = tempfile::tempdir().expect("folder");
        let (events, happenings) = Events::channel();
        let (schema, gauges) = (schema("stage"), Gauges::new());
        let folder = scratch.path().join("scratch");
        let bench =
            Bench::new(lab, &folder, Path::new(DMBENCH), "a run", &schema, &events, &gauges);
        let task = Task::parse(Path::new("t.toml"), task, &[]).expect("a task");
        let folder = folder.join("trial");
        let scene = Scene {
            source,
            target,
            pair,
            schema,
            folder,
            happenings,
            pids,
            commands: [None, None],
            restarted: Vec::new(),
        };
        Stage { flavor, runtime: runtime(), scratch, task, bench, order: 0, scene }
    }

    /// Lets trials be of another task from now on.
    pub(super) fn next_is(&mut self, task: &str) {
        self.task = Task::parse(Path::new("t.toml"), task, &[]).expect("a task");
    }

    /// Lets trials have another account than root: one that may do all but write where it is forbidden.
    pub(super) fn without_exemption(&mut self) {
        const ACCOUNT: &str = "'bench'@'127.0.0.1'";
        let exempt = match self.flavor {
            Flavor::Mariadb => "SUPER, READ_ONLY ADMIN",
            _ => "SUPER, CONNECTION_ADMIN",
        };
        let password = self.scene.pair.source().password.expose().to_owned();
        for end in ["source", "target"] {
            let create = format!("CREATE USER {ACCOUNT} IDENTIFIED BY '{password}'");
            let grant = format!("GRANT ALL ON *.* TO {ACCOUNT}");
            let revoke = format!("REVOKE {exempt} ON *.* FROM {ACCOUNT}");
            self.execute(end, &["SET SESSION sql_log_bin = 0", &create, &grant, &revoke]);
        }
        let lab = &mut self.bench.lab;
        for endpoint in [
            &mut lab.source,
            &mut lab.target,
            &mut lab.source_for_pipeline,
            &mut lab.target_for_pipeline,
        ] {
            endpoint.user = "bench".to_owned();
        }
    }

    /// Puts a round trip before the source, and half of it before the target.
    pub(super) fn slow(&mut self, round_trip: Duration) {
        self.scene.source.set_round_trip(round_trip);
        self.scene.target.set_round_trip(round_trip / 2);
    }

    /// Executes statements on a server between two trials.
    pub(super) fn execute(&mut self, end: &str, statements: &[&str]) {
        self.runtime.block_on(self.scene.execute(end, statements));
    }

    /// Runs the next trial, with something done meanwhile.
    pub(super) fn trial(&mut self, meanwhile: impl AsyncFnOnce(&mut Scene)) -> Trial {
        let point = self.task.points().remove(0);
        let task = self.task.at(&point).expect("a point");
        self.order += 1;
        let seat = Seat {
            task: "t".to_owned(),
            task_hash: task.hash.clone(),
            point,
            block: self.order,
            order: self.order,
            order_in_block: 1,
        };
        let samples = self.scratch.path().join(format!("samples-{}.jsonl", self.order));
        let (bench, scene) = (&mut self.bench, &mut self.scene);
        let cancel = CancellationToken::new();
        while scene.happenings.try_recv().is_ok() {}
        let trial = self.runtime.block_on(async {
            let fault = async {
                meanwhile(scene).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                trial = trial::run(bench, &task, &seat, samples, &cancel) => trial,
                () = fault => unreachable!("it pends"),
            }
        });
        // Whatever became of the fault, the next trial has a network as before.
        for proxy in [&self.scene.source, &self.scene.target] {
            proxy.stall(false);
        }
        trial
    }
}

impl Scene {
    /// Waits until a phase begins.
    pub(super) async fn phase(&mut self, wanted: Phase) {
        while let Some(event) = self.happenings.recv().await {
            if matches!(event, Event::PhaseBegan { phase, .. } if phase == wanted) {
                return;
            }
        }
    }

    /// Waits until the dump has begun to write rows, and holds it there.
    pub(super) async fn hold_dump(&mut self) {
        self.phase(Phase::Measure).await;
        let begin = format!("{}.sbtest1.0", self.schema);
        let has_rows = || {
            let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
            entries.into_iter().any(|e| e.file_name().to_string_lossy().starts_with(&begin))
        };
        until(has_rows).await;
        self.source.stall(true);
        assert!(!self.is_dumped(), "the dump was too quick to be held");
    }

    /// Whether the dump is complete.
    pub(super) fn is_dumped(&self) -> bool {
        self.folder.join("metadata").exists()
    }

    /// Waits until the dump is about to begin, and lets nothing of it through.
    pub(super) async fn hold_before_dump(&mut self) {
        self.phase(Phase::Settle).await;
        self.source.stall(true);
        until(|| self.source.connection_count() > 0).await;
    }

    /// Cuts the pipeline's connections to the target some time after there are any.
    pub(super) async fn cut_target_after(&self, time: Duration) {
        until(|| self.target.connection_count() > 0).await;
        tokio::time::sleep(time).await;
        self.target.cut();
    }

    /// Waits until the load is about to begin, and lets nothing of it through.
    pub(super) async fn hold_before_load(&mut self) {
        self.phase(Phase::Measure).await;
        self.target.stall(true);
        until(|| self.is_dumped() && self.target.connection_count() > 0).await;
    }

    /// Waits until the load has written some rows, and holds it there.
    pub(super) async fn hold_load(&mut self) {
        self.phase(Phase::Measure).await;
        self.hold_load_of_this_trial().await;
    }

    /// As [`Scene::hold_load`], where the phase was awaited before.
    pub(super) async fn hold_load_of_this_trial(&mut self) {
        until(|| self.is_dumped()).await;
        let mut session = self.pair.target_session().await;
        let rows = format!("SELECT COUNT(*) FROM {}.sbtest1", self.schema);
        // Until the load has made it anew there is no such table, or the one of another trial.
        while !session.value::<u64>(&rows).await.is_ok_and(|rows| rows > Some(0)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.target.stall(true);
        let all = format!("SELECT COUNT(*) < {} FROM {}.sbtest1", ROWS, self.schema);
        let some = session.value::<u8>(&all).await.expect("asked");
        assert_eq!(some, Some(1), "the load was too quick to be held");
    }

    /// Ends the pipeline's sessions on a server: those that stand in its schema or read it.
    pub(super) async fn kill_sessions(&self, end: &str) {
        let mut session = match end {
            "source" => self.pair.source_session().await,
            _ => self.pair.target_session().await,
        };
        let proxy = if end == "source" { &self.source } else { &self.target };
        let count = proxy.connection_count();
        assert!(count > 0, "nobody is connected");
        let list = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND \
                    user = 'root'";
        for row in session.rows(list).await.expect("the list of sessions") {
            let id: u64 = row.get(0).expect("an id");
            // It may have gone by itself.
            let _ = session.execute(&format!("KILL {id}")).await;
        }
    }

    /// Kills a server and starts it as it was started, on the same port; waits until it answers.
    pub(super) async fn restart(&mut self, end: &str) {
        self.restart_with(end, &[]).await;
    }

    /// As [`Scene::restart`], with further options; those of an earlier restart go.
    pub(super) async fn restart_with(&mut self, end: &str, options: &[&str]) {
        let at = usize::from(end == "target");
        let words = self.commands[at].get_or_insert_with(|| command(self.pids[at])).clone();
        let (child, endpoint) =
            (restart(self.pids[at], &words, options), self.endpoint(end).clone());
        self.pids[at] = child.0.id();
        self.restarted.push(child);
        Session::reach(&endpoint).await.expect("the server is back").close().await;
    }

    /// Executes statements on a server.
    pub(super) async fn execute(&self, end: &str, statements: &[&str]) {
        let mut session = Session::connect(self.endpoint(end)).await.expect("reached");
        for statement in statements {
            session.execute(statement).await.expect(statement);
        }
        session.close().await;
    }

    /// The server itself.
    pub(super) fn endpoint(&self, end: &str) -> &Endpoint {
        if end == "source" { self.pair.source() } else { self.pair.target() }
    }

    /// Stops a server's process for some time.
    pub(super) async fn freeze(&self, end: &str, time: Duration) {
        let pid = self.pids[usize::from(end == "target")];
        send(pid, Signal::STOP);
        tokio::time::sleep(time).await;
        send(pid, Signal::CONT);
    }
}

/// Waits until something holds.
async fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < super::super::HANG, "waited too long");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How a server was started.
fn command(pid: u32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    // What the first start reads is not kept.
    let words = words.filter(|word| !word.is_empty() && !word.starts_with("--init-file="));
    words.map(|word| word.into_owned()).collect()
}

fn restart(pid: u32, words: &[String], options: &[&str]) -> Restarted {
    send(pid, Signal::KILL);
    // Locks on its files go with the process.
    wait_until("the server is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
    });
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Restarted(command.spawn().expect("the server starts again"))
}
