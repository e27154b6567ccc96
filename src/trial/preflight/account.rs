//! What the accounts may do, and whether the servers and schemas may be written.
//!
//! Privileges are those that dmbench uses, no more; each missing one is a check of its own whose
//! remedy is the statement to run.

use crate::mysql::Flavor;
use crate::trial::preflight::grants::escaped;
use crate::trial::preflight::scene::{Scene, Side};
use crate::trial::preflight::{Check, End, Level};

const PRIVILEGE: &str = "privilege";
const READ_ONLY: &str = "read-only";
const OWNER: &str = "schema-owner";

/// Something that must be allowed.
struct Need<'a> {
    /// One of these is enough; the first is the one to grant.
    any_of: Vec<&'static str>,
    /// Where; `None` for the whole server.
    schema: Option<&'a str>,
    level: Level,
    /// What it is for, after "which".
    because: &'static str,
}

/// Privileges of both accounts.
pub(super) fn privileges(scene: &Scene) -> Vec<Check> {
    let mut checks = missing(&scene.source, &of_source(scene));
    if scene.plan.copies {
        checks.extend(missing(&scene.target, &of_target(scene)));
    }
    checks
}

fn of_source(scene: &Scene) -> Vec<Need<'_>> {
    let (plan, side) = (&scene.plan, &scene.source);
    let schema = Some(plan.schema.as_str());
    let on_schema =
        |privilege, because| Need { any_of: vec![privilege], schema, level: Level::Fail, because };
    let mut needs = vec![
        on_schema("SELECT", "reads the workload's rows"),
        on_schema("INSERT", "writes the workload"),
        on_schema("UPDATE", "writes the workload"),
        on_schema("DELETE", "writes the workload"),
        on_schema("CREATE", "makes the workload's schema and tables"),
        on_schema("DROP", "removes the schema that dmbench made"),
        on_schema("INDEX", "makes the workload's secondary indexes"),
    ];
    if !plan.copies {
        return needs;
    }
    let on_server = |any_of, level, because| Need { any_of, schema: None, level, because };
    let is_mysql = side.server.flavor == Flavor::Mysql;
    // MariaDB 10.5.2 split REPLICATION CLIENT; the old name still works in GRANT.
    let monitor = match side.server.flavor {
        Flavor::Mariadb if side.server.at_least(10, 5) => "BINLOG MONITOR",
        _ => "REPLICATION CLIENT",
    };
    needs.push(on_server(
        vec![monitor, "SUPER", "REPLICATION CLIENT"],
        Level::Fail,
        "reads the binlog position",
    ));
    if plan.reads_binlog {
        needs.push(on_server(vec!["REPLICATION SLAVE"], Level::Fail, "reads the binlog"));
    }
    let locks = side.grants.on_schema("LOCK TABLES", &plan.schema, is_literal(side));
    needs.push(on_server(
        match is_mysql && side.server.version >= [8, 0, 23] {
            true => vec!["FLUSH_TABLES", "RELOAD"],
            false => vec!["RELOAD"],
        },
        if locks { Level::Warn } else { Level::Fail },
        if locks {
            "lets a dump lock all tables for a moment (it locks them one by one instead)"
        } else {
            "lets a dump lock all tables for a moment"
        },
    ));
    if is_mysql && side.server.at_least(8, 0) {
        needs.push(on_server(
            vec!["BACKUP_ADMIN"],
            Level::Warn,
            "keeps table definitions as they are during a dump",
        ));
    }
    needs
}

fn of_target(scene: &Scene) -> Vec<Need<'_>> {
    let plan = &scene.plan;
    let on = |schema, privilege, because| Need {
        any_of: vec![privilege],
        schema: Some(schema),
        level: Level::Fail,
        because,
    };
    let mut needs = Vec::new();
    let schema = plan.schema.as_str();
    for (privilege, because) in [
        ("SELECT", "compares rows"),
        ("INSERT", "applies rows"),
        ("UPDATE", "applies rows"),
        ("DELETE", "applies rows"),
        ("CREATE", "makes schema and tables"),
        ("DROP", "removes the schema that dmbench made"),
    ] {
        needs.push(on(schema, privilege, because));
    }
    let meta = plan.meta_schema.as_str();
    for privilege in ["SELECT", "INSERT", "UPDATE", "CREATE", "DROP"] {
        if plan.reads_binlog {
            needs.push(on(meta, privilege, "keeps the checkpoint"));
        }
    }
    needs
}

/// Whether names of schemas in grants are no patterns.
fn is_literal(side: &Side) -> bool {
    side.is_on("partial_revokes")
}

