//! Disks that are full and folders that cannot be written.
//!
//! dmbench runs in a mount namespace of its own, where a tiny file system can be laid over a folder
//! while it runs. Where the system allows no such namespace, a file in the folder's place stands in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dmbench::record::name;

use super::super::import::import;
use super::{Running, assert_aborted, assert_well, stream};

/// What runs a program in a mount namespace, where that is allowed.
fn namespace() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-r", "-m"]];
    let works = |way: &&[&str]| {
        let (program, words) = way.split_first().expect("a program");
        let mount = "mount -t tmpfs -o size=4k tmpfs /mnt";
        let tried = Command::new(program).args(words).args(["sh", "-c", mount]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    WAYS.into_iter().find(works)
}

/// A folder of a run that takes no more bytes. Dropping it makes room.
struct Full {
    folder: PathBuf,
    process: Option<u32>,
    words: &'static str,
}

impl Full {
    fn lay_over(folder: &Path, process: Option<u32>) -> Full {
        Full::lay_over_with(folder, process, "4k")
    }

    /// Leaves some room where there are mounts.
    fn lay_over_with(folder: &Path, process: Option<u32>, free: &str) -> Full {
        let full = |words| Full { folder: folder.to_owned(), process, words };
        let Some(process) = process else {
            let _ = fs::remove_dir(folder);
            fs::write(folder, "in the way").expect("written");
            return full("os error 20");
        };
        fs::create_dir_all(folder).expect("made");
        let shown = folder.display();
        let lay = format!(
            "mount -t tmpfs -o size={free} tmpfs '{shown}' && {{ [ {free} != 4k ] || ! dd if=/dev/zero \
             of='{shown}/filler' bs=1k; }}"
        );
        assert!(inside(process, &lay), "laid over {shown}");
        full("No space left on device")
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        match self.process {
            // The namespace may have ended with its last process.
            Some(process) => {
                let _ = inside(process, &format!("umount -l '{}'", self.folder.display()));
            }
            None => fs::remove_file(&self.folder).expect("it stood there"),
        }
    }
}

fn inside(process: u32, script: &str) -> bool {
    let target = process.to_string();
    let users: &[&str] = match namespace() {
        Some([_, "-m"]) => &[],
        _ => &["--preserve-credentials", "-U"],
    };
    let mut enter = Command::new("nsenter");
    enter.args(users).args(["-m", "-t", &target, "sh", "-c", script]);
    let output = enter.output().expect("nsenter runs");
    output.status.success()
}

fn start(blocks: u32) -> (Running, bool) {
    let text = stream("mariadb", "0s", "2s", &format!("[repeat]\nblocks = {blocks}"));
    let way = namespace();
    (Running::start_by(way.unwrap_or_default(), &text), way.is_some())
}

/// The dump's folder is full in the first trial, and has room again for the last.
#[test]
fn a_full_dump_folder() {
    let (mut running, apart) = start(4);
    // Pre-flight, which looks at the disk, is over by then.
    running.phase(1, "provision");
    let run = running.run_folder();
    let full = Full::lay_over(&run.join("scratch"), apart.then_some(running.child.id()));
    running.record(1);
    let words = full.words;
    drop(full);
    running.end_with(5);
    let (_, trials) = running.records();
    assert_aborted(&trials[0], words, &["seed"], "");
    assert!(super::aborted(&trials[0]).contains("scratch"), "{:?}", trials[0].outcome);
    let hint = &trials[0].findings.last().expect("one").hint;
    assert!(hint.contains("make room") || hint.contains("move it away"), "{hint}");
    assert_well(trials.last().expect("four"));
}

/// The disk is full when a record is to be written: the run ends with exit code 4, what was written
/// before stays readable, and the run goes on when there is room.
#[test]
fn a_full_disk_under_the_records() {
    let (mut running, apart) = start(2);
    running.record(1);
    let first = running.records();
    // The record written before must still be there for the comparison at the end.
    let trials = running.run_folder().join("trials");
    let kept = running.run_folder().join("kept");
    if !apart {
        fs::rename(&trials, &kept).expect("moved");
    }
    let full = Full::lay_over(&trials, apart.then_some(running.child.id()));
    running.end_with(4);
    let stderr = running.stderr();
    assert!(stderr.contains("error: failed to write") && stderr.contains(full.words), "{stderr}");
    assert!(stderr.contains("help: ") && stderr.contains("--resume"), "{stderr}");
    drop(full);
    if !apart {
        fs::rename(&kept, &trials).expect("moved back");
    }
    let (run, trials) = running.records();
    assert!(run.ended.is_some() && trials.len() == 1 && trials[0] == first.1[0]);
    running.resume();
    running.end_with(0);
    let (_, trials) = running.records();
    assert!(trials[0] == first.1[0] && trials.len() == 2);
    assert_well(&trials[1]);
}

/// A timed dump that fills its disk half-way; the last has room, whatever the second began with.
#[test]
fn a_dump_that_fills_its_disk() {
    let way = namespace();
    let text = import("mariadb", 3).replace("table-size = 2000", "table-size = 20_000");
    let text = text
        .replace("rows = 25", "rows = 2500")
        .replace("-round-trip = ", "-round-trip = \"0ms\" # ");
    let mut running =
        Running::start_by(way.unwrap_or_default(), &text.replace("size = 2000", "size = 200_000"));
    running.phase(1, "settle");
    // The folder that the next trial makes anew is one above a mount.
    let folder = running.run_folder().join("scratch");
    let full = Full::lay_over_with(&folder, way.is_some().then_some(running.child.id()), "2m");
    running.record(1);
    let words = full.words;
    drop(full);
    running.end_with(5);
    let (_, trials) = running.records();
    assert_aborted(&trials[0], words, &["measure"], "");
    assert!(super::aborted(&trials[0]).contains("scratch/trial"), "{:?}", trials[0].outcome);
    assert!(trials[0].metric(name::DUMP_TIME).is_none());
    assert_well(&trials[2]);
}

/// The report is made and the records are kept where standard output takes nothing.
#[test]
fn a_report_that_cannot_be_printed() {
    let printer = ["sh", "-c", "exec \"$0\" \"$@\" > /dev/full"];
    let mut running = Running::start_by(&printer, &stream("mariadb", "0s", "1s", ""));
    running.end_with(4);
    let stderr = running.stderr();
    assert!(stderr.contains("error: failed to write to standard output: "), "{stderr}");
    assert!(stderr.contains("help: let standard output go elsewhere"), "{stderr}");
    assert!(stderr.contains("records: ") && running.run_folder().join("report.md").exists());
    let (run, trials) = running.records();
    assert!(run.ended.is_some());
    assert_well(&trials[0]);
}
