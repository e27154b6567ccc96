//! `builtin`: dump, load and sync in DM's manner, in a process of its own.

pub mod checkpoint;
pub mod child;
pub mod dump;
pub mod load;
mod settings;
pub mod sync;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::child::Child;
use crate::pipeline::{Context, Error, How, Progress, Start, Unit, UnitEvent};

pub use settings::{Dump, KNOBS, Load, Settings, Sync, UNSUPPORTED};

/// The pipeline as its user holds it: settings, and the process while there is one.
#[derive(Debug)]
pub struct Builtin {
    settings: Settings,
    context: Context,
    progress: watch::Sender<Progress>,
    child: Option<Child>,
}

impl Builtin {
    pub(super) fn new(settings: Settings, context: Context) -> Builtin {
        let progress = watch::Sender::new(Progress::new(Unit::Dump));
        Builtin { settings, context, progress, child: None }
    }

    pub(super) async fn start(
        &mut self,
        start: Start,
        held: bool,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        if self.child.as_ref().is_some_and(|child| !child.has_ended()) {
            return Err(Error::State { action: "start the pipeline", state: "running already" });
        }
        let first = match &start {
            Start::Dump | Start::Full | Start::All => Unit::Dump,
            Start::Load => Unit::Load,
            Start::Incremental { .. } => Unit::Sync,
        };
        let progress = self.progress.clone();
        progress.send_replace(Progress::new(first));
        let order = child::Order::new(&self.settings, &self.context, start, held);
        self.child = Some(Child::start(order, &self.context, progress, cancel).await?);
        Ok(())
    }

    pub(super) async fn release(&mut self) -> Result<(), Error> {
        match &mut self.child {
            Some(child) => child.release().await,
            None => Err(Error::State { action: "release the pipeline", state: "not started" }),
        }
    }

    pub(super) fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::process_id)
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) async fn next_event(&mut self) -> Option<UnitEvent> {
        self.child.as_mut()?.next_event().await
    }

    pub(super) async fn stop(&mut self, how: How) -> Result<(), Error> {
        match &mut self.child {
            Some(child) => child.stop(how).await,
            None => Ok(()),
        }
    }
}
