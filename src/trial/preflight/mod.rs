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
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::mysql::{Endpoint, session as mysql_session};
use crate::record;
use crate::task;

pub use plan::Plan;
pub(in crate::trial) use plan::SEED_CLIENTS;
use scene::Scene;

/// Longest time for all questions together.
const LIMIT: Duration = Duration::from_secs(60);

/// A failure to look. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server could not be reached or did not answer.
    #[error(transparent)]
    Session(#[from] mysql_session::Error),
    /// A point of a task makes no task.
    #[error(transparent)]
    Task(#[from] task::Error),
    /// A server accepts a connection or a question and then says nothing.
    #[error("hear all that was asked of {source_end} and {target_end} within {} s", LIMIT.as_secs())]
    TooLate {
        /// `user@address` of the source.
        source_end: String,
        /// That of the target.
        target_end: String,
    },
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
            Error::TooLate { .. } => ErrorClass::Lab,
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
/// When an end cannot be reached or asked or takes a minute, or `cancel` is cancelled.
pub async fn inspect(
    source: &Endpoint,
    target: &Endpoint,
    plan: &Plan,
    cancel: &CancellationToken,
) -> Result<Vec<Check>, Error> {
    let scene = tokio::select! {
        scene = Scene::read(source, target, plan) => scene?,
        () = cancel.cancelled() => return Err(Error::Interrupted),
        () = tokio::time::sleep(LIMIT) => return Err(Error::TooLate {
            source_end: source.to_string(),
            target_end: target.to_string(),
        }),
    };
    let mut checks: Vec<Check> = CHECKS.iter().flat_map(|check| check(&scene)).collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.level));
    Ok(checks)
}

/// Settings that no server changes while it runs; the others are tested on real servers.
#[cfg(test)]
mod tests {
    use super::scene::example;
    use super::*;
    use crate::mysql::schema::Table;

    fn faults(scene: &Scene) -> Vec<String> {
        let checks = CHECKS.iter().flat_map(|check| check(scene));
        let bad = checks.filter(|check| check.level > Level::Pass);
        bad.map(|check| format!("{} {} {}", check.level, check.code, check.end)).collect()
    }

    #[test]
    fn what_one_would_wish_passes_on_every_flavour() {
        const TIDB: &str = "8.0.11-TiDB-v8.4.0";
        const MARIADB: &str = "10.11.19-MariaDB";
        for (source, target) in [("9.7.4", TIDB), (MARIADB, TIDB), ("5.7.44", "8.0.36")] {
            assert_eq!(faults(&example::scene(source, target)), [""; 0], "{source} {target}");
        }
        assert_eq!(
            faults(&example::scene(TIDB, "9.7.4")),
            ["fail binlog source", "fail version source"]
        );
    }

    #[test]
    fn filters_that_hide_the_schema_fail() {
        for (only, never, fails) in [
            ("", "", false),
            ("shop", "", true),
            ("shop,dmbench", "", false),
            ("", "shop,dmbench", true),
            ("", "shop", false),
        ] {
            let mut scene = example::scene("9.7.4", "9.7.4");
            scene.source.filters = Some((only.to_owned(), never.to_owned()));
            let expected = ["fail binlog-filter source"];
            assert_eq!(faults(&scene), expected[usize::from(!fails)..], "{only} {never}");
        }
    }

    #[test]
    fn names_that_may_meet_warn() {
        let mut scene = example::scene("9.7.4", "9.7.4");
        scene.target.settings.insert("lower_case_table_names".to_owned(), "2".to_owned());
        assert_eq!(faults(&scene), [""; 0], "all names are in lower case");
        scene.tables.push(Table {
            schema: "dmbench".to_owned(),
            name: "Orders".to_owned(),
            columns: Vec::new(),
            unique_keys: Vec::new(),
            expression_keys: Vec::new(),
        });
        let faults = faults(&scene);
        assert!(faults.contains(&"warn lower-case-table-names target".to_owned()), "{faults:?}");
    }

    #[test]
    fn clocks_and_bounds_by_size_warn() {
        let mut scene = example::scene("9.7.4", "9.7.4");
        scene.target.clock.offset_s = -3.0;
        assert_eq!(faults(&scene), ["warn clock target"]);
        let mut scene = example::scene("11.4.2-MariaDB", "9.7.4");
        scene.source.settings.insert("max_binlog_total_size".to_owned(), "1000000".to_owned());
        assert_eq!(faults(&scene), ["warn binlog-retention source"]);
        let mut scene = example::scene("9.7.4", "9.7.4");
        scene.source.replicas = Some(vec![1]);
        assert_eq!(faults(&scene), ["warn server-id target"], "both have id 1");
    }

    #[test]
    fn remedies_fit_flavour_version_and_account() {
        for (version, account, expected) in [
            ("9.7.4", "u", "GRANT FLUSH_TABLES ON *.* TO 'u'@'%'"),
            ("8.0.22", "u", "GRANT RELOAD ON *.* TO 'u'@'%'"),
            ("5.7.44", "o'x", "GRANT RELOAD ON *.* TO 'o''x'@'%'"),
            ("10.4.1-MariaDB", "u", "GRANT REPLICATION CLIENT ON *.* TO 'u'@'%'"),
            ("10.11.19-MariaDB", "u", "GRANT BINLOG MONITOR ON *.* TO 'u'@'%'"),
            ("9.7.4", "u", "GRANT BACKUP_ADMIN ON *.* TO 'u'@'%'"),
        ] {
            let mut scene = example::scene(version, "9.7.4");
            account.clone_into(&mut scene.source.account.0);
            scene.source.grants = grants::Grants::default();
            let remedies: Vec<_> =
                account::privileges(&scene).into_iter().map(|check| check.remedy).collect();
            assert!(remedies.iter().any(|remedy| remedy == expected), "{version} {remedies:?}");
            let has_backup = remedies.iter().any(|remedy| remedy.contains("BACKUP_ADMIN"));
            assert_eq!(has_backup, ["9.7.4", "8.0.22"].contains(&version));
        }
    }

    /// Nobody speaks first: the clock runs ahead as soon as all wait.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_nothing_is_given_up() {
        let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = deaf.local_addr().expect("bound").port();
        let endpoint = Endpoint::tcp("127.0.0.1", port, "u", crate::mysql::Secret::new("p"));
        let plan = example::scene("9.7.4", "9.7.4").plan;
        let cancel = CancellationToken::new();
        let error = inspect(&endpoint, &endpoint, &plan, &cancel).await.expect_err("deaf");
        assert_eq!(crate::error::Exit::from(error.class()), crate::error::Exit::Lab);
        assert!(error.to_string().contains("no answer within 10 s"), "{error}");
        cancel.cancel();
        let error = inspect(&endpoint, &endpoint, &plan, &cancel).await.expect_err("cancelled");
        assert!(matches!(error, Error::Interrupted), "{error}");
    }
}
