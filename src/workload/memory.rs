//! A workload without a server, for tests of what happens around ops: it records what it was asked
//! to perform and fails as it is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::counters::Counters;
use super::drive::{DrivePlan, Stop, drive_workload};
use super::driven::Driven;
use super::effect::Effect;
use super::op::{Failure, Fate, Workload};
use super::settings::{PaceKind, PaceSettings, Script, Settings, Sysbench};
use super::sysbench::{Oltp, Op};
use crate::event::Events;
use crate::mysql::session;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The first tries of each op are refused.
    Refused {
        tries: u32,
    },
    /// Every tenth op loses its connection at the commit; reading back gives this.
    Lost(Told),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Committed,
    NotCommitted,
    Unknown,
}

/// What tests look at afterwards.
#[derive(Debug, Default)]
struct Seen {
    ops: Mutex<Vec<Op>>,
    tries: Mutex<BTreeMap<Op, u32>>,
    connected: AtomicU64,
}

#[derive(Debug)]
struct Memory {
    oltp: Oltp,
    trouble: Trouble,
    /// Ops wait while this is false.
    open: watch::Receiver<bool>,
    seen: Arc<Seen>,
}

const ONE: Effect =
    Effect { inserted: 1, updated: 0, deleted: 0, read: 0, statements: 1, bytes: 0 };

impl Workload for Memory {
    type Op = Op;
    type Client = ();

    fn pick(&self, seed: u64, index: u64) -> Op {
        self.oltp.op(seed, index)
    }

    fn row_changes(&self, _: &Op) -> u64 {
        1
    }

