//! What a task may say about its pipeline.

use serde::{Deserialize, Serialize};

use crate::pipeline::builtin;
use crate::record::Model;

/// The `[pipeline]` part of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Settings {
    /// Our own, in DM's manner.
    Builtin(builtin::Settings),
    /// Nothing is replicated.
    Idle {},
}

impl Settings {
    /// The word for `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Settings::Builtin(_) => "builtin",
            Settings::Idle {} => "idle",
        }
    }

    /// What such a pipeline can be asked; a task with another model is refused.
    pub fn models(&self) -> &'static [Model] {
        match self {
            Settings::Builtin(_) => &[Model::Bulk, Model::Stream, Model::Backlog, Model::Sustain],
            Settings::Idle {} => &[Model::Stream, Model::Drive],
        }
    }
}
