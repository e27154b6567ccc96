//! The one seam through which everything else sees a pipeline.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mysql::{Endpoint, Position};
use crate::pipeline::builtin::Builtin;
use crate::pipeline::idle::Idle;
use crate::pipeline::{Error, Progress, Settings, UnitEvent};

/// Where a pipeline works.
#[derive(Debug, Clone)]
pub struct Context {
    /// Letters, digits and `_`: names the checkpoint table.
    pub name: String,
    /// Read from.
    pub source: Endpoint,
    /// Written to.
    pub target: Endpoint,
    /// Schemas to replicate.
    pub schemas: Vec<String>,
    /// Schema of the checkpoint table on the target, such as `dmbench_meta`.
    pub meta_schema: String,
    /// Folder of the dump's files and of the process' log.
    pub folder: PathBuf,
    /// The `dmbench` program, which is started again as the pipeline's process.
    pub executable: PathBuf,
    /// The run's name, written into the owner table of the target's schemas.
    pub run: String,
    /// The id under which sync registers as a replica at the source.
    pub server_id: u32,
}

/// What a pipeline is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Dump only.
    Dump,
    /// Load the dump that is in the folder.
    Load,
    /// Dump, then load.
    Full,
    /// Sync from a position, or from the checkpoint where there is one.
    Incremental {
        /// Where the first event to apply begins.
        from: Position,
    },
    /// Dump, load, then sync from the dump's position.
    All,
}

/// How a pipeline is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The unit at work finishes what it has read and stores its checkpoint; no further unit begins.
    Drain,
    /// At once.
    Now,
}

/// A pipeline of any kind.
///
/// Order of calls: `new`, `start`, then `release` when it was started held, `stop` in the end.
/// Dropping it kills its process.
#[derive(Debug)]
pub enum AnyPipeline {
    /// Dump, load and sync in DM's manner.
    Builtin(Box<Builtin>),
    /// Nothing is replicated.
    Idle(Idle),
}

impl AnyPipeline {
    /// A pipeline that has not been started.
    pub fn new(settings: &Settings, context: Context) -> AnyPipeline {
        match settings {
            Settings::Builtin(settings) => {
                AnyPipeline::Builtin(Box::new(Builtin::new(settings.clone(), context)))
            }
            Settings::Idle {} => AnyPipeline::Idle(Idle::new()),
        }
    }

    /// Starts it. When `held`, it prepares, reports [`State::Held`](crate::pipeline::State::Held)
    /// and waits for [`AnyPipeline::release`]. `cancel` kills it.
    ///
    /// # Errors
    /// When its process cannot be started, or it was started before and still runs. A unit that
    /// fails later is told by [`Progress`], by its event and by [`AnyPipeline::stop`].
    pub async fn start(
        &mut self,
        start: Start,
        held: bool,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        match self {
            AnyPipeline::Builtin(builtin) => builtin.start(start, held, cancel).await,
            AnyPipeline::Idle(idle) => {
                idle.start();
                Ok(())
            }
        }
    }

    /// Lets a held pipeline work.
    ///
    /// # Errors
    /// When it is not running.
    pub async fn release(&mut self) -> Result<(), Error> {
        match self {
            AnyPipeline::Builtin(builtin) => builtin.release().await,
            AnyPipeline::Idle(_) => Ok(()),
        }
    }

    /// The process that does the work, where there is one; it stays known after its end.
    pub fn process_id(&self) -> Option<u32> {
        match self {
            AnyPipeline::Builtin(builtin) => builtin.process_id(),
            AnyPipeline::Idle(_) => None,
        }
    }

    /// Readings, newest only: every 100 ms and whenever unit or state changes. The receiver stays
    /// good over stop and start.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        match self {
            AnyPipeline::Builtin(builtin) => builtin.progress(),
            AnyPipeline::Idle(idle) => idle.progress(),
        }
    }

    /// The next event of a unit; `None` when the pipeline has ended and there are no more.
    pub async fn next_event(&mut self) -> Option<UnitEvent> {
        match self {
            AnyPipeline::Builtin(builtin) => builtin.next_event().await,
            AnyPipeline::Idle(idle) => idle.next_event().await,
        }
    }

    /// Stops it and waits for its end: without bound for [`How::Drain`] (the caller bounds it and
    /// goes on with [`How::Now`]), a few seconds for [`How::Now`]. Fine when it has ended already.
    ///
    /// # Errors
    /// When a unit had failed or the process died by itself.
    pub async fn stop(&mut self, how: How) -> Result<(), Error> {
        match self {
            AnyPipeline::Builtin(builtin) => builtin.stop(how).await,
            AnyPipeline::Idle(idle) => {
                idle.stop();
                Ok(())
            }
        }
    }
}
