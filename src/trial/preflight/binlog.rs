//! The source's binary log: whether it holds what a pipeline needs, for as long as it needs it.

use std::time::Duration;

use crate::mysql::Flavor;
use crate::trial::preflight::scene::Scene;
use crate::trial::preflight::{Check, End};

const SOURCE: End = End::Source;

/// Whether there is a binlog.
pub(super) fn enabled(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "binlog";
    if !scene.plan.copies {
        return Vec::new();
    }
    vec![match scene.source.is_on("log_bin") && scene.source.server.flavor != Flavor::Tidb {
        true => Check::pass(CODE, SOURCE, "log_bin is on"),
        false => Check::fail(
            CODE,
            SOURCE,
            "log_bin is off",
            "start the server with log_bin (and a server_id), or name another source",
        ),
    }]
}

/// Whether a setting has the one value that sync understands.
fn must_be(scene: &Scene, code: &'static str, name: &str, wanted: &str) -> Vec<Check> {
    let value = scene.source.setting(name);
    // A server without the setting has no other value: before MySQL 5.6 rows are always whole.
    if !scene.plan.reads_binlog || value.is_empty() {
        return Vec::new();
    }
    let seen = format!("{name} is {value}");
    vec![match value.eq_ignore_ascii_case(wanted) {
        true => Check::pass(code, SOURCE, seen),
        false => Check::fail(
            code,
            SOURCE,
            seen,
            format!(
                "SET GLOBAL {name} = {wanted}, and in the configuration; sessions keep the old value until they connect again"
            ),
        ),
    }]
}

/// Rows, not statements.
pub(super) fn format(scene: &Scene) -> Vec<Check> {
    must_be(scene, "binlog-format", "binlog_format", "ROW")
}

/// Whole rows, before and after.
pub(super) fn row_image(scene: &Scene) -> Vec<Check> {
    must_be(scene, "binlog-row-image", "binlog_row_image", "FULL")
}

/// Whether files are kept for as long as the tasks need them.
pub(super) fn retention(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "binlog-retention";
    if !scene.plan.reads_binlog {
        return Vec::new();
    }
    let (side, needed) = (&scene.source, scene.plan.keeps_binlog);
    for name in ["max_binlog_total_size", "binlog_space_limit"] {
        if let Some(bytes) = side.number(name).filter(|bytes| *bytes > 0) {
            return vec![Check::warn(
                CODE,
                SOURCE,
                format!("{name} is {bytes}: files go when there is more, however young"),
                format!("SET GLOBAL {name} = 0 for the time of the run"),
            )];
        }
    }
    let purges = side.setting("binlog_expire_logs_auto_purge").is_empty()
        || side.is_on("binlog_expire_logs_auto_purge");
    let of = |name: &'static str, unit: u64| {
        let number = side.number(name).filter(|number| *number > 0 && purges)?;
        Some((name, Duration::from_secs(number.saturating_mul(unit))))
    };
    let Some((name, kept)) = of("binlog_expire_logs_seconds", 1).or(of("expire_logs_days", 86_400))
    else {
        return vec![Check::pass(CODE, SOURCE, "files are kept until somebody purges them")];
    };
    let seen = format!(
        "files are kept for {} s ({name}), the tasks need them for about {} s",
        kept.as_secs(),
        needed.as_secs()
    );
    let remedy = match name {
        "expire_logs_days" => "SET GLOBAL expire_logs_days = 2".to_owned(),
        _ => format!("SET GLOBAL {name} = {}", (2 * needed.as_secs() + 3_600).max(86_400)),
    };
    vec![if kept < needed {
        Check::fail(CODE, SOURCE, seen, remedy)
    } else if kept < 2 * needed {
        Check::warn(CODE, SOURCE, seen, remedy)
    } else {
        Check::pass(CODE, SOURCE, seen)
    }]
}

/// Whether updates of JSON are written in part.
pub(super) fn row_values(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "binlog-row-value-options";
    let value = scene.source.setting("binlog_row_value_options");
    if !scene.plan.reads_binlog || scene.source.server.flavor != Flavor::Mysql {
        return Vec::new();
    }
    vec![match value.is_empty() {
        true => Check::pass(CODE, SOURCE, "binlog_row_value_options is empty"),
        false => Check::warn(
            CODE,
            SOURCE,
            format!("binlog_row_value_options is {value}: an update of JSON in part ends sync"),
            "SET GLOBAL binlog_row_value_options = ''",
        ),
    }]
}

