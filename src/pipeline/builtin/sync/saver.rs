//! Storing checkpoints, with or without waiting for it.

use tokio::task::JoinSet;

use crate::pipeline::builtin::checkpoint::{Checkpoint, Checkpoints};
use crate::pipeline::builtin::sync::error::{Error, ended};
use crate::pipeline::builtin::sync::retry::Retry;

/// The place of checkpoints, and the one that is being stored.
#[derive(Debug)]
pub(super) struct Saver<C> {
    idle: Option<C>,
    under_way: JoinSet<(C, Result<Checkpoint, Error>)>,
}

impl<C: Checkpoints> Saver<C> {
    pub(super) fn new(checkpoints: C) -> Saver<C> {
        Saver { idle: Some(checkpoints), under_way: JoinSet::new() }
    }

    /// Whether one is being stored.
    pub(super) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Begins to store one; nothing happens while another is being stored.
    pub(super) fn begin(&mut self, checkpoint: Checkpoint) {
        let Some(mut checkpoints) = self.idle.take() else { return };
        self.under_way.spawn(async move {
            let saved = store(&mut checkpoints, &checkpoint).await.map(|()| checkpoint);
            (checkpoints, saved)
        });
    }

    /// Waits until it is stored; for ever where none is being stored. May be dropped and called
    /// again.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub(super) async fn finished(&mut self) -> Result<Checkpoint, Error> {
        match self.under_way.join_next().await {
            None => std::future::pending().await,
            Some(joined) => {
                let (checkpoints, saved) = joined.map_err(ended)?;
                self.idle = Some(checkpoints);
                saved
            }
        }
    }
}

async fn store(checkpoints: &mut impl Checkpoints, checkpoint: &Checkpoint) -> Result<(), Error> {
    let mut retry = Retry::new();
    while let Err(error) = checkpoints.save(checkpoint).await {
        retry.after(error).await?;
        while let Err(error) = checkpoints.recover().await {
            retry.after(error).await?;
        }
    }
    Ok(())
}
