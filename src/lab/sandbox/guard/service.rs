//! The guard process itself: starts, watches, stops, removes.
//!
//! Plain threads and no runtime: one thread reads requests, one waits for each child, and the main
//! thread alone starts, signals and reaps. A child that has ended stays unreaped until the main
//! thread collects it, so a signal can never hit a stranger with the same number.

use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Launch, Report, Request, SUBCOMMAND};
use crate::error::Exit;
use crate::lab::sandbox::ledger::Entry;
use crate::lab::sandbox::process::Process;

/// How long a server may take to stop by itself before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

enum Happening {
    Asked(Request),
    Closed,
    Ended(u32),
}

struct Ward {
    name: String,
    child: Child,
    ended: bool,
}

/// Runs the guard until its standard input closes. The command line calls this for the hidden
/// subcommand [`SUBCOMMAND`] and exits with what it returns.
pub fn run() -> Exit {
    let Some(first) = first_request() else { return Exit::Ok };
    if let Request::Become(launch) = first {
        return turn_into(&launch);
    }
    let (sender, happenings) = mpsc::channel();
    let _ = sender.send(Happening::Asked(first));
    let requests = sender.clone();
    std::thread::spawn(move || read_requests(&requests));
    Service { wards: Vec::new(), entry: Entry::new(), sender }.serve(&happenings)
}

fn first_request() -> Option<Request> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn read_requests(sender: &mpsc::Sender<Happening>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        // Only dmbench writes here, of the same build; a line that cannot be read ends the guard.
        let Ok(request) = serde_json::from_str(&line) else { break };
        let _ = sender.send(Happening::Asked(request));
    }
    let _ = sender.send(Happening::Closed);
}

/// Becomes the program, after asking the kernel to end it with its parent. The parent may have died
/// before that, so its number is checked afterwards.
fn turn_into(launch: &Launch) -> Exit {
    #[cfg(target_os = "linux")]
    if let Some(parent) = launch.parent {
        let asked = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
        let now =
            rustix::process::getppid().map(Pid::as_raw_nonzero).map(|p| p.get().cast_unsigned());
        if asked.is_err() || now != Some(parent) {
            return Exit::Lab;
        }
    }
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments).envs(&launch.environment).stdin(Stdio::null());
    let error = command.exec();
    let _ = writeln!(std::io::stderr(), "cannot run {}: {error}", launch.program.display());
    Exit::Lab
}

struct Service {
    wards: Vec<Ward>,
    entry: Entry,
    sender: mpsc::Sender<Happening>,
}

impl Service {
    fn serve(mut self, happenings: &mpsc::Receiver<Happening>) -> Exit {
        while let Ok(happening) = happenings.recv() {
            match happening {
                Happening::Asked(Request::Start(launch)) => self.start(launch),
                Happening::Asked(Request::Remove(path)) => self.remove_at_end(path),
                Happening::Asked(Request::Release) => {
                    self.entry.forget();
                    report(&Report::Released);
                    return Exit::Ok;
                }
                Happening::Asked(Request::Become(_)) | Happening::Closed => break,
                Happening::Ended(pid) => self.reap(pid),
            }
        }
        self.stop_all(happenings);
        self.entry.clear();
        Exit::Ok
    }

    fn start(&mut self, launch: Launch) {
        let name = launch.name.clone();
        match self.spawn(launch) {
            Ok(process) => report(&Report::Started { name, process }),
            Err(error) => report(&Report::Failed { name, why: error.to_string() }),
        }
    }

    /// Starts a copy of the guard that turns into the program (see [`turn_into`]). Called on the
    /// main thread only: the kernel's parent-death signal goes with the thread.
    fn spawn(&mut self, mut launch: Launch) -> std::io::Result<Process> {
        let output = std::fs::File::options().create(true).append(true).open(&launch.output)?;
        if launch.parent.is_some() {
            launch.parent = Some(std::process::id());
        }
        let own = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        let mut child = Command::new(own)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let process = Process::now(child.id());
        self.entry.servers.push(process);
        self.entry.write();
        if let Some(mut input) = child.stdin.take() {
            let mut line = serde_json::to_vec(&Request::Become(launch.clone()))?;
            line.push(b'\n');
            // If this fails the child ends by itself, which is reported like any other end.
            let _ = input.write_all(&line);
        }
        self.watch(child.id());
        self.wards.push(Ward { name: launch.name, child, ended: false });
        Ok(process)
    }

    /// Waits on a thread without reaping, so that the number stays taken until [`Service::reap`].
    fn watch(&self, pid: u32) {
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            if let Some(id) = raw(pid) {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while matches!(waitid(WaitId::Pid(id), options), Err(rustix::io::Errno::INTR)) {}
            }
            let _ = sender.send(Happening::Ended(pid));
        });
    }

    fn reap(&mut self, pid: u32) {
        let Some(ward) = self.wards.iter_mut().find(|w| w.child.id() == pid && !w.ended) else {
            return;
        };
        let (success, how) = match ward.child.wait() {
            Ok(status) => (status.success(), status.to_string()),
            Err(error) => (false, error.to_string()),
        };
        ward.ended = true;
        let name = ward.name.clone();
        self.entry.servers.retain(|server| server.pid != pid);
        self.entry.write();
        report(&Report::Exited { name, success, how });
    }

    fn remove_at_end(&mut self, path: PathBuf) {
        self.entry.remove.push(path);
        self.entry.write();
    }

    fn stop_all(&mut self, happenings: &mpsc::Receiver<Happening>) {
        for (signal, wait) in [(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE)] {
            let deadline = Instant::now() + wait;
            for ward in self.wards.iter().filter(|ward| !ward.ended) {
                if let Some(id) = raw(ward.child.id()) {
                    // Its whole group: an installation script has children of its own.
                    let _ = kill_process_group(id, signal);
                }
            }
            while self.wards.iter().any(|ward| !ward.ended) {
                let left = deadline.saturating_duration_since(Instant::now());
                match happenings.recv_timeout(left) {
                    Ok(Happening::Ended(pid)) => self.reap(pid),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Says it to dmbench; when dmbench is gone nobody listens, and the closed input ends the guard.
fn report(report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let mut output = std::io::stdout().lock();
        let _ = output.write_all(&line).and_then(|()| output.flush());
    }
}
