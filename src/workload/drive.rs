//! Lets clients commit ops at a pace and gathers what became of each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::client::{self, Scene};
use super::counters::Counters;
use super::driven::Driven;
use super::offer::{Closed, Offer, Queue, Window};
use super::op::Workload;
use super::pace::Pace;
use super::pacer::{Paced, Pacer};
use super::settings::{PaceSettings, Settings};
use super::shard::{self, Shard};
use super::sysbench::Oltp;
use crate::event::{Event, Events};
use crate::mysql::Endpoint;
use crate::mysql::patience::{Patience, RECONNECT_LIMIT};

/// Most ops that may be due and wait for a client; further ones are dropped and counted.
const MOST_BACKLOG: usize = 1_000_000;
/// How long clients may take to finish what they are at when the drive is over.
const GRACE: Duration = Duration::from_secs(10);
/// How many clients connect at once.
const CONNECTING: usize = 32;

/// When a drive ends: whichever comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stop {
    /// Length of the window, which begins after warm.
    pub time: Option<Duration>,
    /// Number of ops, warm included. All of them are seen through.
    pub ops: Option<u64>,
}

/// What to drive.
#[derive(Debug, Clone, PartialEq)]
pub struct DrivePlan {
    /// Which ops.
    pub settings: Settings,
    /// When they are due and how many clients commit them.
    pub pace: PaceSettings,
    /// Where the tables are.
    pub schema: String,
    /// Which ops exactly: the same seed offers the same ops, however many clients there are.
    pub seed: u64,
    /// When it ends.
    pub stop: Stop,
    /// How long ops run before the window begins.
    pub warm: Duration,
}

