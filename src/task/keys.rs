//! Which keys a task may have, and which of them may be varied.
//!
//! The keys of `[workload]`, `[pace]`, `[pipeline]` and `[sandbox]` come from the knobs that those
//! modules declare, so that a setting added there is a key, a knob and a `--set` at once. Nothing
//! here reads a file.

use std::sync::LazyLock;

use crate::place::distance;
use crate::record::{Cost, Knob};
use crate::{lab, pipeline, workload};

/// Keys that no module declares as a knob, in the order in which a task is read.
const PLAIN: [&str; 11] = [
    "question",
    "model",
    "phases.warm",
    "phases.measure",
    "phases.drain-limit",
    "phases.ops",
    "limits.lag-p99",
    "repeat.blocks",
    "repeat.seed",
    "knob.name",
    "knob.values",
];

/// All knobs, in the order of a task's tables. Kinds choose a whole set of keys; they may be varied
/// like any other key.
static KNOBS: LazyLock<Vec<Knob>> = LazyLock::new(|| {
    let kind = |name, meaning| Knob::new(name, "", "", None, Cost::None, meaning);
    let mut knobs = vec![kind("workload.kind", "kind of workload")];
    knobs.extend(workload::KNOBS);
    knobs.push(kind("pipeline.kind", "kind of pipeline"));
    knobs.extend(pipeline::builtin::KNOBS);
    knobs.extend(lab::sandbox::KNOBS);
    knobs
});

/// Every knob there is.
pub fn knobs() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter()
}

/// Full dotted path of every key that a task may have, in a fixed order.
pub fn all() -> impl Iterator<Item = &'static str> {
    let (before, after) = PLAIN.split_at(2);
    let knobs = knobs().map(|knob| knob.name.as_ref());
    before.iter().copied().chain(knobs).chain(after.iter().copied())
}

/// The keys directly below a path, such as `sync` below `pipeline`; empty for a key that holds a
/// value. `""` is the whole file.
pub(super) fn below(path: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for key in all() {
        let rest = match path {
            "" => Some(key),
            _ => key.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')),
        };
        if let Some(name) = rest.and_then(|rest| rest.split('.').next())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// How a name given by the user reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// A knob.
    Knob(&'static Knob),
    /// A key that cannot be varied.
    Plain(&'static str),
    /// A knob of DM that the built-in pipeline has not.
    Unsupported(&'static str),
    /// Nothing; with the nearest valid name, in its short form where it has one.
    Unknown(String),
}

/// Finds a key by its full dotted path or by the short form without `pipeline.`.
pub(super) fn resolve(name: &str) -> Resolved {
    let is = |full: &str| full == name || full.strip_prefix("pipeline.") == Some(name);
    if let Some(knob) = knobs().find(|knob| is(&knob.name)) {
        return Resolved::Knob(knob);
    }
    if let Some(full) = pipeline::builtin::UNSUPPORTED.into_iter().find(|full| is(full)) {
        return Resolved::Unsupported(full);
    }
    match PLAIN.into_iter().find(|key| *key == name && !key.starts_with("knob.")) {
        Some(key) => Resolved::Plain(key),
        None => Resolved::Unknown(nearest_key(name)),
    }
}

/// A key's name as a user would write it: without `pipeline.`.
pub fn short(full: &str) -> &str {
    match full.strip_prefix("pipeline.") {
        Some(rest) if rest != "kind" => rest,
        _ => full,
    }
}

fn nearest_key(name: &str) -> String {
    let mut best = (usize::MAX, "");
    for key in all().filter(|key| !key.starts_with("knob.")) {
        let last = key.rsplit('.').next().unwrap_or(key);
        let far = [key, short(key), last].map(|form| distance(name, form)).into_iter().min();
        if let Some(far) = far
            && far < best.0
        {
            best = (far, short(key));
        }
    }
    best.1.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::nearest;

    #[test]
    fn names_resolve_in_full_and_short() {
        for name in ["pipeline.sync.worker-count", "sync.worker-count"] {
            let Resolved::Knob(knob) = resolve(name) else { panic!("{name}") };
            assert_eq!(knob.name, "pipeline.sync.worker-count");
        }
        assert_eq!(resolve("repeat.blocks"), Resolved::Plain("repeat.blocks"));
        let unsupported = Resolved::Unsupported("pipeline.load.import-mode");
        assert_eq!(resolve("load.import-mode"), unsupported);
        assert!(matches!(resolve("knob.name"), Resolved::Unknown(_)));
    }

    #[test]
    fn an_unknown_name_finds_its_neighbour() {
        for (name, near) in [
            ("sync.worker-cout", "sync.worker-count"),
            ("worker-count", "sync.worker-count"),
            ("workload.table_size", "workload.table-size"),
            ("repeat.block", "repeat.blocks"),
            ("poolsize", "load.pool-size"),
        ] {
            assert_eq!(resolve(name), Resolved::Unknown(near.to_owned()), "{name}");
        }
        assert_eq!(nearest("zipfan", &["uniform", "zipfian"]), Some("zipfian"));
        assert_eq!(nearest("banana", &["uniform", "zipfian"]), None);
    }

    #[test]
    fn below_lists_tables_and_keys() {
        assert_eq!(below("pipeline"), ["kind", "dump", "load", "sync"]);
        assert_eq!(below("phases"), ["warm", "measure", "drain-limit", "ops"]);
        assert!(below("pipeline.sync").contains(&"worker-count"));
        assert!(below("question").is_empty());
    }
}
