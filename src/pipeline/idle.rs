//! `idle`: a pipeline that does nothing. What a trial with it shows is the cost and the error of the
//! generator and the probes themselves.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::pipeline::{Progress, State, Unit, UnitEvent};

/// See the module.
#[derive(Debug)]
pub struct Idle {
    progress: watch::Sender<Progress>,
    stopped: CancellationToken,
}

impl Idle {
    pub(super) fn new() -> Idle {
        Idle {
            progress: watch::Sender::new(Progress::new(Unit::Sync)),
            stopped: CancellationToken::new(),
        }
    }

    pub(super) fn start(&mut self) {
        self.stopped = CancellationToken::new();
        self.progress.send_modify(|p| p.state = State::Running);
    }

    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Waits for the stop: nothing ever happens before.
    pub(super) async fn next_event(&mut self) -> Option<UnitEvent> {
        self.stopped.cancelled().await;
        None
    }

    pub(super) fn stop(&mut self) {
        self.progress.send_modify(|p| p.state = State::Finished);
        self.stopped.cancel();
    }
}
