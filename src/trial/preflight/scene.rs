//! What both servers and this machine say, read once for all checks.
//!
//! What an account may not ask is `None`, never a guess: the check that needs it says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::lab::survey::Clock;
use crate::mysql::schema::{Table, table_names};
use crate::mysql::session::Error;
use crate::mysql::{Endpoint, Flavor, Server, Session, owner};
use crate::trial::preflight::grants::Grants;
use crate::trial::preflight::{End, Plan};

/// Access denied, in the ways servers say it.
const DENIED: [u16; 5] = [1044, 1045, 1142, 1143, 1227];

/// Everything that checks look at.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) plan: Plan,
    pub(super) source: Side,
    pub(super) target: Side,
    /// Tables of the workload's schema on the source, where dmbench did not make it. One of ours is
    /// made anew by every trial, so what it holds now does not matter.
    pub(super) tables: Vec<Table>,
    /// Longest value in bytes that each of those tables allows, by its name.
    pub(super) longest_values: BTreeMap<String, u64>,
    /// Foreign keys of those tables.
    pub(super) foreign_keys: u64,
    /// Triggers of such a schema on the target.
    pub(super) triggers: u64,
    pub(super) disk: Disk,
}

/// One server.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) end: End,
    pub(super) server: Server,
    /// Global variables, names in lower case.
    pub(super) settings: BTreeMap<String, String>,
    /// Connections there now, this one included.
    pub(super) connected: Option<u64>,
    /// Connections that this account may have; 0 for no bound.
    pub(super) account_connections: u64,
    /// User and host of the account as the server knows it.
    pub(super) account: (String, String),
    pub(super) grants: Grants,
    /// Schemas of the plan that exist, and whether dmbench made them.
    pub(super) schemas: BTreeMap<String, bool>,
    pub(super) collations: BTreeSet<String>,
    /// `Binlog_Do_DB` and `Binlog_Ignore_DB`; `None` where the binlog is off or hidden.
    pub(super) filters: Option<(String, String)>,
    /// Server ids of replicas registered there.
    pub(super) replicas: Option<Vec<u64>>,
    /// Enabled events that the account sees.
    pub(super) events: u64,
    pub(super) clock: Clock,
}

/// Where dumps go.
#[derive(Debug)]
pub(super) struct Disk {
    /// The nearest folder above that exists.
    pub(super) folder: PathBuf,
    pub(super) is_writable: bool,
    /// Bytes that may still be written; `None` where the file system does not tell.
    pub(super) free_bytes: Option<u64>,
}

impl Side {
    /// A global variable, empty where the server lacks it.
    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// Whether a variable is switched on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        !matches!(self.setting(name).to_uppercase().as_str(), "" | "OFF" | "0")
    }

    /// The account as a statement names it: `'user'@'host'`.
    pub(super) fn account_sql(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
        let (user, host) = &self.account;
        format!("{}@{}", quoted(user), quoted(host))
    }

    /// A variable as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        // MariaDB's expire_logs_days has a fraction.
        self.setting(name).parse::<f64>().ok().map(|number| number as u64)
    }
}

impl Scene {
    /// Asks both ends.
    pub(super) async fn read(
        source: &Endpoint,
        target: &Endpoint,
        plan: &Plan,
    ) -> Result<Scene, Error> {
        let mut source = Session::connect(source).await?;
        let mut target = Session::connect(target).await?;
        let source_side = Side::read(&mut source, End::Source, plan).await?;
        let target_side = Side::read(&mut target, End::Target, plan).await?;
        let mut scene = Scene {
            plan: plan.clone(),
            source: source_side,
            target: target_side,
            tables: Vec::new(),
            longest_values: BTreeMap::new(),
            foreign_keys: 0,
            triggers: 0,
            disk: Disk::read(&plan.scratch),
        };
        if scene.source.schemas.get(&plan.schema) == Some(&false) {
            scene.read_tables(&mut source).await?;
        }
        if scene.target.schemas.get(&plan.schema) == Some(&false) {
            let sql = "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = ?";
            scene.triggers = count(&mut target, sql, &plan.schema).await?;
        }
        source.close().await;
        target.close().await;
        Ok(scene)
    }