/// Whether the binlog is compressed.
pub(super) fn compression(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "binlog-compression";
    if !scene.plan.reads_binlog {
        return Vec::new();
    }
    let off = |name: &str| format!("SET GLOBAL {name} = OFF");
    vec![if scene.source.is_on("log_bin_compress") {
        Check::warn(
            CODE,
            SOURCE,
            "log_bin_compress is on: it costs the source CPU, and DM does not read such events",
            off("log_bin_compress"),
        )
    } else if scene.source.is_on("binlog_transaction_compression") {
        Check::warn(
            CODE,
            SOURCE,
            "binlog_transaction_compression is on: it costs the source CPU, and DM's documents ask \
             for it to be off",
            off("binlog_transaction_compression"),
        )
    } else {
        Check::pass(CODE, SOURCE, "the binlog is not compressed")
    }]
}

/// Whether a filter keeps the workload's schema out of the binlog.
pub(super) fn filters(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "binlog-filter";
    let Some((only, never)) = scene.source.filters.as_ref().filter(|_| scene.plan.reads_binlog)
    else {
        return Vec::new();
    };
    let schema = scene.plan.schema.as_str();
    let names = |list: &str| list.split(',').any(|name| name.trim() == schema);
    vec![if !only.is_empty() && !names(only) {
        Check::fail(
            CODE,
            SOURCE,
            format!("binlog_do_db names {only} and not {schema}"),
            format!("add binlog-do-db={schema} to the server's configuration and restart it"),
        )
    } else if names(never) {
        Check::fail(
            CODE,
            SOURCE,
            format!("binlog_ignore_db names {schema}"),
            format!(
                "take binlog-ignore-db={schema} out of the server's configuration and restart it"
            ),
        )
    } else {
        Check::pass(CODE, SOURCE, format!("no filter keeps {schema} out of the binlog"))
    }]
}

/// Whether the source may have replicas, and none has the id that sync will use.
pub(super) fn server_id(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "server-id";
    if !scene.plan.reads_binlog {
        return Vec::new();
    }
    let (side, ours) = (&scene.source, u64::from(scene.plan.server_id));
    let own = side.number("server_id").unwrap_or(0);
    let taken = side.replicas.as_ref().is_some_and(|replicas| replicas.contains(&ours));
    vec![if own == 0 {
        Check::fail(
            CODE,
            SOURCE,
            "server_id is 0: the server refuses replicas",
            "SET GLOBAL server_id = 1 (any id that no other server of the topology has)",
        )
    } else if taken || own == ours {
        Check::fail(
            CODE,
            SOURCE,
            format!("another server of the topology has id {ours}, which sync would register with"),
            "run again: the id follows from the run's name",
        )
    } else {
        let others = match &side.replicas {
            Some(replicas) => format!("replicas registered: {}", replicas.len()),
            None => "the account may not list replicas".to_owned(),
        };
        Check::pass(CODE, SOURCE, format!("server_id is {own}, sync will be {ours}; {others}"))
    }]
}

/// Whether both servers have ids of their own.
pub(super) fn same_server(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "server-id";
    let (source, target) = (&scene.source, &scene.target);
    let ids = (source.number("server_id"), target.number("server_id"));
    let is_shared = matches!(ids, (Some(a), Some(b)) if a == b && a != 0);
    // A target that is no replica of the source may have any id; TiDB's is 0.
    let replicates = source.replicas.as_ref().is_some_and(|replicas| !replicas.is_empty());
    if !scene.plan.copies || !is_shared || !replicates {
        return Vec::new();
    }
    vec![Check::warn(
        CODE,
        End::Target,
        format!("server_id is {}, as on the source, which has replicas", ids.0.unwrap_or(0)),
        "give each server of a replication topology an id of its own",
    )]
}

/// Whether positions are GTIDs too; sync needs none.
pub(super) fn gtid(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "gtid";
    let side = &scene.source;
    if !scene.plan.reads_binlog {
        return Vec::new();
    }
    let seen = match side.server.flavor {
        Flavor::Mariadb => format!("gtid_strict_mode is {}", side.setting("gtid_strict_mode")),
        _ => format!("gtid_mode is {}", side.setting("gtid_mode")),
    };
    let is_between = side.setting("gtid_mode").to_uppercase().ends_with("PERMISSIVE");
    vec![match is_between {
        true => Check::warn(
            CODE,
            SOURCE,
            format!("{seen}: transactions with and without GTID are mixed"),
            "bring gtid_mode to ON or OFF before measuring",
        ),
        false => Check::pass(CODE, SOURCE, format!("{seen}; sync goes by file and offset")),
    }]
}

/// What a commit waits for on each end: no fault, but the first thing to know about a figure.
pub(super) fn durability(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "durability";
    [&scene.source, &scene.target]
        .into_iter()
        .filter(|side| side.server.flavor != Flavor::Tidb)
        .map(|side| {
            let seen = ["sync_binlog", "innodb_flush_log_at_trx_commit"]
                .map(|name| format!("{name} is {}", side.setting(name)));
            Check::pass(CODE, side.end, seen.join(", "))
        })
        .collect()
}
