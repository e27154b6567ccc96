//! Where log lines go: to stderr as much as asked for, and to `log.txt` of a run's folder.
//!
//! The folder of a run is made after logging has begun; until then lines for its file wait in
//! memory. Progress bars stand on stderr too, so everything written there goes through them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::MultiProgress;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

/// Most bytes that wait for a file; older lines are kept, newer ones are lost.
const MOST_WAITING: usize = 1024 * 1024;

/// The logs of this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Log {
    bars: MultiProgress,
    file: RunFile,
}

impl Log {
    /// Begins logging. `RUST_LOG` goes before `verbosity`: 0 warnings, 1 info, 2 debug, 3 trace.
    pub fn start(verbosity: u8) -> Log {
        let log = Log { bars: MultiProgress::new(), file: RunFile::default() };
        let level = match verbosity {
            0 => "warn",
            1 => "warn,dmbench=info",
            2 => "info,dmbench=debug",
            _ => "debug,dmbench=trace",
        };
        let asked = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
        let stderr = tracing_subscriber::fmt::layer()
            .with_target(verbosity > 1)
            .without_time()
            .with_ansi(false)
            .with_writer(Stderr(log.bars.clone()))
            .with_filter(asked);
        let file = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(log.file.clone())
            .with_filter(EnvFilter::new("info,dmbench=debug"));
        // A second start in one process, as tests may do, keeps the first.
        let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
        log
    }

    /// The bars on stderr.
    pub(super) fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Lets the log go to `log.txt` in a folder, once that folder exists.
    pub(super) fn keep_in(&self, folder: &Path) {
        let mut state = self.file.state();
        state.path = Some(folder.join("log.txt"));
    }

    /// Writes a line for the user to stderr, above the bars.
    pub(super) fn note(&self, line: &str) {
        tracing::debug!("{line}");
        self.bars.suspend(|| {
            // Where stderr is closed there is nobody to tell.
            let _ = writeln!(io::stderr(), "{line}");
        });
    }
}

/// Stderr above the bars.
#[derive(Debug, Clone)]
struct Stderr(MultiProgress);

impl Write for Stderr {
    /// Never fails: where stderr takes no more there is nobody to tell, and whoever logs would panic.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.suspend(|| io::stderr().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Stderr;

    fn make_writer(&'a self) -> Stderr {
        self.clone()
    }
}

/// `log.txt`, from the moment that its folder exists.
#[derive(Debug, Clone, Default)]
struct RunFile(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    path: Option<PathBuf>,
    file: Option<File>,
    waiting: Vec<u8>,
}

impl RunFile {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Opens the file where that is possible by now, and writes what waited for it.
    fn open(&mut self) {
        let Some(path) = &self.path else { return };
        if self.file.is_some() || !path.parent().is_some_and(Path::is_dir) {
            return;
        }
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            let _ = file.write_all(&std::mem::take(&mut self.waiting));
            self.file = Some(file);
        }
    }
}

impl Write for RunFile {
    /// Never fails: a disk that is full ends the run when the next record is written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        state.open();
        if let Some(file) = &mut state.file {
            let _ = file.write_all(bytes);
        } else if state.waiting.len() + bytes.len() <= MOST_WAITING {
            state.waiting.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for RunFile {
    type Writer = RunFile;

    fn make_writer(&'a self) -> RunFile {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_the_folder() {
        let parent = tempfile::tempdir().expect("folder");
        let folder = parent.path().join("run");
        let log = Log { bars: MultiProgress::new(), file: RunFile::default() };
        let mut writer = log.file.clone();
        writer.write_all(b"one\n").expect("write");
        log.keep_in(&folder);
        writer.write_all(b"two\n").expect("write");
        assert!(!folder.exists());
        std::fs::create_dir(&folder).expect("folder");
        writer.write_all(b"three\n").expect("write");
        let text = std::fs::read_to_string(folder.join("log.txt")).expect("log");
        assert_eq!(text, "one\ntwo\nthree\n");
    }
}
