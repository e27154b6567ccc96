//! Private servers on loopback, started and stopped by dmbench itself.
//!
//! A sandbox is a source and a target with fresh data folders, free ports and a random root
//! password. A guard process of its own starts them and stops them, whatever happens to dmbench
//! (see [`guard`]).

mod find;
mod flags;
pub mod guard;
mod kept;
mod ledger;
mod network;
mod process;
mod server;
mod settings;
mod template;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use find::{Chosen, Found, choose, find};
pub use kept::{Kept, KeptServer, down, status, up};
pub use process::Process;
pub use settings::{Durability, KNOBS, Program, Settings};

use crate::event::{Event, Events};
use crate::lab::{Error, Lab};
use crate::mysql::Secret;
use crate::record::LabFacts;
use flags::{Home, Role};
use guard::Leash;
use network::Network;
use server::{Running, Start};

/// What a `tidb-server` alone stores rows in. Its commits are as fast as memory, so that no figure of
/// it stands for a cluster.
const TIDB_STORAGE: &str =
    "TiDB's built-in one, in one process: no TiKV, no replicas, commits not synced to disk";

/// What the pipelines of a sandbox need beyond its settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// A binlog on the target.
    pub target_binlog: bool,
}

/// A running source and target. Dropping it stops them in the background; [`Sandbox::stop`] waits.
#[derive(Debug)]
pub struct Sandbox {
    lab: Lab,
    chosen: Chosen,
    servers: [Process; 2],
    network: Network,
    leash: Leash,
}

impl Sandbox {
    /// Starts the servers that the settings name, else the best ones found (see [`choose`]).
    ///
    /// `folder` receives data folders (removed at the end) and logs (kept). `guard` is the dmbench
    /// executable. Before anything else, what earlier crashes left is cleared away.
    ///
    /// # Errors
    /// See [`Error`]. Nothing is left running after an error.
    pub async fn start(
        settings: &Settings,
        needs: Needs,
        folder: &Path,
        guard: &Path,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Sandbox, Error> {
        let chosen = choose(settings)?;
        Sandbox::start_chosen(chosen, settings, needs, folder, guard, events, cancel).await
    }

    /// As [`Sandbox::start`] with these programs.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start_chosen(
        chosen: Chosen,
        settings: &Settings,
        needs: Needs,
        folder: &Path,
        guard: &Path,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Sandbox, Error> {
        let plan = Plan { chosen: &chosen, settings, needs, outlives_guard: false, events, cancel };
        let Up { lab, servers, leash, .. } = plan.run(folder, guard).await?;
        let mut sandbox = Sandbox { lab, chosen, servers, network: Network::default(), leash };
        if let Err(error) = sandbox.set_network(settings).await {
            sandbox.stop().await?;
            return Err(error);
        }
        Ok(sandbox)
    }

    /// Changes the network between pipeline and servers: round trips and bandwidth. Connections made
    /// before keep their endpoint; read [`Sandbox::lab`] again afterwards, since its endpoints for
    /// the pipeline and its measured figures change. All other settings are ignored.
    ///
    /// # Errors
    /// [`Error::Proxy`] without ports or threads, [`Error::Session`] when a server does not answer.
    pub async fn set_network(&mut self, settings: &Settings) -> Result<(), Error> {
        self.network.set(settings, &mut self.lab).await
    }

    /// Where both ends are.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The programs that were taken.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// The processes of source and target.
    pub fn processes(&self) -> [Process; 2] {
        self.servers
    }

    /// Whether both servers run, as far as the system tells.
    pub fn is_alive(&self) -> bool {
        self.servers.iter().all(|server| server.started == 0 || server.is_alive())
    }

    /// Has a file or folder removed once the servers have stopped, even when dmbench is killed.
    ///
    /// # Errors
    /// [`Error::Guard`] when the guard is gone.
    pub fn remove_at_end(&self, path: &Path) -> Result<(), Error> {
        self.leash.remove_at_end(path.to_owned())
    }

    /// Stops the servers and waits until they are gone.
    ///
    /// # Errors
    /// [`Error::Guard`] when that takes more than a minute.
    pub async fn stop(self) -> Result<(), Error> {
        self.leash.stop().await
    }
}

/// One start.
struct Plan<'a> {
    chosen: &'a Chosen,
    settings: &'a Settings,
    needs: Needs,
    outlives_guard: bool,
    events: &'a Events,
    cancel: &'a CancellationToken,
}

/// Guard and servers that run.
struct Up {
    lab: Lab,
    servers: [Process; 2],
    /// Folder of the Unix sockets.
    sockets: PathBuf,
    leash: Leash,
}