    async fn read_tables(&mut self, source: &mut Session) -> Result<(), Error> {
        let schema = self.plan.schema.clone();
        for name in table_names(source, &schema).await? {
            self.tables.push(Table::read(source, &schema, &name).await?);
        }
        let sql = "SELECT table_name, CAST(MAX(character_octet_length) AS UNSIGNED) \
                   FROM information_schema.columns WHERE table_schema = ? \
                   AND character_octet_length IS NOT NULL GROUP BY table_name";
        for row in source.rows_with(sql, (&schema,)).await? {
            let (name, bytes): (String, u64) = mysql_async::from_row(row);
            self.longest_values.insert(name, bytes);
        }
        let sql = "SELECT COUNT(*) FROM information_schema.referential_constraints \
                   WHERE constraint_schema = ?";
        self.foreign_keys = count(source, sql, &schema).await?;
        Ok(())
    }
}

impl Side {
    async fn read(session: &mut Session, end: End, plan: &Plan) -> Result<Side, Error> {
        let settings = pairs(session, "SHOW GLOBAL VARIABLES").await?;
        let status = pairs(session, "SHOW GLOBAL STATUS LIKE 'Threads_connected'").await?;
        let account: String = session.value("SELECT CURRENT_USER()").await?.unwrap_or_default();
        let (user, host) = account.rsplit_once('@').unwrap_or((&account, "%"));
        let lines: Vec<String> = session.rows("SHOW GRANTS").await?.iter().map(first).collect();
        let mut schemas = BTreeMap::new();
        for schema in [&plan.schema, &plan.meta_schema] {
            if let Some(is_ours) = owner::is_ours(session, schema).await? {
                schemas.insert(schema.clone(), is_ours);
            }
        }
        let allowed = told(session.value("SELECT @@SESSION.max_user_connections").await)?;
        let sql = "SELECT COUNT(*) FROM information_schema.events WHERE status = 'ENABLED'";
        let events = told(session.value(sql).await)?.flatten().unwrap_or(0);
        Ok(Side {
            end,
            server: session.server().clone(),
            settings,
            connected: status.get("threads_connected").and_then(|count| count.parse().ok()),
            account_connections: allowed.flatten().unwrap_or(0),
            account: (user.to_owned(), host.to_owned()),
            grants: Grants::parse(lines.iter().map(String::as_str)),
            schemas,
            collations: collations(session).await?,
            filters: filters(session).await?,
            replicas: replicas(session).await?,
            events,
            clock: Clock::read(session).await?,
        })
    }
}

impl Disk {
    fn read(scratch: &Path) -> Disk {
        let scratch = std::path::absolute(scratch).unwrap_or_else(|_| scratch.to_owned());
        let folder = scratch.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let free = rustix::fs::statvfs(folder).ok();
        Disk {
            folder: folder.to_owned(),
            is_writable: folder.is_dir()
                && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok(),
            free_bytes: free.map(|free| free.f_bavail.saturating_mul(free.f_frsize)),
        }
    }
}

/// An answer, or `None` where the server refuses the question: it does not know it or the account
/// may not ask.
fn told<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code().is_some() && !error.is_disconnect() => Ok(None),
        Err(error) => Err(error),
    }
}

/// An answer, or `None` where the account may not ask.
fn allowed<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if error.code().is_some_and(|code| DENIED.contains(&code)) => Ok(None),
        answer => answer.map(Some),
    }
}

fn first(row: &mysql_async::Row) -> String {
    row.get(0).unwrap_or_default()
}

async fn count(session: &mut Session, sql: &str, schema: &str) -> Result<u64, Error> {
    let rows = session.rows_with(sql, (schema,)).await?;
    Ok(rows.first().and_then(|row| row.get(0)).unwrap_or(0))
}

