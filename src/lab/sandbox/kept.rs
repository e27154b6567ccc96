//! A sandbox that stays when dmbench ends, for manual work: `sandbox up`, `down`, `status`.
//!
//! Its folder holds `sandbox.json` (programs, addresses, process ids with their start times) and
//! `password`, readable by the owner only. There is no delay proxy, since that is part of dmbench.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ledger::remove;
use super::process::{Process, end_all};
use super::server::write_private;
use super::settings::Settings;
use super::{Needs, Plan, Up, choose};
use crate::event::Events;
use crate::lab::Error;
use crate::mysql::{Address, Endpoint};

const STATE: &str = "sandbox.json";
const PASSWORD: &str = "password";

/// A sandbox that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kept {
    /// Source.
    pub source: KeptServer,
    /// Target.
    pub target: KeptServer,
    /// File with the password of both root accounts.
    pub password_file: PathBuf,
    sockets: PathBuf,
}

/// One server of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeptServer {
    /// Such as `MySQL 9.7.4`.
    pub server: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Account.
    pub user: String,
    /// Process.
    pub process: Process,
}

impl KeptServer {
    /// Whether its process still runs.
    pub fn is_running(&self) -> bool {
        self.process.is_alive()
    }

    fn new(server: String, endpoint: &Endpoint, process: Process) -> KeptServer {
        let (host, port) = match &endpoint.address {
            Address::Tcp { host, port } => (host.clone(), *port),
            Address::Socket(path) => (path.display().to_string(), 0),
        };
        KeptServer { server, host, port, user: endpoint.user.clone(), process }
    }
}

/// Starts a sandbox under `folder` and leaves it running. Both ends write a binlog.
///
/// # Errors
/// [`Error::Settings`] when one runs there already, or when a delay proxy is asked for; else as
/// [`super::Sandbox::start`].
pub async fn up(
    settings: &Settings,
    folder: &Path,
    guard: &Path,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Kept, Error> {
    refuse_proxies(settings)?;
    if let Some(kept) = status(folder)? {
        if kept.source.is_running() || kept.target.is_running() {
            let why = format!("one is up already in {}; see `sandbox down`", folder.display());
            return Err(Error::Settings { why });
        }
        down(folder)?;
    }
    let chosen = choose(settings)?;
    let needs = Needs { target_binlog: true };
    let plan = Plan { chosen: &chosen, settings, needs, outlives_guard: true, events, cancel };
    let Up { lab, servers: [source, target], sockets, leash } = plan.run(folder, guard).await?;
    let folder = folder.canonicalize().map_err(|e| Error::file("find", folder, e))?;
    let kept = Kept {
        source: KeptServer::new(chosen.source.to_string(), &lab.source, source),
        target: KeptServer::new(chosen.target.to_string(), &lab.target, target),
        password_file: folder.join(PASSWORD),
        sockets,
    };
    // First the state, then the release: a crash between the two stops the servers.
    let written = write_private(&kept.password_file, lab.source.password.expose())
        .and_then(|()| write_state(&folder, &kept));
    if let Err(error) = written {
        leash.stop().await?;
        return Err(error);
    }
    leash.release().await?;
    Ok(kept)
}

/// The sandbox kept under `folder`, whether its servers run or not; `None` where none was kept.
///
/// # Errors
/// [`Error::File`] when its state cannot be read.
pub fn status(folder: &Path) -> Result<Option<Kept>, Error> {
    let path = folder.join(STATE);
    match std::fs::read(&path) {
        Ok(text) => {
            let kept = serde_json::from_slice(&text);
            Ok(Some(kept.map_err(|e| Error::file("understand", &path, e.into()))?))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file("read", &path, error)),
    }
}

/// Stops the sandbox kept under `folder`, removes its data, and clears away what crashed runs left.
/// Returns how many server processes were ended. Blocks until they are gone.
///
/// # Errors
/// [`Error::Guard`] when a process does not end; [`Error::File`] when the state cannot be read.
pub fn down(folder: &Path) -> Result<usize, Error> {
    let left = super::ledger::reap();
    let Some(kept) = status(folder)? else { return Ok(left) };
    let servers = [kept.source.process, kept.target.process];
    let running = servers.iter().filter(|server| server.is_alive()).count();
    if let Some(stuck) = end_all(&servers, Duration::from_secs(30)).first() {
        return Err(Error::Guard { why: format!("process {} does not end", stuck.pid) });
    }
    for part in ["source", "target", PASSWORD, STATE] {
        remove(&folder.join(part));
    }
    remove(&kept.sockets);
    Ok(left + running)
}

fn write_state(folder: &Path, kept: &Kept) -> Result<(), Error> {
    let path = folder.join(STATE);
    let text = serde_json::to_string_pretty(kept);
    write_private(&path, &text.map_err(|e| Error::file("write", &path, e.into()))?)
}

fn refuse_proxies(settings: &Settings) -> Result<(), Error> {
    let network = [settings.source_round_trip, settings.target_round_trip];
    if network.iter().all(Duration::is_zero) && settings.target_bandwidth.is_none() {
        return Ok(());
    }
    let why = "the delay proxy is part of dmbench and ends with it, so a sandbox that is kept has \
               no round trip or bandwidth limit"
        .to_owned();
    Err(Error::Settings { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_state_file_there_is_nothing_to_stop() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(status(folder.path()).expect("read"), None);
    }

    #[test]
    fn a_kept_sandbox_has_no_delay_proxy() {
        let settings =
            Settings { target_round_trip: Duration::from_millis(2), ..Settings::default() };
        assert!(matches!(refuse_proxies(&settings), Err(Error::Settings { .. })));
        assert!(refuse_proxies(&Settings::default()).is_ok());
    }
}
