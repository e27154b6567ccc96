//! What the target may not understand of a schema that is there already, and what acts on it unseen.

use std::collections::BTreeSet;

use crate::mysql::{Flavor, Server};
use crate::trial::preflight::scene::Scene;
use crate::trial::preflight::{Check, End};

/// The collation of every schema and table that dmbench makes.
const OURS: &str = "utf8mb4_bin";
/// Most names in an evidence.
const MOST_NAMES: usize = 5;

/// Collations of the source's tables that the target lacks.
pub(super) fn collations(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "collation";
    let columns = scene.tables.iter().flat_map(|table| &table.columns);
    let mut used: BTreeSet<&str> = columns.filter_map(|c| c.collation.as_deref()).collect();
    used.insert(OURS);
    let lacking: Vec<&str> =
        used.into_iter().filter(|name| !scene.target.collations.contains(*name)).collect();
    vec![match lacking.is_empty() {
        true => Check::pass(CODE, End::Target, "every collation used is known"),
        false => Check::fail(
            CODE,
            End::Target,
            format!("collations are unknown: {}", lacking.join(", ")),
            "give the source's columns a collation that both servers have, such as utf8mb4_bin",
        ),
    }]
}

/// Whether a server can hold columns of a type (`DATA_TYPE` of information_schema).
fn supports(server: &Server, data_type: &str) -> bool {
    let is_spatial = matches!(
        data_type,
        "geometry"
            | "point"
            | "linestring"
            | "polygon"
            | "multipoint"
            | "multilinestring"
            | "multipolygon"
            | "geometrycollection"
            | "geomcollection"
    );
    let is_mariadbs = matches!(data_type, "uuid" | "inet4" | "inet6" | "xmltype");
    match server.flavor {
        Flavor::Tidb => {
            !is_spatial && !is_mariadbs && (data_type != "vector" || server.at_least(8, 4))
        }
        Flavor::Mysql => !is_mariadbs && (data_type != "vector" || server.at_least(9, 0)),
        Flavor::Mariadb => match data_type {
            "vector" => server.at_least(11, 7),
            "uuid" => server.at_least(10, 7),
            "inet6" => server.at_least(10, 5),
            "inet4" => server.at_least(10, 10),
            _ => true,
        },
    }
}

/// Columns of types that the target cannot hold.
pub(super) fn column_types(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "column-type";
    let strange: Vec<String> = scene
        .tables
        .iter()
        .flat_map(|table| table.columns.iter().map(move |column| (table, column)))
        .filter(|(_, column)| !supports(&scene.target.server, &column.data_type))
        .map(|(table, column)| format!("{}.{} ({})", table.name, column.name, column.data_type))
        .collect();
    about(scene, strange, |names| {
        Check::fail(
            CODE,
            End::Target,
            format!("{} cannot hold {names}", scene.target.server),
            "leave these tables out, or change the columns' types",
        )
    })
    .unwrap_or_else(|| vec![Check::pass(CODE, End::Target, "every column type is known")])
}

/// What a list of names gives: nothing to check where there are no tables, `None` where the list is
/// empty.
fn about(scene: &Scene, names: Vec<String>, check: impl Fn(&str) -> Check) -> Option<Vec<Check>> {
    if scene.tables.is_empty() {
        return Some(Vec::new());
    }
    let more = names.len().saturating_sub(MOST_NAMES);
    let mut shown = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown.push_str(&format!(" and {more} more"));
    }
    (!names.is_empty()).then(|| vec![check(&shown)])
}

/// Tables whose rows have no identity.
pub(super) fn keys(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "table-key";
    let keyless = scene.tables.iter().filter(|table| table.row_key().is_none());
    about(scene, keyless.map(|table| table.name.clone()).collect(), |names| {
        Check::warn(
            CODE,
            End::Source,
            format!("no primary key, and no unique key without NULL: {names}"),
            "add a primary key: without one each change is found by all columns, one worker applies \
             it, and a restart may apply it twice",
        )
    })
    .unwrap_or_else(|| vec![Check::pass(CODE, End::Source, "every table has a key")])
}

/// Foreign keys, whose cascades a binlog does not hold.
pub(super) fn foreign_keys(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "foreign-key";
    if scene.tables.is_empty() {
        return Vec::new();
    }
    vec![match scene.foreign_keys {
        0 => Check::pass(CODE, End::Source, "no foreign keys"),
        count => Check::warn(
            CODE,
            End::Source,
            format!("foreign keys: {count}; sync applies rows with foreign_key_checks off"),
            "make sure that none cascades: what a cascade changes may not be in the binlog",
        ),
    }]
}

/// Triggers on the target, which would act a second time.
pub(super) fn triggers(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "trigger";
    if !scene.plan.copies {
        return Vec::new();
    }
    vec![match scene.triggers {
        0 => Check::pass(CODE, End::Target, "no triggers that this account sees"),
        count => Check::warn(
            CODE,
            End::Target,
            format!("triggers in {}: {count}; they act on every row applied", scene.plan.schema),
            "drop them: their effect on the source comes by the binlog already",
        ),
    }]
}

/// Scheduled events, which write while something is measured.
pub(super) fn events(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "event";
    [&scene.source, &scene.target]
        .map(|side| match side.setting("event_scheduler") == "ON" && side.events > 0 {
            true => Check::warn(
                CODE,
                side.end,
                format!("event_scheduler is ON, enabled events: {}", side.events),
                "SET GLOBAL event_scheduler = OFF for the time of the run, if they write much",
            ),
            false => Check::pass(CODE, side.end, "no scheduled events that this account sees"),
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_known_by_flavour_and_version() {
        for (version, data_type, expected) in [
            ("8.0.11-TiDB-v8.4.0", "point", false),
            ("8.0.11-TiDB-v8.4.0", "vector", true),
            ("8.0.11-TiDB-v7.5.0", "vector", false),
            ("8.0.11-TiDB-v8.4.0", "json", true),
            ("9.7.4", "point", true),
            ("9.7.4", "uuid", false),
            ("8.0.36", "vector", false),
            ("10.11.19-MariaDB", "inet6", true),
            ("10.11.19-MariaDB", "vector", false),
            ("10.4.1-MariaDB", "uuid", false),
        ] {
            let server = Server::from_version(version);
            assert_eq!(supports(&server, data_type), expected, "{version} {data_type}");
        }
    }
}