impl Plan<'_> {
    /// Starts guard and servers; stops whatever runs when something fails.
    async fn run(&self, folder: &Path, guard: &Path) -> Result<Up, Error> {
        let left = ledger::reap();
        if left > 0 {
            let text = format!("stopped {left} server processes that an earlier crash had left");
            self.events.send(Event::Remark { text });
        }
        let emulated = self.emulated()?;
        ledger::make_private(folder).map_err(|e| Error::file("make", folder, e))?;
        let folder = folder.canonicalize().map_err(|e| Error::file("find", folder, e))?;
        // A socket's path may have 107 bytes.
        let temporary = std::env::temp_dir();
        let is_short = temporary.as_os_str().len() < 80;
        let short = if is_short { temporary } else { PathBuf::from("/tmp") };
        let sockets = tempfile::Builder::new()
            .prefix("dmbench-")
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(&short)
            .map_err(|e| Error::file("make a folder in", &short, e))?;
        let leash = Leash::start(guard, &folder.join("guard.log"))?;
        leash.remove_at_end(sockets.path().to_owned())?;
        let sockets = sockets.keep();
        match self.start_both(&folder, &sockets, &leash).await {
            Ok([source, target]) => {
                let servers = [source.process, target.process];
                Ok(Up { lab: lab(&source, &target, emulated), servers, sockets, leash })
            }
            Err(error) => {
                leash.stop().await?;
                Err(error)
            }
        }
    }

    async fn start_both(
        &self,
        folder: &Path,
        sockets: &Path,
        leash: &Leash,
    ) -> Result<[Running; 2], Error> {
        let password = Secret::new(format!("{:032x}", rand::random::<u128>()));
        let cancel = self.cancel.child_token();
        let start = |found, role: Role| {
            self.events
                .send(Event::Preparing { what: format!("starting {found} as {}", role.name) });
            Start {
                found,
                home: Home {
                    folder: folder.join(role.name),
                    socket: sockets.join(format!("{}.sock", role.name)),
                },
                role,
                settings: self.settings,
                password: &password,
                leash,
                outlives_guard: self.outlives_guard,
                cancel: &cancel,
            }
        };
        let [source, target] = self.roles();
        let (source, target) =
            (start(&self.chosen.source, source), start(&self.chosen.target, target));
        both(source.run(), target.run(), &cancel).await
    }

    fn roles(&self) -> [Role; 2] {
        let delay = self.settings.target_commit_delay;
        // MySQL delays the group commit of its binlog, so a commit delay needs one.
        let target_binlog = self.needs.target_binlog || !delay.is_zero();
        let source =
            Role { name: "source", server_id: 1, binlog: true, commit_delay: Duration::ZERO };
        [source, Role { name: "target", server_id: 2, binlog: target_binlog, commit_delay: delay }]
    }

    /// What is other than on real servers, before the network is set.
    fn emulated(&self) -> Result<BTreeMap<String, String>, Error> {
        let mut emulated = BTreeMap::new();
        if self.chosen.target.program == Program::Tidb {
            emulated.insert(LabFacts::TARGET_STORAGE.to_owned(), TIDB_STORAGE.to_owned());
        }
        let delay = self.settings.target_commit_delay;
        if delay.is_zero() {
            return Ok(emulated);
        }
        let by = match self.chosen.target.program {
            Program::Mysql => "binlog_group_commit_sync_delay, with the target's binlog on",
            Program::Mariadb => "binlog_commit_wait_usec, with the target's binlog on",
            Program::Tidb => {
                let why = "target-commit-delay stands in for TiDB's commit and works on a MySQL \
                           or MariaDB target only"
                    .to_owned();
                return Err(Error::Settings { why });
            }
        };
        let text = format!("{} ms asked, by {by}", delay.as_secs_f64() * 1e3);
        emulated.insert("target-commit-delay".to_owned(), text);
        Ok(emulated)
    }
}

/// Runs both to their end: dropping one half-way would leave its file work behind. When one fails
/// the other is cancelled, and the error is that of the one that failed.
async fn both<T>(
    source: impl Future<Output = Result<T, Error>>,
    target: impl Future<Output = Result<T, Error>>,
    cancel: &CancellationToken,
) -> Result<[T; 2], Error> {
    let source = async { source.await.inspect_err(|_| cancel.cancel()) };
    let target = async { target.await.inspect_err(|_| cancel.cancel()) };
    match tokio::join!(source, target) {
        (Ok(source), Ok(target)) => Ok([source, target]),
        (Err(Error::Interrupted), Err(error)) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn lab(source: &Running, target: &Running, emulated: BTreeMap<String, String>) -> Lab {
    Lab {
        source: source.endpoint.clone(),
        target: target.endpoint.clone(),
        source_for_pipeline: source.endpoint.clone(),
        target_for_pipeline: target.endpoint.clone(),
        processes: vec![
            ("source".to_owned(), source.process.pid),
            ("target".to_owned(), target.process.pid),
        ],
        emulated,
        kind: Lab::SANDBOX.to_owned(),
    }
}

/// What a log says of a failure, for an error: the lines that call themselves errors, else the last
/// ones. Long lines are cut.
fn log_tail(path: &Path) -> String {
    const LINES: usize = 12;
    const CHARACTERS: usize = 300;
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<_> = lines.iter().copied().filter(|line| line.contains("ERROR")).collect();
    let told = if errors.is_empty() { lines } else { errors };
    let told = &told[told.len().saturating_sub(LINES)..];
    let cut = told.iter().map(|line| match line.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    });
    cut.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_the_errors_are_told_and_else_its_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        let told = |text: &str| {
            std::fs::write(&log, text).expect("written");
            log_tail(&log)
        };
        let advice = "see the manual\n".repeat(20);
        assert_eq!(told(&format!("begin\nERROR: 1146\n\n{advice}")), "ERROR: 1146");
        assert_eq!(told("one\n\ntwo\n"), "one\ntwo");
        assert_eq!(told(&format!("ERROR {}", "é".repeat(400))).chars().count(), 301);
        assert_eq!(log_tail(&folder.path().join("none")), "");
    }
}
