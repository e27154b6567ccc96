//! What a DDL needs to be set on the target to mean what it meant on the source.

use crate::mysql::binlog::Origin;

/// The bits of `sql_mode` that MySQL, MariaDB and TiDB share, by `sql/system_variables.h` of MySQL.
/// Modes of one flavour alone are left out: the others refuse their names.
const MODES: [(u32, &str); 18] = [
    (0, "REAL_AS_FLOAT"),
    (1, "PIPES_AS_CONCAT"),
    (2, "ANSI_QUOTES"),
    (3, "IGNORE_SPACE"),
    (5, "ONLY_FULL_GROUP_BY"),
    (6, "NO_UNSIGNED_SUBTRACTION"),
    (7, "NO_DIR_IN_CREATE"),
    (19, "NO_AUTO_VALUE_ON_ZERO"),
    (20, "NO_BACKSLASH_ESCAPES"),
    (21, "STRICT_TRANS_TABLES"),
    (22, "STRICT_ALL_TABLES"),
    (23, "NO_ZERO_IN_DATE"),
    (24, "NO_ZERO_DATE"),
    (25, "ALLOW_INVALID_DATES"),
    (26, "ERROR_FOR_DIVISION_BY_ZERO"),
    (29, "HIGH_NOT_PRECEDENCE"),
    (30, "NO_ENGINE_SUBSTITUTION"),
    (31, "PAD_CHAR_TO_FULL_LENGTH"),
];

/// The statement that sets a session of the target as the source's was; `None` where the binlog says
/// nothing of it.
pub(super) fn settings(origin: &Origin) -> Option<String> {
    let mode = origin.sql_mode.map(|bits| {
        let names: Vec<&str> =
            MODES.iter().filter(|(bit, _)| bits >> bit & 1 != 0).map(|(_, name)| *name).collect();
        format!("sql_mode = '{}'", names.join(","))
    });
    let zone = origin.time_zone.as_ref().map(|zone| {
        let zone = zone.replace('\\', "\\\\").replace('\'', "''");
        format!("time_zone = '{zone}'")
    });
    let set: Vec<String> = mode.into_iter().chain(zone).collect();
    (!set.is_empty()).then(|| format!("SET SESSION {}", set.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_binlog_says_is_set() {
        let origin =
            |sql_mode, zone: Option<&str>| Origin { sql_mode, time_zone: zone.map(str::to_owned) };
        assert_eq!(settings(&origin(None, None)), None);
        assert_eq!(settings(&origin(Some(0), None)).as_deref(), Some("SET SESSION sql_mode = ''"));
        // Bits 18, 27 and 33 stand for other modes together or are one flavour's own.
        let bits = 1 << 2 | 1 << 18 | 1 << 21 | 1 << 27 | 1 << 33;
        assert_eq!(
            settings(&origin(Some(bits), Some("Europe/Zürich"))).as_deref(),
            Some(
                "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES', \
                 time_zone = 'Europe/Zürich'"
            )
        );
    }
}
