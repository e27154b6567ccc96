//! Settings that a task may vary.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What a larger value of a knob costs; decides which of two equally good points is the cheaper one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Larger values cost more (connections, memory).
    Rising,
    /// Smaller values cost more.
    Falling,
    /// No order of cost.
    None,
}

/// A named setting. Modules declare theirs as constants; a run's record stores those it used, so
/// that reports know dimension, cost and DM's place for it without knowing the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Knob {
    /// Full dotted name, such as `pipeline.sync.worker-count`.
    pub name: Cow<'static, str>,
    /// What it counts, such as `connections`, `rows`, `bytes`; empty for words.
    pub dimension: Cow<'static, str>,
    /// Default as text; empty where there is none.
    pub default: Cow<'static, str>,
    /// Where the setting stands in a DM task, such as `syncers.global.worker-count`; `None` where DM
    /// has no such setting.
    pub dm_yaml_path: Option<Cow<'static, str>>,
    /// What a larger value costs.
    pub cost: Cost,
    /// One sentence for people.
    pub meaning: Cow<'static, str>,
}

impl Knob {
    /// A constant declaration.
    pub const fn new(
        name: &'static str,
        dimension: &'static str,
        default: &'static str,
        dm_yaml_path: Option<&'static str>,
        cost: Cost,
        meaning: &'static str,
    ) -> Knob {
        Knob {
            name: Cow::Borrowed(name),
            dimension: Cow::Borrowed(dimension),
            default: Cow::Borrowed(default),
            dm_yaml_path: match dm_yaml_path {
                Some(path) => Some(Cow::Borrowed(path)),
                None => None,
            },
            cost,
            meaning: Cow::Borrowed(meaning),
        }
    }
}
