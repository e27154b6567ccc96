//! Empty data folders: copied from a template where there is one, else initialised and kept.
//!
//! `mysqld --initialize` takes seconds; a copy takes a fraction. Templates live in the user's cache
//! folder, one per program and version, and appear there by renaming, so that a half-made one is
//! never seen. What makes a server unique is not part of a template.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::find::Found;
use super::flags::{self, Home};
use super::guard::{Launch, Leash};
use super::ledger::{cache_folder, make_private, remove};
use super::log_tail;
use super::settings::Program;
use crate::lab::Error;

/// What a template is made of; a change of the initial flags needs a new number.
const LAYOUT: u32 = 1;

/// Fills the data folder of a server that is to start for the first time.
pub(super) async fn fill(
    found: &Found,
    home: &Home,
    name: &str,
    leash: &Leash,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    let data = home.data();
    if found.program == Program::Tidb {
        return make_private(&data).map_err(|e| Error::file("make", &data, e));
    }
    let template = template(found);
    if let Some(template) = template.clone().filter(|template| template.is_dir()) {
        if copy_apart(template, data.clone(), cancel).await.is_ok() {
            return Ok(());
        }
        remove(&data);
    }
    initialise(found, home, name, leash, cancel).await?;
    if let Some(template) = template {
        // Without a template the next start takes longer; nothing else.
        let _ = keep(data, template, cancel).await;
    }
    Ok(())
}

async fn initialise(
    found: &Found,
    home: &Home,
    name: &str,
    leash: &Leash,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    let log = home.folder.join("initialise.log");
    let (program, arguments) = flags::initialise(found, home);
    let name = format!("initialise {name}");
    let launch = Launch {
        name: name.clone(),
        program,
        arguments,
        environment: BTreeMap::new(),
        output: log.clone(),
        parent: Some(0),
    };
    leash.launch(launch).await?;
    let (success, how) = tokio::select! {
        () = cancel.cancelled() => return Err(Error::Interrupted),
        ended = leash.ended(&name) => ended,
    };
    if success {
        return Ok(());
    }
    Err(Error::Initialise { server: found.to_string(), why: how, log: log_tail(&log) })
}

fn template(found: &Found) -> Option<PathBuf> {
    let version: String =
        found.version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = format!("{}-{version}-{LAYOUT}", found.program.command());
    Some(cache_folder()?.join("templates").join(name))
}

async fn keep(data: PathBuf, template: PathBuf, cancel: &CancellationToken) -> std::io::Result<()> {
    let parent = template.parent().map(Path::to_owned).unwrap_or_default();
    make_private(&parent)?;
    let own = tempfile::tempdir_in(&parent)?;
    copy_apart(data, own.path().join("data"), cancel).await?;
    // Fails where another dmbench was first, which is as good.
    std::fs::rename(own.path().join("data"), template)
}

async fn copy_apart(from: PathBuf, to: PathBuf, cancel: &CancellationToken) -> std::io::Result<()> {
    let cancel = cancel.clone();
    tokio::task::spawn_blocking(move || copy(&from, &to, &cancel)).await?
}

fn copy(from: &Path, to: &Path, cancel: &CancellationToken) -> std::io::Result<()> {
    make_private(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        if cancel.is_cancelled() {
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted));
        }
        let target = to.join(file.file_name());
        if file.file_type()?.is_dir() {
            copy(&file.path(), &target, cancel)?;
        } else if file.file_name() != "auto.cnf" {
            // auto.cnf holds server_uuid, which must differ between any two servers.
            std::fs::copy(file.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_everything_but_the_identity() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let from = folder.path().join("from");
        std::fs::create_dir_all(from.join("mysql")).expect("made");
        for (name, text) in [("auto.cnf", "uuid"), ("ibdata1", "pages"), ("mysql/a.frm", "x")] {
            std::fs::write(from.join(name), text).expect("written");
        }
        let to = folder.path().join("to");
        copy(&from, &to, &CancellationToken::new()).expect("copied");
        assert_eq!(std::fs::read(to.join("mysql/a.frm")).expect("copied"), b"x");
        assert!(to.join("ibdata1").exists() && !to.join("auto.cnf").exists());
    }

    #[test]
    fn an_interrupted_copy_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let from = folder.path().join("from");
        std::fs::create_dir_all(from.join("mysql")).expect("made");
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(copy(&from, &folder.path().join("to"), &cancel).is_err());
    }
}
