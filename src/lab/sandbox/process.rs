//! A process of this machine, told from any later one with the same number.
//!
//! Process numbers are used again, so a number alone must never be killed: it goes with the moment
//! the process started (`/proc/<pid>/stat`, field 22, in clock ticks since boot). Without `/proc`
//! nothing is ever recognised, and so nothing is ever killed by mistake.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start in clock ticks since boot; 0 where the system does not tell.
    pub started: u64,
}

impl Process {
    /// The process that has this id now.
    pub fn now(pid: u32) -> Process {
        Process { pid, started: stat(pid).map_or(0, |(_, started)| started) }
    }

    /// This process.
    pub fn own() -> Process {
        Process::now(std::process::id())
    }

    /// Whether that very process still runs; a zombie does not.
    pub fn is_alive(&self) -> bool {
        self.started != 0
            && matches!(stat(self.pid), Some((state, started))
                if started == self.started && state != 'Z' && state != 'X')
    }

    /// Sends a signal when that very process still runs.
    pub fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // An error means that it ended in the meantime or belongs to another user.
            let _ = kill_process(pid, signal);
        }
    }
}

/// Asks the processes to end, waits, then kills what is left. Returns those that live even so
/// (stuck in the kernel, or another user's).
pub(super) fn end_all(processes: &[Process], patience: Duration) -> Vec<Process> {
    for (signal, wait) in [(Signal::TERM, patience), (Signal::KILL, Duration::from_secs(10))] {
        processes.iter().for_each(|process| process.signal(signal));
        let deadline = Instant::now() + wait;
        while processes.iter().any(Process::is_alive) && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
    processes.iter().copied().filter(Process::is_alive).collect()
}

/// State letter and start of a process. The second field is the program's name in parentheses and
/// may itself hold spaces and parentheses, so fields are counted after the last one.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Where process ids mean the same: this boot and this pid namespace.
pub(super) fn namespace() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let pids = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), pids.display())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_number() {
        let own = Process::own();
        assert!(own.is_alive());
        let earlier = Process { started: own.started - 1, ..own };
        assert!(!earlier.is_alive());
        // Would end this test if it hit.
        earlier.signal(Signal::KILL);
    }

    #[test]
    fn a_child_that_ignores_the_request_is_killed() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "trap '' TERM; echo; while :; do read line; done"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh runs");
        let mut ready = [0_u8];
        std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut ready)
            .expect("the trap is set before the line");
        let process = Process::now(child.id());
        assert!(end_all(&[process], Duration::from_millis(100)).is_empty());
        assert!(!child.wait().expect("it is ours").success());
    }
}
