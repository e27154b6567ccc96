//! One client: takes due ops one after another and sees each through to a known end.
//!
//! A refused op (deadlock, lock wait, write conflict) is tried again as a whole; after a lost
//! connection the client connects again and, where the commit may have gone through, has the
//! workload settle what became of it before anything else. What the client *is not*: it neither
//! knows what ops do nor when they are due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Error;
use super::counters::Counters;
use super::effect::Effect;
use super::offer::{Due, Offer, Window};
use super::op::{Failure, Fate, Workload};
use super::shard::Shard;
use crate::error::ErrorClass;
use crate::mysql::patience::RECONNECT_LIMIT;

/// How often an op is tried before it counts as failed.
const TRIES: u32 = 200;
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// What all clients of a drive share.
#[derive(Debug)]
pub(super) struct Scene<W> {
    pub(super) workload: W,
    pub(super) seed: u64,
    pub(super) start: Instant,
    pub(super) offer: Arc<Offer>,
    pub(super) window: Arc<Window>,
    pub(super) counters: Arc<Counters>,
    pub(super) shards: Vec<Mutex<Shard>>,
    /// Per client: nanoseconds from start to due, plus 1, of the op under way; 0 for none.
    pub(super) under_way: Vec<AtomicU64>,
    /// Set when the drive was cancelled or failed: no waiting for servers any more.
    pub(super) hurry: CancellationToken,
}

/// How an op ended.
enum Ended {
    Committed(Effect),
    Failed(u16),
    Unknown,
}

/// Lets the client of a number perform ops over its open session until none is offered.
pub(super) async fn run<W: Workload>(
    scene: Arc<Scene<W>>,
    number: usize,
    session: W::Client,
) -> Result<(), Error> {
    Client { scene: &scene, number, session: Some(session) }.run().await
}

/// See the module. It borrows what all share: counting references up and down for each op makes the
/// cores wait for each other.
struct Client<'a, W: Workload> {
    scene: &'a Scene<W>,
    number: usize,
    session: Option<W::Client>,
}

impl<W: Workload> Client<'_, W> {
    async fn run(mut self) -> Result<(), Error> {
        let scene = self.scene;
        let under_way = &scene.under_way[self.number];
        while let Some(due) = scene.offer.next(&scene.window, &scene.counters).await {
            let since = due.at.saturating_duration_since(scene.start).as_nanos() as u64;
            under_way.store(since + 1, Ordering::Relaxed);
            self.see_through(due).await?;
            under_way.store(0, Ordering::Relaxed);
        }
        if let Some(session) = self.session.take() {
            scene.workload.close(session).await;
        }
        Ok(())
    }

    async fn see_through(&mut self, due: Due) -> Result<(), Error> {
        let scene = self.scene;
        let op = scene.workload.pick(scene.seed, due.index);
        let started = (!scene.offer.is_closed()).then(Instant::now);
        let ended = self.try_to_commit(&op).await?;
        let finished = Instant::now();
        self.with_shard(|shard| match ended {
            Ended::Committed(effect) => {
                shard.commit(effect, due, started, finished, &scene.window);
                let expected = scene.workload.row_changes(&op);
                shard.odd += u64::from(effect.row_changes() != expected);
            }
            Ended::Failed(code) => *shard.failed.entry(code).or_default() += 1,
            Ended::Unknown => shard.unknown += 1,
        });
        match ended {
            Ended::Committed(effect) => {
                scene.counters.add_committed(&effect, finished - started.unwrap_or(due.at));
            }
            Ended::Failed(_) | Ended::Unknown => scene.counters.add_failed(),
        }
        Ok(())
    }

    async fn try_to_commit(&mut self, op: &W::Op) -> Result<Ended, Error> {
        let scene = self.scene;
        let mut unsettled = false;
        let mut last_code = 0;
        for _ in 0..TRIES {
            let Some(session) = self.session().await? else { break };
            let tried = if unsettled {
                match scene.workload.settle(scene.seed, session, op).await {
                    Ok(Fate::Committed(effect)) => Ok(effect),
                    Ok(Fate::NotCommitted) => {
                        unsettled = false;
                        continue;
                    }
                    Ok(Fate::Unknown) => break,
                    Err(failure) => Err(failure),
                }
            } else {
                scene.workload.perform(session, op).await
            };
            match tried {
                Ok(effect) => return Ok(Ended::Committed(effect)),
                Err(Failure::Refused { code }) => {
                    last_code = code;
                    self.with_shard(|shard| *shard.retried.entry(code).or_default() += 1);
                    scene.counters.add_retried();
                    if scene.hurry.is_cancelled() {
                        break;
                    }
                    // Lets the client that holds the lock go first.
                    tokio::task::yield_now().await;
                }
                Err(Failure::Lost { code, committing }) => {
                    (last_code, self.session) = (code, None);
                    unsettled |= committing;
                    self.with_shard(|shard| *shard.lost.entry(code).or_default() += 1);
                }
                Err(Failure::Fatal(error)) => return Err(error),
            }
        }
        Ok(if unsettled { Ended::Unknown } else { Ended::Failed(last_code) })
    }

    /// The open session, or a new one; `None` when the drive is over and there is no session.
    async fn session(&mut self) -> Result<Option<&mut W::Client>, Error> {
        if self.session.is_none() {
            self.session = self.reconnect().await?;
        }
        Ok(self.session.as_mut())
    }

    async fn reconnect(&mut self) -> Result<Option<W::Client>, Error> {
        let scene = self.scene;
        let began = Instant::now();
        loop {
            let connected = tokio::select! {
                connected = scene.workload.connect() => connected,
                () = scene.hurry.cancelled() => return Ok(None),
            };
            match connected {
                Ok(session) => {
                    self.with_shard(|shard| shard.reconnects += 1);
                    scene.counters.add_reconnect();
                    return Ok(Some(session));
                }
                Err(source) => {
                    let waited = began.elapsed();
                    if source.class() != ErrorClass::Transient || waited > RECONNECT_LIMIT {
                        return Err(Error::Reconnect { waited, source });
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RECONNECT_PAUSE) => {}
                () = scene.hurry.cancelled() => return Ok(None),
            }
        }
    }

    fn with_shard(&self, change: impl FnOnce(&mut Shard)) {
        let shard = &self.scene.shards[self.number % self.scene.shards.len()];
        change(&mut shard.lock().expect("no client panics while it holds its shard"));
    }
}
