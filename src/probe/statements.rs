//! Statements that the target counted, by its `Com_*` counters.
//!
//! These are the server's own counts and so include every client's statements; what the probes
//! themselves asked is taken out by the sampler.

use crate::mysql::session::{Error as SessionError, Session};

/// Counters of statements that read or write rows or end transactions. A prepared statement counts
/// once, under what it does (`Com_stmt_execute` counts it again and is left out).
const COUNTED: [&str; 13] = [
    "Com_select",
    "Com_insert",
    "Com_insert_select",
    "Com_replace",
    "Com_replace_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete",
    "Com_delete_multi",
    "Com_load",
    "Com_begin",
    "Com_commit",
    "Com_rollback",
];

/// What is said where there are none.
pub(super) const NO_COUNTERS: &str =
    "The target has no Com_* counters: its statements were not counted.";
/// What is said of a cluster.
pub(super) const SEVERAL_ADDRESSES: &str = "The target has several addresses, which may lead to one \
    server or to several: its statements were not counted.";

/// The sum of the counters; `None` on a server that has none of them.
pub(super) async fn count(session: &mut Session) -> Result<Option<u64>, SessionError> {
    let rows = session.rows("SHOW GLOBAL STATUS LIKE 'Com\\_%'").await?;
    let counts: Vec<u64> = rows
        .into_iter()
        .filter_map(|row| {
            let (name, value) = (row.get::<String, _>(0)?, row.get::<String, _>(1)?);
            COUNTED.contains(&name.as_str()).then(|| value.parse().ok())?
        })
        .collect();
    Ok((!counts.is_empty()).then(|| counts.iter().sum()))
}
