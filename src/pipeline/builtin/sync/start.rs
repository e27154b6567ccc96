//! Where replication begins, and what may be on the target behind that.

use std::time::Duration;

use crate::mysql::{Position, Session};
use crate::pipeline::builtin::Sync;
use crate::pipeline::builtin::checkpoint::{Checkpoint, Checkpoints, PendingDdl};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::run::Setup;

/// Where replication begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) position: Position,
    /// Changes before this may be on the target already.
    pub(super) replay_until: Option<Position>,
    /// How long safe mode lasts at least.
    pub(super) safe_for: Option<Duration>,
    /// A DDL at the begin that may be executed already.
    pub(super) pending: Option<PendingDdl>,
}

impl Start {
    /// From the checkpoint, or from the set position, which is then stored as the first checkpoint:
    /// a crash before the second must not look like a fresh start.
    pub(super) async fn find(
        settings: &Sync,
        setup: &Setup,
        checkpoints: &mut impl Checkpoints,
    ) -> Result<Start, Error> {
        let asked = settings.safe_mode_duration.filter(|duration| !duration.is_zero());
        let Some(found) = checkpoints.load().await? else {
            let position = setup.from.clone();
            let first = Checkpoint { position: position.clone(), exit_safe: None, pending: None };
            checkpoints.save(&first).await?;
            return Ok(Start { position, replay_until: None, safe_for: asked, pending: None });
        };
        let (replay_until, safe_for) = match &found.exit_safe {
            Some(exit) => {
                // From now on it is no longer sure that nothing behind is applied.
                checkpoints.save(&Checkpoint { exit_safe: None, ..found.clone() }).await?;
                (Some(exit.clone()), None)
            }
            None => {
                // What was applied before a crash was committed on the source before now.
                let mut source = Session::connect(&setup.source).await?;
                let now = source.binlog_position().await?;
                source.close().await;
                (Some(now), asked)
            }
        };
        let replay_until = replay_until.filter(|until| !found.position.reached(until));
        if replay_until.is_some() && settings.safe_mode_duration == Some(Duration::ZERO) {
            return Err(Error::SafeModeForbidden { position: found.position.to_string() });
        }
        Ok(Start { position: found.position, replay_until, safe_for, pending: found.pending })
    }
}
