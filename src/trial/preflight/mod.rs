//! Whether two servers are fit for a task, asked before anything is written.
//!
//! What both ends say is read once ([`Scene`]); the checks are plain functions over that, in one
//! array, each with evidence and a remedy. Nothing here changes a server, and a check that passes
//! says what the servers *say*: what a trial then does to them is the trial's to find out.

mod account;
mod binlog;
mod disk;
mod grants;
mod limits;
mod plan;
mod scene;
mod session;
mod tables;

use std::fmt;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::mysql::{Endpoint, session as mysql_session};
use crate::record;
use crate::task;

pub use plan::Plan;
pub(in crate::trial) use plan::SEED_CLIENTS;
use scene::Scene;

/// A failure to look. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server could not be reached or did not answer.
    #[error(transparent)]
    Session(#[from] mysql_session::Error),
    /// A point of a task makes no task.
    #[error(transparent)]
    Task(#[from] task::Error),
    /// Ctrl-C.
    #[error("check the servers: interrupted")]
    Interrupted,
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::Task(error) => error.class(),
            Error::Interrupted => ErrorClass::Transient,
        }
    }
}

/// Where something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The server written to and replicated from.
    Source,
    /// The server replicated into.
    Target,
    /// The machine that runs dmbench.
    Dmbench,
}

/// What a check gave. Worse is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Pass,
    /// A run works; the remedy makes it better or its figures easier to trust.
    Warn,
    /// A run would fail or mislead.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Check {
    /// Stable code such as `binlog-format`.
    pub code: &'static str,
    /// Where.
    pub end: End,
    /// What it gave.
    pub level: Level,
    /// What was seen, as a fragment such as `binlog_format is MIXED`.
    pub evidence: String,
    /// What to do; empty where it passed.
    pub remedy: String,
}

impl Check {
    fn pass(code: &'static str, end: End, evidence: impl Into<String>) -> Check {
        Check { code, end, level: Level::Pass, evidence: evidence.into(), remedy: String::new() }
    }

    fn warn(
        code: &'static str,
        end: End,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check { code, end, level: Level::Warn, evidence: evidence.into(), remedy: remedy.into() }
    }

    fn fail(
        code: &'static str,
        end: End,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check { code, end, level: Level::Fail, evidence: evidence.into(), remedy: remedy.into() }
    }

    /// As a remark for a run's record.
    pub fn finding(&self) -> record::Finding {
        record::Finding {
            level: match self.level {
                Level::Pass => record::Level::Note,
                Level::Warn => record::Level::Warning,
                Level::Fail => record::Level::Error,
            },
            code: format!("preflight-{}", self.code),
            text: format!("{}: {}", self.end, self.evidence),
            evidence: "as the servers said before the first trial".to_owned(),
            hint: self.remedy.clone(),
        }
    }
}

/// As `source`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Source => "source",
            End::Target => "target",
            End::Dmbench => "dmbench",
        })
    }
}

/// As `fail`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Pass => "pass",
            Level::Warn => "warn",
            Level::Fail => "fail",
        })
    }
}

/// As `fail binlog-format (source): binlog_format is MIXED; SET GLOBAL …`.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}): {}", self.level, self.code, self.end, self.evidence)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

/// All checks; each gives one result per thing that it looked at, none where it does not apply.
const CHECKS: [fn(&Scene) -> Vec<Check>; 31] = [
    account::privileges,
    account::read_only,
    account::owner,
    binlog::enabled,
    binlog::format,
    binlog::row_image,
    binlog::retention,
    binlog::row_values,
    binlog::compression,
    binlog::filters,
    binlog::server_id,
    binlog::same_server,
    binlog::gtid,
    binlog::durability,
    limits::connections,
    limits::account_connections,
    limits::packet,
    limits::row_size,
    session::clock,
    session::time_zone,
    session::sql_mode,
    session::name_case,
    session::version,
    tables::collations,
    tables::column_types,
    tables::keys,
    tables::foreign_keys,
    tables::triggers,
    tables::events,
    disk::scratch,
    disk::writable,
];

/// Asks both ends and judges what they say. Gives every check, worst first. Reads only.
///
/// # Errors
/// When an end cannot be reached or asked, or `cancel` is cancelled.
pub async fn inspect(
    source: &Endpoint,
    target: &Endpoint,
    plan: &Plan,
    cancel: &CancellationToken,
) -> Result<Vec<Check>, Error> {
    let scene = tokio::select! {
        scene = Scene::read(source, target, plan) => scene?,
        () = cancel.cancelled() => return Err(Error::Interrupted),
    };
    let mut checks: Vec<Check> = CHECKS.iter().flat_map(|check| check(&scene)).collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.level));
    Ok(checks)
}
