//! The units in their order, with their events.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::mysql::Position;
use crate::pipeline::builtin::child::wire::{Failure, Message, Order};
use crate::pipeline::builtin::{dump, load};
use crate::pipeline::{Progress, Start, State, Unit, UnitEvent};
use crate::stats::Histogram;

/// What the parent asked for.
#[derive(Debug, Clone)]
pub(super) struct Control {
    released: CancellationToken,
    drain: CancellationToken,
    cancel: CancellationToken,
}

impl Control {
    pub(super) fn new(released: bool) -> Control {
        let control = Control {
            released: CancellationToken::new(),
            drain: CancellationToken::new(),
            cancel: CancellationToken::new(),
        };
        if released {
            control.released.cancel();
        }
        control
    }

    pub(super) fn release(&self) {
        self.released.cancel();
    }

    pub(super) fn drain(&self) {
        self.drain.cancel();
    }

    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether no further unit may begin.
    fn is_over(&self) -> bool {
        self.drain.is_cancelled() || self.cancel.is_cancelled()
    }
}

/// What a unit's end event says beside its name and times.
#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    bytes: u64,
    statements: u64,
    transaction: Histogram,
    statement: Histogram,
}

/// See the module.
pub(super) struct Units {
    pub(super) order: Order,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) control: Control,
}

impl Units {
    /// Runs what the order says. Being told to stop is a good end.
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let outcome = match self.order.start.clone() {
            Start::Dump => self.dump().await.map(drop),
            Start::Load => self.load().await,
            Start::Full => self.full().await.map(drop),
            Start::Incremental { from } => self.sync(from).await,
            Start::All => self.all().await,
        };
        match outcome {
            Err(_) if self.control.cancel.is_cancelled() => Ok(()),
            outcome => outcome,
        }
    }

    async fn full(&self) -> Result<Option<Position>, Failure> {
        let position = self.dump().await?;
        if position.is_some() && !self.control.is_over() {
            self.load().await?;
        }
        Ok(position)
    }

    async fn all(&self) -> Result<(), Failure> {
        match self.full().await? {
            Some(position) if !self.control.is_over() => self.sync(position).await,
            _ => Ok(()),
        }
    }

    /// `None` when it was told to stop before it began.
    async fn dump(&self) -> Result<Option<Position>, Failure> {
        if !self.wait_for_release(Unit::Dump).await {
            return Ok(None);
        }
        let began = self.begin(Unit::Dump).await;
        let order = &self.order;
        let dumped = dump::run(
            &order.settings.dump,
            &order.source(),
            &order.schemas,
            &order.folder,
            &self.progress,
            &self.control.cancel,
        )
        .await
        .map_err(|error| Failure::new(error.to_string(), error.class()));
        let tally = match &dumped {
            Ok(dumped) => Ok(Tally { rows: dumped.rows, bytes: dumped.bytes, ..Tally::default() }),
            Err(failure) => Err(failure.clone()),
        };
        self.end(Unit::Dump, began, tally).await;
        let dumped = dumped?;
        for text in dumped.remarks {
            self.tell(UnitEvent::Remark { unit: Unit::Dump, text }).await;
        }
        Ok(Some(dumped.position))
    }

    async fn load(&self) -> Result<(), Failure> {
        if !self.wait_for_release(Unit::Load).await {
            return Ok(());
        }
        let began = self.begin(Unit::Load).await;
        let order = &self.order;
        let loaded = load::run(
            &order.settings.load,
            &order.target(),
            &order.run,
            &order.folder,
            &self.progress,
            &self.control.cancel,
        )
        .await
        .map_err(|error| Failure::new(error.to_string(), error.class()));
        let (tally, outcome) = match loaded {
            Ok(loaded) => (
                Ok(Tally {
                    rows: loaded.rows,
                    bytes: loaded.bytes,
                    statements: loaded.statements,
                    transaction: loaded.transaction,
                    statement: loaded.statement,
                }),
                Ok(()),
            ),
            Err(failure) => (Err(failure.clone()), Err(failure)),
        };
        self.end(Unit::Load, began, tally).await;
        outcome
    }

    async fn sync(&self, _from: Position) -> Result<(), Failure> {
        Err(Failure::new("start sync: it is not built in yet".to_owned(), ErrorClass::Bug))
    }

    /// Waits where the pipeline was started held. `false` when it was stopped instead.
    async fn wait_for_release(&self, unit: Unit) -> bool {
        let control = &self.control;
        if !control.released.is_cancelled() {
            self.progress.send_replace(Progress { state: State::Held, ..Progress::new(unit) });
            tokio::select! {
                () = control.released.cancelled() => {}
                () = control.drain.cancelled() => {}
                () = control.cancel.cancelled() => {}
            }
        }
        let go = !control.is_over();
        if !go {
            self.progress.send_modify(|p| p.state = State::Finished);
        }
        go
    }

    async fn begin(&self, unit: Unit) -> Instant {
        self.tell(UnitEvent::Began { unit, at_ns: now_ns() }).await;
        Instant::now()
    }

    async fn end(&self, unit: Unit, began: Instant, tally: Result<Tally, Failure>) {
        let took_s = began.elapsed().as_secs_f64();
        let at_ns = now_ns();
        let (tally, error) = match tally {
            Ok(tally) => (tally, None),
            Err(failure) => (Tally::default(), Some(failure.text)),
        };
        let stopped = self.control.cancel.is_cancelled();
        self.progress.send_modify(|p| {
            p.state = if error.is_some() && !stopped { State::Failed } else { State::Finished };
            p.error = error.clone();
        });
        self.tell(UnitEvent::Ended {
            unit,
            at_ns,
            took_s,
            rows: tally.rows,
            bytes: tally.bytes,
            statements: tally.statements,
            transaction: Box::new(tally.transaction),
            statement: Box::new(tally.statement),
            error,
        })
        .await;
    }

    /// A message that nobody takes any more is dropped: the parent is gone.
    async fn tell(&self, event: UnitEvent) {
        let _ = self.messages.send(Message::Event(Box::new(event))).await;
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
