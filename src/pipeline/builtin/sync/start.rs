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
    /// What must be stored before the first change is applied, and not before all else is ready: who
    /// finds it takes this start for a crash.
    pub(super) owed: Option<Checkpoint>,
}

impl Start {
    /// From the checkpoint, or from the set position, which is then owed as the first checkpoint: a
    /// crash before the second must not look like a fresh start.
    pub(super) async fn find(
        settings: &Sync,
        setup: &Setup,
        checkpoints: &mut impl Checkpoints,
    ) -> Result<Start, Error> {
        let asked = settings.safe_mode_duration.filter(|duration| !duration.is_zero());
        let Some(found) = checkpoints.load().await? else {
            let position = setup.from.clone();
            let first = Checkpoint { position: position.clone(), exit_safe: None, pending: None };
            return Ok(Start {
                position,
                replay_until: None,
                safe_for: asked,
                pending: None,
                owed: Some(first),
            });
        };
        // Once changes are applied it is no longer sure that nothing behind is on the target.
        let owed =
            found.exit_safe.is_some().then(|| Checkpoint { exit_safe: None, ..found.clone() });
        let (replay_until, safe_for) = match &found.exit_safe {
            Some(exit) => (Some(exit.clone()), None),
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
        let (position, pending) = (found.position, found.pending);
        Ok(Start { position, replay_until, safe_for, pending, owed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::{Endpoint, Secret};
    use crate::pipeline::builtin::sync::memory::MemoryCheckpoints;

    fn setup() -> Setup {
        let nowhere = || Endpoint::tcp("127.0.0.1", 1, "nobody", Secret::default());
        Setup {
            source: nowhere(),
            target: nowhere(),
            schemas: Vec::new(),
            name: "n".into(),
            meta_schema: "m".into(),
            run: "r".into(),
            server_id: 1,
            from: Position::new("binlog.000001", 4).expect("a position"),
        }
    }

    /// Or a second try to connect would find it and take the first for a crash.
    #[tokio::test]
    async fn looking_for_the_start_stores_nothing() {
        let setup = setup();
        let exit = Position::new("binlog.000001", 400).expect("a position");
        let orderly = Checkpoint {
            position: setup.from.clone(),
            exit_safe: Some(exit.clone()),
            pending: None,
        };
        for (stored, replay_until) in [(None, None), (Some(orderly), Some(exit))] {
            let mut checkpoints = MemoryCheckpoints::default();
            checkpoints.0.lock().expect("no panic").clone_from(&stored);
            let start = Start::find(&Sync::default(), &setup, &mut checkpoints).await;
            let start = start.expect("found");
            assert_eq!(*checkpoints.0.lock().expect("no panic"), stored);
            let first = Checkpoint { position: setup.from.clone(), exit_safe: None, pending: None };
            assert_eq!((start.replay_until, start.owed), (replay_until, Some(first)));
        }
    }
}
