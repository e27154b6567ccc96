//! What processes and the machine used: CPU, memory, storage, the loopback device.
//!
//! Read from `/proc` of this machine; a process elsewhere cannot be seen. Only differences between
//! the window's begin and end count, except for memory, whose peak is the process's own.

use std::fs;

/// Ticks per second of CPU times in `/proc`: Linux shows 100 to programs on every platform,
/// whatever the kernel's own clock.
const TICKS_PER_S: f64 = 100.0;

/// What one process has used since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ProcessUse {
    /// CPU time of all its threads, in seconds.
    pub(super) cpu_s: f64,
    /// Largest resident memory so far, in bytes.
    pub(super) peak_memory: u64,
    /// Bytes read from storage; `None` where the kernel does not let us see it.
    pub(super) read: Option<u64>,
    /// Bytes written to storage.
    pub(super) written: Option<u64>,
}

/// What the machine has used since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct MachineUse {
    /// Busy CPU time of all cores, in seconds.
    pub(super) cpu_s: f64,
    /// Bytes sent over the loopback device.
    pub(super) loopback: u64,
}

/// Reads a process; `None` when it is gone, or dead and not yet buried: then it has no memory.
pub(super) fn process(pid: u32) -> Option<ProcessUse> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    Some(ProcessUse {
        cpu_s: cpu_of(&stat)?,
        peak_memory: number_after(&status, "VmHWM:")? * 1024,
        read: number_after(&io, "read_bytes:"),
        written: number_after(&io, "write_bytes:"),
    })
}

/// Reads the machine; zeros where `/proc` cannot be read.
pub(super) fn machine() -> MachineUse {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    MachineUse { cpu_s: busy_of(&stat).unwrap_or(0.0), loopback: loopback_of(&devices) }
}

/// User and system time: fields 14 and 15, without children, which are watched as processes of
/// their own. The name in field 2 may hold
/// blanks and parentheses, so fields count from its last parenthesis.
fn cpu_of(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11..13)?.iter().map(|f| f.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(ticks as f64 / TICKS_PER_S)
}

/// All but idle (4th), waiting for storage (5th) and guests (9th, 10th: part of user time).
fn busy_of(stat: &str) -> Option<f64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let times: Vec<u64> = line.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    let busy = times.iter().take(8).enumerate().filter(|(i, _)| ![3, 4].contains(i));
    Some(busy.map(|(_, ticks)| *ticks).sum::<u64>() as f64 / TICKS_PER_S)
}

/// Bytes transmitted by `lo`, which are also the bytes received there.
fn loopback_of(devices: &str) -> u64 {
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix("lo:"));
    line.and_then(|l| l.split_whitespace().nth(8)).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let stat = "42 (a) R b) S 1 42 42 0 -1 4194560 9 9 0 0 250 130 15 5 20 0 9 0 1 2 3";
        assert_eq!(cpu_of(stat), Some(3.8));
        assert_eq!(cpu_of("42 (a"), None);
    }

    #[test]
    fn idle_time_is_not_use() {
        assert_eq!(busy_of("cpu  100 1 200 9999 50 3 4 2 70 0\ncpu0 1 1 1"), Some(3.1));
    }

    #[test]
    fn this_process_can_be_read() {
        let before = process(std::process::id()).expect("this process runs");
        assert!(before.peak_memory > 1 << 20 && before.read.is_some());
        let (mut burnt, start) = (0u64, std::time::Instant::now());
        while process(std::process::id()).is_some_and(|p| p.cpu_s <= before.cpu_s) {
            burnt = std::hint::black_box(burnt + 1);
            assert!(start.elapsed().as_secs() < 60, "CPU time must grow while work is done");
        }
        assert_eq!(process(u32::MAX), None);
        assert!(machine().cpu_s > 0.0);
    }

    #[test]
    fn loopback_is_found_among_devices() {
        let devices = "Inter-|   Receive\n face |bytes\n    lo: 7 1 0 0 0 0 0 0 77 1 0 0 0 0 0 0\n  eth0: 9 9";
        assert_eq!(loopback_of(devices), 77);
    }
}