/// Drives a server. Once the plan's end is reached or `cancel` is cancelled, clients have 10 s to
/// finish; what is still under way then counts as of unknown fate. Sends
/// [`Event::Progress`] once a second.
///
/// # Errors
/// When the plan makes no sense, the tables do not fit, or a client meets an error that trying again
/// does not cure; [`Error::Interrupted`] when cancelled before the first op. Deadlocks and lost connections are no errors: they are counted.
pub async fn drive(
    plan: &DrivePlan,
    endpoint: &Endpoint,
    counters: &Arc<Counters>,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Driven, Error> {
    let Settings::Sysbench(settings) = &plan.settings;
    let mut patience = Patience::new(RECONNECT_LIMIT);
    let oltp = loop {
        let opened = tokio::select! {
            opened = Oltp::open(endpoint, &plan.schema, settings) => opened,
            () = cancel.cancelled() => return Err(Error::Interrupted),
        };
        match opened {
            Err(error) if patience.allows(error.class()).await => {}
            opened => break opened?,
        }
    };
    drive_workload(oltp, plan, GRACE, counters, events, cancel).await
}

/// [`drive`] for any workload and time to finish.
pub(super) async fn drive_workload<W: Workload>(
    workload: W,
    plan: &DrivePlan,
    grace: Duration,
    counters: &Arc<Counters>,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Driven, Error> {
    let pace = Pace::new(&plan.pace, plan.seed)?;
    if plan.stop == Stop::default() {
        return Err(Error::Pace {
            why: "the drive would never end: give a time or a number of ops",
        });
    }
    let clients = plan.pace.clients as usize;
    let (workload, sessions) = tokio::select! {
        connected = connect_all(workload, clients) => connected?,
        () = cancel.cancelled() => return Err(Error::Interrupted),
    };
    let shards = (0..clients.min(shard::MOST)).map(|_| Mutex::new(Shard::default())).collect();
    let start = Instant::now();
    counters.start();
    let offer = Arc::new(match pace {
        Pace::Closed => Offer::Closed(Closed::new(plan.stop.ops)),
        _ => Offer::Paced(Queue::new(MOST_BACKLOG)),
    });
    let window = Arc::new(Window::new(start + plan.warm, plan.stop.time));
    let scene = Arc::new(Scene {
        workload,
        seed: plan.seed,
        start,
        offer: offer.clone(),
        window: window.clone(),
        counters: counters.clone(),
        shards,
        under_way: (0..clients).map(|_| AtomicU64::new(0)).collect(),
        hurry: CancellationToken::new(),
    });
    let pacer = match pace {
        Pace::Closed => None,
        _ => Some(Pacer::start(pace, start, plan.stop.ops, &offer, &window, counters)?),
    };
    let mut running = JoinSet::new();
    for (number, session) in sessions.into_iter().enumerate() {
        running.spawn(client::run(scene.clone(), number, session));
    }
    let interrupted = watch(&mut running, &scene, plan.stop.ops, grace, events, cancel).await?;
    let ended = Instant::now();
    window.cut(ended);
    let paced = pacer.map(Pacer::stop);
    Ok(gather(&scene, paced, interrupted, ended))
}

async fn connect_all<W: Workload>(
    workload: W,
    clients: usize,
) -> Result<(W, Vec<W::Client>), Error> {
    let workload = Arc::new(workload);
    let mut connecting = JoinSet::new();
    let mut sessions = Vec::with_capacity(clients);
    for number in 0..clients {
        if number >= CONNECTING
            && let Some(session) = connecting.join_next().await
        {
            sessions.push(session??);
        }
        let workload = workload.clone();
        connecting.spawn(async move {
            let mut patience = Patience::new(RECONNECT_LIMIT);
            loop {
                match workload.connect().await {
                    Err(error) if patience.allows(error.class()).await => {}
                    connected => return connected,
                }
            }
        });
    }
    while let Some(session) = connecting.join_next().await {
        sessions.push(session??);
    }
    let workload = Arc::into_inner(workload).expect("all futures that shared it have ended");
    Ok((workload, sessions))
}

/// Waits for the clients; answers whether the drive was cancelled.
async fn watch<W: Workload>(
    running: &mut JoinSet<Result<(), Error>>,
    scene: &Scene<W>,
    ops: Option<u64>,
    grace: Duration,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<bool, Error> {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut interrupted = false;
    // Set once no further op may begin: when clients are stopped by force.
    let mut force: Option<Instant> = None;
    let mut failure = None;
    loop {
        let now = Instant::now();
        if force.is_none() && scene.window.end().is_some_and(|end| now >= end) {
            scene.offer.stop();
            force = Some(now + grace);
        }
        if force.is_some_and(|force| now >= force) {
            running.shutdown().await;
            break;
        }
        let wake = [force, scene.window.end().filter(|_| force.is_none())];
        let wake = wake.into_iter().flatten().min().unwrap_or(now + grace);
        tokio::select! {
            ended = running.join_next() => match ended {
                None => break,
                Some(ended) => if let Err(error) = ended.map_err(Error::from).flatten() {
                    failure.get_or_insert(error);
                    force.get_or_insert(now + grace);
                    scene.offer.stop();
                    scene.hurry.cancel();
                }
            },
            _ = tick.tick() => events.send(Event::Progress {
                what: "ops committed",
                done: scene.counters.committed(),
                of: ops,
            }),
            () = tokio::time::sleep_until(wake.into()) => {}
            () = cancel.cancelled(), if !interrupted => {
                interrupted = true;
                let now = Instant::now();
                scene.window.cut(now);
                scene.offer.stop();
                scene.hurry.cancel();
                force = Some(now + grace);
            }
        }
    }
    failure.map_or(Ok(interrupted), Err)
}

fn gather<W: Workload>(
    scene: &Scene<W>,
    paced: Option<Paced>,
    interrupted: bool,
    ended: Instant,
) -> Driven {
    let window = &scene.window;
    let mut all = Shard::default();
    for shard in &scene.shards {
        all.merge(&shard.lock().expect("no client panics while it holds its shard"));
    }
    if scene.offer.is_closed() {
        all.close_loop();
    }
    for slot in &scene.under_way {
        if let Some(nanos) = slot.load(Ordering::Relaxed).checked_sub(1) {
            let at = scene.start + Duration::from_nanos(nanos);
            all.cut_off(at, ended, window);
            scene.counters.add_failed();
        }
    }
    let rest = match &*scene.offer {
        Offer::Closed(_) => Default::default(),
        Offer::Paced(queue) => queue.take_rest(),
    };
    for due in &rest {
        all.abandon(due.at, ended, window);
    }
    let (offered_ops, window_offered, max_backlog) = match &*scene.offer {
        Offer::Closed(closed) => (closed.offered(), closed.window_offered(), 0),
        Offer::Paced(queue) => {
            let offered = paced.as_ref().map_or((0, 0), |p| (p.offered, p.window_offered));
            (offered.0, offered.1, queue.max())
        }
    };
    let paced = paced.unwrap_or_default();
    let window_end = window.end().unwrap_or(ended);
    Driven {
        offered_ops,
        committed_ops: all.committed,
        failed: all.failed,
        unknown_ops: all.unknown,
        dropped_ops: paced.dropped,
        abandoned_ops: rest.len() as u64,
        odd_ops: all.odd,
        retried: all.retried,
        lost: all.lost,
        reconnects: all.reconnects,
        effect: all.effect,
        window: window_end.saturating_duration_since(window.begin),
        window_offered,
        window_committed: all.window_committed,
        delay: all.delay,
        service: all.service,
        response: all.response,
        pacer_lateness: paced.lateness,
        max_backlog,
        interrupted,
    }
}
