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

/// Both ends, and the processes that they were when a trial began.
#[derive(Debug)]
pub(super) struct Vigil {
    source: Endpoint,
    target: Endpoint,
    processes: Vec<(String, Process)>,
}

impl Vigil {
    pub(super) fn begin(lab: &Lab) -> Vigil {
        Vigil {
            source: lab.source.clone(),
            target: lab.target.clone(),
            processes: alive(&lab.processes),
        }
    }

    /// Returns when an end is gone for good.
    pub(super) async fn loss(&self) -> Error {
        tokio::select! {
            error = silence("source", &self.source) => error,
            error = silence("target", &self.target) => error,
            error = death(&self.processes) => error,
        }
    }

    /// What is behind a failure: whoever has a statement under way is the first to notice that a server
    /// has ended, a moment before the system says so.
    pub(super) async fn cause(&self, error: Error) -> Error {
        if self.processes.is_empty() || matches!(error, Error::Gone { .. } | Error::Unfit { .. }) {
            return error;
        }
        match tokio::time::timeout(EVERY * 2, death(&self.processes)).await {
            Ok(gone) => {
                tracing::info!("failed to {error}");
                gone
            }
            Err(_) => error,
        }
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

/// Processes that run now. Where the system does not tell, nothing is known to have ended.
fn alive(processes: &[(String, u32)]) -> Vec<(String, Process)> {
    let now = processes.iter().map(|(end, pid)| (end.clone(), Process::now(*pid)));
    now.filter(|(_, process)| process.is_alive()).collect()
}

/// Returns when a server's process on this machine has ended: nobody starts it again.
async fn death(processes: &[(String, Process)]) -> Error {
    if processes.is_empty() {
        return pending().await;
    }
    loop {
        if let Some((end, process)) = processes.iter().find(|(_, process)| !process.is_alive()) {
            return Error::Gone { end: end.clone(), pid: process.pid };
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::mysql::Secret;
    use crate::mysql::patience::CONNECT_LIMIT;

    fn at(port: u16) -> Endpoint {
        Endpoint::tcp("127.0.0.1", port, "bench", Secret::default())
    }

    /// The system accepts connections for a frozen server, which never greets.
    #[tokio::test(start_paused = true)]
    async fn a_frozen_server_ends_the_trial_in_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let began = Instant::now();
        let error = silence("source", &at(port)).await;
        let waited = began.elapsed();
        assert!(waited >= SILENCE_LIMIT && waited < SILENCE_LIMIT + CONNECT_LIMIT + EVERY * 2);
        let text = error.to_string();
        assert!(text.starts_with("reach the source for 60 s: connect to bench@"), "{text}");
        assert!(text.contains("no answer within 10 s"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn so_does_one_that_refuses_connections() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let text = silence("target", &at(port)).await.to_string();
        assert!(text.contains("Connection refused"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn a_process_that_ends_is_told_by_its_end() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep runs");
        let processes = alive(&[("target".to_owned(), child.id())]);
        let mut death = pin!(death(&processes));
        assert!(tokio::time::timeout(Duration::ZERO, &mut death).await.is_err(), "it is alive");
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let text = death.await.to_string();
        assert_eq!(text, format!("keep the target running: its process {} ended", child.id()));
    }
}
