//! Waiting until the servers are at rest, so that one trial does not pay for the one before it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::lab::Lab;
use crate::mysql::Session;
use crate::trial::{Error, again};

/// Longest wait. Servers that are not at rest by then are measured as they are.
const LIMIT: Duration = Duration::from_secs(10);
/// Rest is when no more than this many pages a poll were written to disk.
const QUIET_PAGES: u64 = 8;
const POLL: Duration = Duration::from_millis(250);

/// Waits until both servers hardly write pages any more: two quiet polls in a row, at most ten
/// seconds. A server that has no such counter (TiDB) counts as quiet.
pub(super) async fn rest(lab: &Lab, cancel: &CancellationToken) -> Result<(), Error> {
    again(cancel, async || {
        tokio::select! {
            done = quiet(lab) => done,
            () = cancel.cancelled() => Err(Error::Interrupted),
        }
    })
    .await
}

async fn quiet(lab: &Lab) -> Result<(), Error> {
    let mut sessions = [Session::connect(&lab.source).await?, Session::connect(&lab.target).await?];
    let mut before = pages_written(&mut sessions).await?;
    let mut quiet = 0;
    let deadline = tokio::time::Instant::now() + LIMIT;
    while quiet < 2 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
        let now = pages_written(&mut sessions).await?;
        quiet = if now.saturating_sub(before) <= QUIET_PAGES { quiet + 1 } else { 0 };
        before = now;
    }
    for session in sessions {
        session.close().await;
    }
    Ok(())
}

async fn pages_written(sessions: &mut [Session; 2]) -> Result<u64, Error> {
    let mut sum = 0;
    for session in sessions {
        for row in session.rows("SHOW GLOBAL STATUS LIKE 'Innodb_pages_written'").await? {
            sum += row.get::<u64, usize>(1).unwrap_or(0);
        }
    }
    Ok(sum)
}
