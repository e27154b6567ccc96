//! What differs between the ends in how sessions see the world: clocks, zones, modes, names.

use std::collections::BTreeSet;

use crate::lab::survey::Clock;
use crate::mysql::Flavor;
use crate::trial::preflight::scene::{Scene, Side};
use crate::trial::preflight::{Check, End};

/// Offsets above this are worth a word: they enter every lag that is taken from a server's clock.
const OFFSET_S: f64 = 1.0;

/// Parts of `sql_mode` that change what a statement means or whether a value is taken.
const TELLING: [&str; 6] = [
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES",
    "PAD_CHAR_TO_FULL_LENGTH",
    "PIPES_AS_CONCAT",
    "STRICT_ALL_TABLES",
    "STRICT_TRANS_TABLES",
];

/// Clocks of both ends against this machine's.
pub(super) fn clock(scene: &Scene) -> Vec<Check> {
    [&scene.source, &scene.target].map(|side| judge_clock(side.end, side.clock)).into()
}

fn judge_clock(end: End, clock: Clock) -> Check {
    const CODE: &str = "clock";
    let Clock { offset_s, error_s } = clock;
    let seen = format!(
        "the clock is {:+.0} ms off this machine's (± {:.1} ms)",
        offset_s * 1e3,
        error_s * 1e3
    );
    match offset_s.abs() > OFFSET_S + error_s {
        true => Check::warn(
            CODE,
            end,
            seen,
            "let both machines follow one time service; lag by markers does not use this clock",
        ),
        false => Check::pass(CODE, end, seen),
    }
}

/// Time zones of both servers.
pub(super) fn time_zone(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "time-zone";
    let zone = |side: &Side| {
        let zone = match side.setting("time_zone") {
            "SYSTEM" => side.setting("system_time_zone"),
            zone => zone,
        };
        match zone {
            "UTC" | "Etc/UTC" | "GMT" | "+0:00" => "+00:00".to_owned(),
            zone => zone.to_owned(),
        }
    };
    let (source, target) = (zone(&scene.source), zone(&scene.target));
    vec![match source == target {
        true => Check::pass(CODE, End::Target, format!("{target} on both ends")),
        false => Check::warn(
            CODE,
            End::Target,
            format!("time_zone is {target}, on the source {source}"),
            "set one time zone on both; dmbench's own sessions use UTC",
        ),
    }]
}

/// Differences of `sql_mode` that matter to written rows.
pub(super) fn sql_mode(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "sql-mode";
    let modes = |side: &Side| -> BTreeSet<&'static str> {
        let mode = side.setting("sql_mode").to_uppercase();
        let set: BTreeSet<&str> = mode.split(',').collect();
        TELLING.into_iter().filter(|telling| set.contains(telling)).collect()
    };
    let (source, target) = (modes(&scene.source), modes(&scene.target));
    let differing: Vec<_> = source.symmetric_difference(&target).copied().collect();
    vec![match differing.is_empty() {
        true => Check::pass(CODE, End::Target, "sql_mode agrees with the source where it matters"),
        false => Check::warn(
            CODE,
            End::Target,
            format!("sql_mode differs from the source's by {}", differing.join(", ")),
            "set one sql_mode on both; the pipeline's own sessions set theirs",
        ),
    }]
}

/// Whether names that differ in case may meet.
pub(super) fn name_case(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "lower-case-table-names";
    let value = |side: &Side| side.setting("lower_case_table_names").to_owned();
    let (source, target) = (value(&scene.source), value(&scene.target));
    let names = scene.tables.iter().map(|table| table.name.as_str());
    let has_upper =
        names.chain([scene.plan.schema.as_str()]).any(|name| name != name.to_lowercase());
    let seen = format!("lower_case_table_names is {target}, on the source {source}");
    vec![match source != target && has_upper {
        true => Check::warn(
            CODE,
            End::Target,
            format!("{seen}, and there are names with upper-case letters"),
            "set it alike on both ends, or use lower-case names (DM: case-sensitive)",
        ),
        false => Check::pass(CODE, End::Target, seen),
    }]
}

/// Whether the source is a server that has a binlog at all.
pub(super) fn version(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "version";
    let (source, target) = (&scene.source.server, &scene.target.server);
    let source = match source.flavor {
        Flavor::Tidb if scene.plan.copies => Check::fail(
            CODE,
            End::Source,
            format!("{source} has no binlog to replicate from"),
            "name a MySQL or MariaDB source",
        ),
        _ => Check::pass(CODE, End::Source, source.to_string()),
    };
    vec![source, Check::pass(CODE, End::Target, target.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::preflight::Level;

    #[test]
    fn a_clock_is_off_only_beyond_what_is_known() {
        let level = |offset_s, error_s| judge_clock(End::Source, Clock { offset_s, error_s }).level;
        assert_eq!(level(0.9, 0.001), Level::Pass);
        assert_eq!(level(-1.2, 0.001), Level::Warn);
        assert_eq!(level(1.2, 0.5), Level::Pass, "it may be 0.7 s");
    }
}