    async fn connect(&self) -> Result<(), session::Error> {
        self.seen.connected.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn perform(&self, (): &mut (), op: &Op) -> Result<Effect, Failure> {
        let mut open = self.open.clone();
        open.wait_for(|open| *open).await.expect("the test keeps the sender");
        let tries = {
            let mut tries = self.seen.tries.lock().expect("lock");
            let tries = tries.entry(*op).or_default();
            *tries += 1;
            *tries
        };
        match self.trouble {
            Trouble::Refused { tries: refused } if tries <= refused => {
                return Err(Failure::Refused { code: 1213 });
            }
            Trouble::Lost(_) if tries == 1 && self.is_tenth(op) => {
                return Err(Failure::Lost { code: 0, committing: true });
            }
            _ => {}
        }
        self.seen.ops.lock().expect("lock").push(*op);
        Ok(ONE)
    }

    async fn settle(&self, _: u64, (): &mut (), _: &Op) -> Result<Fate, Failure> {
        Ok(match self.trouble {
            Trouble::Lost(Told::Committed) => Fate::Committed(ONE),
            Trouble::Lost(Told::NotCommitted) => Fate::NotCommitted,
            _ => Fate::Unknown,
        })
    }

    async fn close(&self, (): ()) {}
}

impl Memory {
    fn is_tenth(&self, op: &Op) -> bool {
        (0..1_000).step_by(10).any(|index| self.oltp.op(SEED, index) == *op)
    }
}

const SEED: u64 = 42;

fn plan(kind: PaceKind, rate: Option<f64>, clients: u32, stop: Stop) -> DrivePlan {
    DrivePlan {
        settings: Settings::Sysbench(Sysbench {
            script: Script::OltpWriteOnly,
            tables: 4,
            table_size: 1_000,
            rand_type: super::settings::RandType::Zipfian,
        }),
        pace: PaceSettings { kind, rate, clients },
        schema: "s".into(),
        seed: SEED,
        stop,
        warm: Duration::ZERO,
    }
}

fn ops(ops: u64) -> Stop {
    Stop { ops: Some(ops), time: None }
}

fn time(time: Duration) -> Stop {
    Stop { time: Some(time), ops: None }
}

fn memory(trouble: Trouble, open: &watch::Sender<bool>) -> Memory {
    let oltp = Oltp::without_server(Script::OltpWriteOnly, 4, 1_000);
    Memory { oltp, trouble, open: open.subscribe(), seen: Arc::default() }
}

async fn run(memory: Memory, plan: &DrivePlan) -> (Driven, Arc<Seen>) {
    let (seen, counters) = (memory.seen.clone(), Arc::new(Counters::default()));
    let cancel = CancellationToken::new();
    let grace = Duration::from_millis(100);
    let driven = drive_workload(memory, plan, grace, &counters, &Events::none(), &cancel)
        .await
        .expect("drive");
    let ends = driven.committed_ops
        + driven.failed_ops()
        + driven.unknown_ops
        + driven.dropped_ops
        + driven.abandoned_ops;
    assert_eq!(driven.offered_ops, ends, "every op has exactly one end");
    assert_eq!(counters.offered(), driven.offered_ops);
    assert_eq!(counters.committed(), driven.committed_ops);
    assert_eq!(counters.row_changes(), driven.effect.row_changes());
    (driven, seen)
}

fn sorted(seen: &Seen) -> Vec<Op> {
    let mut ops = seen.ops.lock().expect("lock").clone();
    ops.sort_unstable();
    ops
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_seed_offers_the_same_ops_however_many_clients() {
    let open = watch::Sender::new(true);
    let mut all = Vec::new();
    for (kind, rate) in [
        (PaceKind::Closed, None),
        (PaceKind::Uniform, Some(20_000.0)),
        (PaceKind::Poisson, Some(20_000.0)),
    ] {
        for clients in [1, 16] {
            let plan = plan(kind, rate, clients, ops(1_000));
            let (driven, seen) = run(memory(Trouble::None, &open), &plan).await;
            assert_eq!((driven.committed_ops, driven.odd_ops), (1_000, 0));
            all.push(sorted(&seen));
        }
    }
    assert!(all.iter().all(|ops| *ops == all[0]));
    let mut expected: Vec<Op> = {
        let oltp = Oltp::without_server(Script::OltpWriteOnly, 4, 1_000);
        (0..1_000).map(|i| oltp.op(SEED, i)).collect()
    };
    expected.sort_unstable();
    assert_eq!(all[0], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_drive_stopped_by_time_has_performed_a_prefix() {
    let open = watch::Sender::new(true);
    let plan = plan(PaceKind::Closed, None, 16, time(Duration::from_millis(300)));
    let (driven, seen) = run(memory(Trouble::None, &open), &plan).await;
    let oltp = Oltp::without_server(Script::OltpWriteOnly, 4, 1_000);
    let mut expected: Vec<Op> = (0..driven.committed_ops).map(|i| oltp.op(SEED, i)).collect();
    expected.sort_unstable();
    assert!(driven.committed_ops > 0);
    assert_eq!(sorted(&seen), expected);
}

/// What coordinated omission would hide: while the server stands still, ops go on becoming due.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stall_shows_in_response_and_not_in_service_alone() {
    let open = watch::Sender::new(false);
    let plan = plan(PaceKind::Uniform, Some(1_000.0), 4, ops(700));
    let memory = memory(Trouble::None, &open);
    let stall = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        open.send_replace(true);
    };
    let ((driven, _), ()) = tokio::join!(run(memory, &plan), stall);
    let slow = |h: &crate::stats::Histogram| {
        h.counts().filter(|(micros, _)| *micros > 50_000).map(|(_, n)| n).sum::<u64>()
    };
    assert_eq!(driven.committed_ops, 700);
    assert!(slow(&driven.service) <= 4, "only what the clients were at");
    assert!(slow(&driven.response) >= 400, "{}", slow(&driven.response));
    assert!(driven.response.max().expect("ops") >= 450_000);
    assert!(driven.max_backlog >= 400, "{}", driven.max_backlog);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ops_that_a_frozen_server_never_answers_are_told() {
    let open = watch::Sender::new(false);
    let length = Duration::from_millis(200);
    let plan = plan(PaceKind::Uniform, Some(1_000.0), 4, time(length));
    let (driven, _) = run(memory(Trouble::None, &open), &plan).await;
    assert_eq!((driven.committed_ops, driven.window_committed), (0, 0));
    assert_eq!((driven.offered_ops, driven.window_offered), (200, 200));
    assert_eq!((driven.unknown_ops, driven.abandoned_ops), (4, 196));
    assert_eq!(driven.response.n(), 200, "each counts with its age");
    assert_eq!(driven.window, length);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refused_op_is_tried_as_a_whole_until_it_commits() {
    let open = watch::Sender::new(true);
    let plan = plan(PaceKind::Closed, None, 8, ops(200));
    let (driven, seen) = run(memory(Trouble::Refused { tries: 3 }, &open), &plan).await;
    assert_eq!((driven.committed_ops, driven.retried[&1213]), (200, 600));
    assert_eq!(sorted(&seen).len(), 200);
    let (driven, seen) = run(memory(Trouble::Refused { tries: u32::MAX }, &open), &plan).await;
    assert_eq!((driven.committed_ops, driven.failed[&1213]), (0, 200), "but not for ever");
    assert_eq!((sorted(&seen).len(), driven.service.n()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_without_answer_is_settled_before_anything_else() {
    let open = watch::Sender::new(true);
    let plan = plan(PaceKind::Closed, None, 8, ops(1_000));
    for (told, committed, unknown, performed) in [
        (Told::Committed, 1_000, 0, 900),
        (Told::NotCommitted, 1_000, 0, 1_000),
        (Told::Unknown, 900, 100, 900),
    ] {
        let (driven, seen) = run(memory(Trouble::Lost(told), &open), &plan).await;
        assert_eq!((driven.committed_ops, driven.unknown_ops), (committed, unknown), "{told:?}");
        assert_eq!(sorted(&seen).len(), performed, "{told:?}");
        assert_eq!((driven.lost[&0], driven.reconnects), (100, 100), "{told:?}");
        assert_eq!(seen.connected.load(Ordering::Relaxed), 108, "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_interrupted_drive_says_so_and_accounts_for_every_op() {
    let open = watch::Sender::new(true);
    for (kind, rate) in [(PaceKind::Closed, None), (PaceKind::Poisson, Some(5_000.0))] {
        let plan = plan(kind, rate, 4, time(Duration::from_secs(3_600)));
        let (counters, cancel) = (Arc::new(Counters::default()), CancellationToken::new());
        let interrupt = async {
            while counters.committed() < 100 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let events = Events::none();
        let workload = memory(Trouble::None, &open);
        let grace = Duration::from_secs(10);
        let drive = drive_workload(workload, &plan, grace, &counters, &events, &cancel);
        let (driven, ()) = tokio::join!(drive, interrupt);
        let driven = driven.expect("an interruption is no error");
        assert!(driven.interrupted && driven.committed_ops >= 100);
        assert!(driven.window < Duration::from_secs(3_600));
        assert_eq!(driven.offered_ops, driven.committed_ops + driven.abandoned_ops);
    }
}
