//! dmbench's end of the guard: says what to start, hears what became of it.
//!
//! Letting go of the leash closes the guard's standard input, which stops everything. A plain thread
//! listens, so that a leash does not depend on the runtime that made it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Launch, Report, Request, SUBCOMMAND};
use crate::lab::Error;
use crate::lab::sandbox::process::Process;

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::lab::sandbox) enum State {
    /// It runs.
    Running(Process),
    /// It never ran, or it ended.
    Ended {
        /// Exit code 0.
        success: bool,
        /// In words.
        how: String,
    },
}

/// What the guard has said so far.
#[derive(Debug, Default)]
struct Heard {
    states: BTreeMap<String, State>,
    released: bool,
    guard_ended: bool,
}

/// See the module.
#[derive(Debug)]
pub(in crate::lab::sandbox) struct Leash {
    input: Mutex<Option<ChildStdin>>,
    heard: watch::Receiver<Heard>,
}

impl Leash {
    /// Starts the guard. `log` receives its standard error, which is empty unless it panics.
    pub(in crate::lab::sandbox) fn start(executable: &Path, log: &Path) -> Result<Leash, Error> {
        let failed = |source: std::io::Error| Error::Guard {
            why: format!("{}: {source}", executable.display()),
        };
        let log = std::fs::File::create(log).map_err(|e| Error::file("write", log, e))?;
        let mut child = Command::new(executable)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let input = Mutex::new(child.stdin.take());
        let (sender, heard) = watch::channel(Heard::default());
        std::thread::Builder::new()
            .name("sandbox-guard".to_owned())
            .spawn(move || listen(child, &sender))
            .map_err(failed)?;
        Ok(Leash { input, heard })
    }

    /// Starts a program and returns its process.
    pub(in crate::lab::sandbox) async fn launch(&self, launch: Launch) -> Result<Process, Error> {
        let name = launch.name.clone();
        self.say(&Request::Start(launch))?;
        let mut heard = self.heard.clone();
        let heard = heard.wait_for(|heard| heard.guard_ended || heard.states.contains_key(&name));
        match heard.await.ok().and_then(|heard| heard.states.get(&name).cloned()) {
            Some(State::Running(process)) => Ok(process),
            Some(State::Ended { how, .. }) => {
                Err(Error::Guard { why: format!("{name} could not be started: {how}") })
            }
            None => Err(Error::Guard { why: "it ended at once".to_owned() }),
        }
    }

    /// Waits until a launched program has ended.
    pub(in crate::lab::sandbox) fn ended(
        &self,
        name: &str,
    ) -> impl Future<Output = (bool, String)> + use<> {
        let mut heard = self.heard.clone();
        let name = name.to_owned();
        async move {
            let ended = |heard: &Heard| {
                heard.guard_ended || matches!(heard.states.get(&name), Some(State::Ended { .. }))
            };
            match heard.wait_for(ended).await.ok().and_then(|h| h.states.get(&name).cloned()) {
                Some(State::Ended { success, how }) => (success, how),
                _ => (false, "the guard ended".to_owned()),
            }
        }
    }

    /// Has a file or folder removed when the servers have stopped.
    pub(in crate::lab::sandbox) fn remove_at_end(&self, path: PathBuf) -> Result<(), Error> {
        self.say(&Request::Remove(path))
    }

    /// Leaves the servers running on their own.
    pub(in crate::lab::sandbox) async fn release(self) -> Result<(), Error> {
        self.say(&Request::Release)?;
        let mut heard = self.heard.clone();
        let heard = heard.wait_for(|heard| heard.released || heard.guard_ended).await;
        match heard {
            Ok(heard) if heard.released => Ok(()),
            _ => Err(Error::Guard { why: "it ended instead of letting go".to_owned() }),
        }
    }

    /// Stops everything and waits for it.
    pub(in crate::lab::sandbox) async fn stop(self) -> Result<(), Error> {
        *self.input.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut heard = self.heard.clone();
        let ended = heard.wait_for(|heard| heard.guard_ended);
        match tokio::time::timeout(Duration::from_secs(60), ended).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Guard { why: "servers did not stop within 60 s".to_owned() }),
        }
    }

    fn say(&self, request: &Request) -> Result<(), Error> {
        let failed = |why: String| Error::Guard { why };
        let mut line = serde_json::to_vec(request).map_err(|e| failed(e.to_string()))?;
        line.push(b'\n');
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().ok_or_else(|| failed("it was let go".to_owned()))?;
        input.write_all(&line).map_err(|e| failed(format!("it does not listen: {e}")))
    }
}

fn listen(mut child: Child, sender: &watch::Sender<Heard>) {
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Ok(report) = serde_json::from_str(&line) {
                sender.send_modify(|heard| heard.hear(report));
            }
        }
    }
    let _ = child.wait();
    sender.send_modify(|heard| heard.guard_ended = true);
}

impl Heard {
    fn hear(&mut self, report: Report) {
        match report {
            Report::Started { name, process } => {
                self.states.insert(name, State::Running(process));
            }
            Report::Failed { name, why } => {
                self.states.insert(name, State::Ended { success: false, how: why });
            }
            Report::Exited { name, success, how } => {
                self.states.insert(name, State::Ended { success, how });
            }
            Report::Released => self.released = true,
        }
    }
}
