//! Ctrl-C: once to stop in good order, twice to abandon everything.
//!
//! The first cancels the token that every command works under. The servers of a sandbox have a guard
//! of their own, so that abandoning leaves none behind.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::log::Log;

/// Returns at the second SIGINT or SIGTERM; cancels `cancel` at the first.
pub(super) async fn twice(cancel: &CancellationToken, log: &Log) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::warn!("no signal can be received: Ctrl-C will not stop in good order");
        return std::future::pending().await;
    };
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    next().await;
    cancel.cancel();
    log.note("stopping: clients end and what is written drains for at most 10 s; again to abandon");
    next().await;
    log.note("abandoned");
}
