//! Which server processes exist, on disk, for the case that dmbench *and* its guard are killed.
//!
//! One small file per guard in a folder of the user's. The next sandbox clears away what a dead
//! guard left: exactly the processes and folders that its file names, recognised by process id and
//! start time, and only where process ids mean the same (this boot, this pid namespace).

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::process::{Process, end_all, namespace};

/// What one guard looks after.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Entry {
    namespace: String,
    guard: Process,
    /// Server processes.
    pub(super) servers: Vec<Process>,
    /// Files and folders to remove once those have ended.
    pub(super) remove: Vec<PathBuf>,
}

impl Entry {
    /// An entry of this process.
    pub(super) fn new() -> Entry {
        Entry {
            namespace: namespace(),
            guard: Process::own(),
            servers: Vec::new(),
            remove: Vec::new(),
        }
    }

    /// Writes the entry. A failure is no reason to stop: the ledger is the last line of defence.
    pub(super) fn write(&self) {
        let Some(folder) = folder() else { return };
        let path = self.path(&folder);
        let temporary = path.with_extension("new");
        if let Ok(text) = serde_json::to_vec(self) {
            let _ =
                std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, &path));
        }
    }

    /// Takes the entry off the ledger and leaves everything as it is.
    pub(super) fn forget(&self) {
        if let Some(folder) = folder() {
            let _ = std::fs::remove_file(self.path(&folder));
        }
    }

    /// Removes what the entry names, then the entry.
    pub(super) fn clear(&self) {
        self.remove.iter().for_each(|path| remove(path));
        self.forget();
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}-{}.json", self.guard.pid, self.guard.started))
    }
}

/// Clears away what dead guards left. Returns how many server processes had to be ended.
pub(super) fn reap() -> usize {
    let Some(folder) = folder() else { return 0 };
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    files.flatten().filter_map(|file| read(&file.path())).map(|entry| reap_entry(&entry)).sum()
}

fn read(path: &Path) -> Option<Entry> {
    if path.extension()? != "json" {
        return None;
    }
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn reap_entry(entry: &Entry) -> usize {
    let here = namespace();
    let boot = |namespace: &str| namespace.split(' ').next().unwrap_or_default().to_owned();
    if boot(&entry.namespace) != boot(&here) {
        // Another boot: its processes are gone for certain. Without boot ids nothing is certain.
        if !boot(&entry.namespace).is_empty() && !boot(&here).is_empty() {
            entry.clear();
        }
        return 0;
    }
    if entry.namespace != here || entry.guard.is_alive() {
        return 0;
    }
    let alive: Vec<_> = entry.servers.iter().copied().filter(Process::is_alive).collect();
    if end_all(&alive, Duration::from_secs(20)).is_empty() {
        entry.clear();
    }
    alive.len()
}

/// Removes a file or folder; it may be gone already. Tries again for a moment, since a process that
/// was just killed may have made a file while the folder was being emptied.
pub(super) fn remove(path: &Path) {
    for _ in 0..20 {
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        if removed.is_ok() || !path.exists() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// The ledger's folder, made where missing and readable by its owner only.
fn folder() -> Option<PathBuf> {
    let folder = cache_folder()?.join("sandboxes");
    make_private(&folder).ok()?;
    Some(folder)
}

/// dmbench's folder in the user's cache folder.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    base.is_absolute().then(|| base.join("dmbench"))
}

/// Makes a folder and its parents, readable by the owner only.
pub(super) fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// A process that runs until its input closes, which the test never does.
    fn bystander() -> std::process::Child {
        let mut cat = std::process::Command::new("cat");
        cat.stdin(std::process::Stdio::piped()).spawn().expect("cat runs")
    }

    fn dead() -> Process {
        let own = Process::own();
        Process { started: own.started + 1, ..own }
    }

    #[test]
    fn what_a_dead_guard_left_is_cleared_away_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        std::fs::create_dir(&data).expect("made");
        let (server, mut stranger) = (bystander(), bystander());
        let of_server = Process::now(server.id());
        let of_stranger = Process::now(stranger.id());
        // The stranger has the number of a server that started at another time.
        let reused = Process { started: of_stranger.started + 1, ..of_stranger };
        let servers = vec![of_server, reused];
        let entry =
            Entry { namespace: namespace(), guard: dead(), servers, remove: vec![data.clone()] };

        let guarded = Entry { guard: Process::own(), ..entry.clone() };
        assert_eq!(reap_entry(&guarded), 0, "its guard lives");
        let elsewhere = namespace() + "x";
        let foreign = Entry { namespace: elsewhere, ..entry.clone() };
        assert_eq!(reap_entry(&foreign), 0, "its process ids mean something else");
        assert!(of_server.is_alive() && data.exists());

        assert_eq!(reap_entry(&entry), 1);
        assert!(!of_server.is_alive() && !data.exists());
        assert!(of_stranger.is_alive());
        stranger.kill().expect("it is ours");
        for mut child in [server, stranger] {
            child.wait().expect("it is ours");
        }
    }

    #[test]
    fn processes_of_an_earlier_boot_are_never_ended() {
        let mut stranger = bystander();
        let entry = Entry {
            namespace: "another-boot pid:[1]".to_owned(),
            guard: dead(),
            servers: vec![Process::now(stranger.id())],
            remove: Vec::new(),
        };
        assert_eq!(reap_entry(&entry), 0);
        assert!(Process::now(stranger.id()).is_alive());
        stranger.kill().expect("it is ours");
        stranger.wait().expect("it is ours");
    }
}