fn missing(side: &Side, needs: &[Need<'_>]) -> Vec<Check> {
    let holds = |need: &Need<'_>| {
        need.any_of.iter().any(|privilege| match need.schema {
            None => side.grants.on_server(privilege),
            Some(schema) => side.grants.on_schema(privilege, schema, is_literal(side)),
        })
    };
    let checks: Vec<Check> = needs
        .iter()
        .filter(|need| !holds(need))
        .map(|need| Check {
            code: PRIVILEGE,
            end: side.end,
            level: need.level,
            evidence: in_words(side, need),
            remedy: grant(side, need),
        })
        .collect();
    if checks.iter().any(|check| check.level == Level::Fail) {
        return checks;
    }
    let (user, host) = &side.account;
    let held = format!("{user}@{host} holds the {} privileges that a run needs", needs.len());
    match checks.is_empty() {
        true => vec![Check::pass(PRIVILEGE, side.end, held)],
        false => checks,
    }
}

fn in_words(side: &Side, need: &Need<'_>) -> String {
    let place = need.schema.map_or_else(String::new, |schema| format!(" on {schema}"));
    let roles = match side.grants.roles.as_slice() {
        [] => String::new(),
        roles => format!(" (its roles count only while active: {})", roles.join(", ")),
    };
    format!("{}{place} is missing, which {}{roles}", need.any_of[0], need.because)
}

/// The statement that gives what is missing.
fn grant(side: &Side, need: &Need<'_>) -> String {
    let place = match need.schema {
        None => "*.*".to_owned(),
        Some(schema) => {
            let name = if is_literal(side) { schema.to_owned() } else { escaped(schema) };
            format!("`{}`.*", name.replace('`', "``"))
        }
    };
    format!("GRANT {} ON {place} TO {}", need.any_of[0], side.account_sql())
}

/// Whether each end may be written at all.
pub(super) fn read_only(scene: &Scene) -> Vec<Check> {
    let target = scene.plan.copies.then_some(&scene.target);
    [Some(&scene.source), target].into_iter().flatten().map(writable).collect()
}

fn writable(side: &Side) -> Check {
    for name in [
        "super_read_only",
        "innodb_read_only",
        "transaction_read_only",
        "tidb_super_read_only",
        "tidb_restricted_read_only",
    ] {
        if side.is_on(name) {
            let seen = format!("{name} is {}", side.setting(name));
            return Check::fail(READ_ONLY, side.end, seen, format!("SET GLOBAL {name} = OFF"));
        }
    }
    if !side.is_on("read_only") {
        return Check::pass(READ_ONLY, side.end, "the server may be written");
    }
    let bypass: &[&str] = match side.server.flavor {
        Flavor::Mariadb if side.server.at_least(10, 11) => &["READ_ONLY ADMIN"],
        Flavor::Mariadb => &["READ_ONLY ADMIN", "SUPER"],
        _ => &["CONNECTION_ADMIN", "SUPER"],
    };
    let seen = format!("read_only is {}", side.setting("read_only"));
    let remedy = "SET GLOBAL read_only = OFF, if this server is meant to be written";
    match bypass.iter().any(|privilege| side.grants.on_server(privilege)) {
        true => {
            let seen = format!("{seen}, but the account may write all the same");
            Check::warn(READ_ONLY, side.end, seen, remedy)
        }
        false => Check::fail(READ_ONLY, side.end, seen, remedy),
    }
}

/// Whether the schemas to write are dmbench's or not there yet.
pub(super) fn owner(scene: &Scene) -> Vec<Check> {
    let plan = &scene.plan;
    let mut checks = Vec::new();
    let on_target = [Some(&plan.schema), plan.reads_binlog.then_some(&plan.meta_schema)];
    let on_target = on_target.into_iter().flatten().filter(|_| plan.copies);
    let places = [(&scene.source, &plan.schema)]
        .into_iter()
        .chain(on_target.map(|schema| (&scene.target, schema)));
    for (side, schema) in places {
        checks.push(match side.schemas.get(schema) {
            None => Check::pass(OWNER, side.end, format!("schema {schema} is not there yet")),
            Some(true) => {
                Check::pass(OWNER, side.end, format!("schema {schema} was made by dmbench"))
            }
            Some(false) => Check::fail(
                OWNER,
                side.end,
                format!("schema {schema} exists and holds no table _dmbench"),
                "dmbench will not touch it: rename it, or use another server",
            ),
        });
    }
    // A pipeline reads and writes one server each; both at once would follow itself.
    if plan.copies && is_same(&scene.source, &scene.target) {
        checks.push(Check::fail(
            "same-server",
            End::Target,
            "source and target are the same server",
            "name two servers",
        ));
    }
    checks
}

/// By what tells servers apart: MySQL's uuid; elsewhere the host, the port and the folder of rows.
fn is_same(source: &Side, target: &Side) -> bool {
    let alike = |name: &str| {
        let value = source.setting(name);
        !value.is_empty() && value == target.setting(name)
    };
    match source.setting("server_uuid").is_empty() {
        true => ["hostname", "port", "datadir"].into_iter().all(alike),
        false => alike("server_uuid"),
    }
}
