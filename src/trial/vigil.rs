//! Watches that both servers are there while a trial runs, so that none waits for ever.
//!
//! Whatever a trial waits for (rows, a lock, a position), a server that is gone or frozen for longer
//! than [`SILENCE_LIMIT`] ends it. Pings count as no statement, so the servers' counters stay those of
//! the pipeline.

use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;

use crate::lab::Lab;
use crate::lab::sandbox::Process;
use crate::mysql::patience::SILENCE_LIMIT;
use crate::mysql::{Endpoint, Session};
use crate::trial::Error;

/// Between two looks at a server.
const EVERY: Duration = Duration::from_secs(1);

/// Returns when an end is gone for good.
pub(super) async fn loss(lab: &Lab) -> Error {
    tokio::select! {
        error = silence("source", &lab.source) => error,
        error = silence("target", &lab.target) => error,
        error = death(&lab.processes) => error,
    }
}

/// Returns when a server has not answered for [`SILENCE_LIMIT`]. That it has too many connections, or
/// ended this one, is an answer too.
async fn silence(end: &'static str, endpoint: &Endpoint) -> Error {
    let mut session = None;
    let mut answered = Instant::now();
    loop {
        let seen = match &mut session {
            None => Session::connect(endpoint).await.map(|connected| {
                session.insert(connected).wait_up_to(SILENCE_LIMIT);
            }),
            Some(open) => open.ping().await,
        };
        match seen {
            Ok(()) => answered = Instant::now(),
            Err(error) => {
                session = None;
                if error.code().is_some() {
                    answered = Instant::now();
                } else if answered.elapsed() >= SILENCE_LIMIT {
                    return Error::Silent { end, seconds: SILENCE_LIMIT.as_secs(), source: error };
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Returns when a server's process on this machine has ended: nobody starts it again.
async fn death(processes: &[(String, u32)]) -> Error {
    let mut alive: Vec<_> = processes.iter().map(|(end, pid)| (end, Process::now(*pid))).collect();
    // Where the system does not tell, nothing is known to have ended.
    alive.retain(|(_, process)| process.is_alive());
    if alive.is_empty() {
        return pending().await;
    }
    loop {
        if let Some((end, process)) = alive.iter().find(|(_, process)| !process.is_alive()) {
            return Error::Gone { end: (*end).clone(), pid: process.pid };
        }
        tokio::time::sleep(EVERY).await;
    }
}