async fn pairs(session: &mut Session, sql: &str) -> Result<BTreeMap<String, String>, Error> {
    let rows = session.rows(sql).await?;
    let pair = |row: mysql_async::Row| {
        let value = row.get_opt::<String, usize>(1)?.unwrap_or_default();
        Some((row.get::<String, usize>(0)?.to_lowercase(), value))
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// Names of collations as columns show them. MariaDB since 10.10 lists some without the character
/// set that their full name begins with.
async fn collations(session: &mut Session) -> Result<BTreeSet<String>, Error> {
    let full = "SELECT full_collation_name FROM \
                information_schema.collation_character_set_applicability";
    if session.server().flavor == Flavor::Mariadb
        && let Some(rows) = told(session.rows(full).await)?
    {
        return Ok(rows.iter().map(first).collect());
    }
    let rows = session.rows("SELECT collation_name FROM information_schema.collations").await?;
    Ok(rows.iter().map(first).collect())
}

async fn filters(session: &mut Session) -> Result<Option<(String, String)>, Error> {
    let sql = session.server().binlog_status_sql();
    let Some(rows) = allowed(session.rows(sql).await)? else { return Ok(None) };
    let column = |row: &mysql_async::Row, name: &str| row.get(name).unwrap_or_default();
    Ok(rows.first().map(|row| (column(row, "Binlog_Do_DB"), column(row, "Binlog_Ignore_DB"))))
}

async fn replicas(session: &mut Session) -> Result<Option<Vec<u64>>, Error> {
    let server = session.server();
    let sql = if server.flavor == Flavor::Mysql && server.at_least(8, 1) {
        "SHOW REPLICAS"
    } else {
        "SHOW SLAVE HOSTS"
    };
    let rows = told(session.rows(sql).await)?;
    Ok(rows.map(|rows| rows.iter().filter_map(|row| row.get(0)).collect()))
}

#[cfg(test)]
pub(super) mod example {
    use super::*;

    /// A scene in which two servers of these versions say what one would wish; tests change it.
    pub(in crate::trial::preflight) fn scene(source: &str, target: &str) -> Scene {
        let disk = Disk { folder: "/".into(), is_writable: true, free_bytes: Some(u64::MAX) };
        Scene {
            plan: Plan {
                schema: "dmbench".to_owned(),
                meta_schema: "dmbench_meta".to_owned(),
                copies: true,
                reads_binlog: true,
                source_connections: 20,
                target_connections: 20,
                keeps_binlog: std::time::Duration::from_secs(60),
                dump_bytes: 1,
                source_statement: 1,
                target_statement: 1,
                scratch: "/".into(),
                server_id: 7,
            },
            source: side(End::Source, source),
            target: side(End::Target, target),
            tables: Vec::new(),
            longest_values: BTreeMap::new(),
            foreign_keys: 0,
            triggers: 0,
            disk,
        }
    }

    fn side(end: End, version: &str) -> Side {
        let settings = [
            ("log_bin", "ON"),
            ("binlog_format", "ROW"),
            ("server_id", "1"),
            ("max_connections", "100"),
            ("max_allowed_packet", "1000"),
            ("lower_case_table_names", "0"),
            ("time_zone", "SYSTEM"),
            ("system_time_zone", "UTC"),
        ];
        let grants = "GRANT ALL PRIVILEGES ON *.* TO 'u'@'%'";
        Side {
            end,
            server: Server::from_version(version),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            connected: Some(1),
            account_connections: 0,
            account: ("u".to_owned(), "%".to_owned()),
            grants: Grants::parse([grants]),
            schemas: BTreeMap::new(),
            collations: BTreeSet::from(["utf8mb4_bin".to_owned()]),
            filters: Some((String::new(), String::new())),
            replicas: Some(Vec::new()),
            events: 0,
            clock: Clock { offset_s: 0.0, error_s: 0.001 },
        }
    }
}
