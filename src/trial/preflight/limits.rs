//! Whether the servers allow as many connections and as long statements as the tasks need.

use crate::mysql::Flavor;
use crate::trial::preflight::Check;
use crate::trial::preflight::scene::{Scene, Side};

/// TiDB's bound on one entry, 6 MiB (`performance.txn-entry-size-limit`).
const TIDB_ENTRY: u64 = 6 * 1024 * 1024;

fn sides(scene: &Scene) -> impl Iterator<Item = (&Side, u64, u64)> {
    let plan = &scene.plan;
    [
        (&scene.source, plan.source_connections, plan.source_statement),
        (&scene.target, plan.target_connections, plan.target_statement),
    ]
    .into_iter()
}

/// `max_connections` against the plan and against what is used now.
pub(super) fn connections(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "max-connections";
    sides(scene)
        .map(|(side, need, _)| {
            let most = side.number("max_connections").unwrap_or(0);
            // This session is one of them, and ends before the run begins.
            let used = side.connected.unwrap_or(1).saturating_sub(1);
            let seen = format!("max_connections is {most}, {used} in use, {need} needed");
            let remedy = format!("SET GLOBAL max_connections = {}", need + used + 20);
            match most {
                // TiDB's word for no bound.
                0 => Check::pass(CODE, side.end, format!("no bound, {need} needed")),
                most if most < need => Check::fail(CODE, side.end, seen, remedy),
                most if most < need + used => Check::warn(CODE, side.end, seen, remedy),
                _ => Check::pass(CODE, side.end, seen),
            }
        })
        .collect()
}

/// How many connections the account itself may have.
pub(super) fn account_connections(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "max-user-connections";
    sides(scene)
        .map(|(side, need, _)| match side.account_connections {
            0 => Check::pass(CODE, side.end, "the account has no bound of its own"),
            most => {
                let (user, host) = &side.account;
                let seen = format!("{user}@{host} may have {most} connections, {need} needed");
                // The account's own bound goes before the server's.
                let remedy = format!(
                    "ALTER USER {} WITH MAX_USER_CONNECTIONS {}",
                    side.account_sql(),
                    need + 20
                );
                match most < need {
                    true => Check::fail(CODE, side.end, seen, remedy),
                    false => Check::pass(CODE, side.end, seen),
                }
            }
        })
        .collect()
}

/// `max_allowed_packet` against the longest statement.
pub(super) fn packet(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "max-allowed-packet";
    sides(scene)
        .filter_map(|(side, _, need)| {
            let most = side.number("max_allowed_packet")?;
            let seen = format!("max_allowed_packet is {most}, statements of up to {need} bytes");
            let remedy = format!("SET GLOBAL max_allowed_packet = {}", (2 * need).max(67_108_864));
            Some(match most < need {
                true => Check::fail(CODE, side.end, seen, remedy),
                false => Check::pass(CODE, side.end, seen),
            })
        })
        .collect()
}

/// Whether a value may be longer than the target takes.
pub(super) fn row_size(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "row-size";
    let side = &scene.target;
    let packet = side.number("max_allowed_packet").unwrap_or(u64::MAX);
    let most = if side.server.flavor == Flavor::Tidb { packet.min(TIDB_ENTRY) } else { packet };
    let mut long: Vec<&str> = scene
        .longest_values
        .iter()
        .filter(|(_, bytes)| **bytes > most)
        .map(|(name, _)| name.as_str())
        .collect();
    if scene.longest_values.is_empty() {
        return Vec::new();
    }
    long.truncate(5);
    vec![match long.is_empty() {
        true => Check::pass(CODE, side.end, format!("no value can be longer than {most} bytes")),
        false => Check::warn(
            CODE,
            side.end,
            format!("a value may be longer than the {most} bytes taken: {}", long.join(", ")),
            "make sure that no row is that long, or raise max_allowed_packet (TiDB: \
             performance.txn-entry-size-limit)",
        ),
    }]
}
