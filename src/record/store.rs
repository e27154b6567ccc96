//! A run's folder: `run.json`, `trials/*.json`, `samples/*.jsonl`, reports.
//!
//! Files are written to a temporary name beside their own and renamed, so that a reader never sees
//! half a record and a crash leaves the old one.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::{Run, SCHEMA, Trial};

/// A run's folder.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// A failure to read or write a record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be written.
    #[error("write {path}: {source}")]
    Write {
        /// File.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("read {path}: {source}")]
    Read {
        /// File.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no record, or one of a newer dmbench.
    #[error("understand {path}: {why}")]
    Understand {
        /// File.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> crate::error::ErrorClass {
        match self {
            Error::Write { .. } => crate::error::ErrorClass::Lab,
            Error::Read { .. } | Error::Understand { .. } => crate::error::ErrorClass::User,
        }
    }
}

impl Store {
    /// A new folder, with its parents.
    ///
    /// # Errors
    /// When it cannot be made or exists already.
    pub fn create(folder: &Path) -> Result<Store, Error> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(write(parent))?;
        }
        fs::create_dir(folder).map_err(write(folder))?;
        for inner in ["trials", "samples"] {
            let path = folder.join(inner);
            fs::create_dir(&path).map_err(write(&path))?;
        }
        Ok(Store { folder: folder.to_owned() })
    }

    /// A folder that exists.
    pub fn open(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a trial's samples go, one JSON object a line.
    pub fn samples_path(&self, label: &str) -> PathBuf {
        self.folder.join("samples").join(format!("{label}.jsonl"))
    }

    /// Writes `run.json`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save_run(&self, run: &Run) -> Result<(), Error> {
        write_json(&self.folder.join("run.json"), run)
    }

    /// Reads `run.json`.
    ///
    /// # Errors
    /// When there is none that this build understands.
    pub fn run(&self) -> Result<Run, Error> {
        read_json(&self.folder.join("run.json"))
    }

    /// Writes a trial's record. Returns its path.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save_trial(&self, trial: &Trial) -> Result<PathBuf, Error> {
        let path = self.folder.join("trials").join(trial.file_name());
        write_json(&path, trial)?;
        Ok(path)
    }

    /// All trials, in the order of their names (which is the order of execution within a task).
    ///
    /// # Errors
    /// When a file cannot be read or understood: a lost trial must not go unnoticed.
    pub fn trials(&self) -> Result<Vec<Trial>, Error> {
        let folder = self.folder.join("trials");
        let read_error = |source| Error::Read { path: folder.clone(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(&folder).map_err(read_error)? {
            let path = entry.map_err(read_error)?.path();
            if path.extension().is_some_and(|e| e == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| read_json(path)).collect()
    }

    /// Writes a report or another text beside the records. Returns its path.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save_text(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.folder.join(name);
        write_whole(&path, text.as_bytes())?;
        Ok(path)
    }
}

fn write_json(path: &Path, record: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(record)
        .map_err(|e| Error::Write { path: path.to_owned(), source: io::Error::other(e) })?;
    text.push(b'\n');
    write_whole(path, &text)
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        // Readable as far as the umask allows, like any other file: a report is there to be shared.
        let readable = fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let understand = |why: String| Error::Understand { path: path.to_owned(), why };
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| understand(e.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => {
            return Err(understand(format!(
                "its schema is {schema}, this build reads {SCHEMA}; use a dmbench that is as new"
            )));
        }
        None => return Err(understand("it has no schema number".to_owned())),
    }
    serde_json::from_value(value).map_err(|e| understand(e.to_string()))
}
