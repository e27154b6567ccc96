//! The units in their order, with their events.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mysql::patience::{APPLY_LIMIT, Patience};
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Position, Session, owner};
use crate::pipeline::builtin::child::wire::{Failure, Message, Order};
use crate::pipeline::builtin::{checkpoint, dump, load, sync};
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
        let mut patience = Patience::new(APPLY_LIMIT);
        let forgot = loop {
            match forget_checkpoint(&self.order).await {
                Err(error) if patience.allows(error.class()).await => {}
                done => break done,
            }
        };
        let began = self.begin(Unit::Load).await;
        let loaded = match forgot {
            Ok(()) => self.run_load().await,
            Err(error) => Err(Failure::new(error.to_string(), error.class())),
        };
        // Before the end, behind which nobody listens.
        for text in loaded.iter().flat_map(remarks_on_load) {
            self.tell(UnitEvent::Remark { unit: Unit::Load, text }).await;
        }
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

    async fn run_load(&self) -> Result<load::Loaded, Failure> {
        let order = &self.order;
        load::run(
            &order.settings.load,
            &order.target(),
            &order.run,
            &order.folder,
            &self.progress,
            &self.control.cancel,
        )
        .await
        .map_err(|error| Failure::new(error.to_string(), error.class()))
    }

    /// Sync connects first and is held behind that, so its begin is its release.
    async fn sync(&self, from: Position) -> Result<(), Failure> {
        let order = &self.order;
        let setup = sync::Setup {
            source: order.source(),
            target: order.target(),
            schemas: order.schemas.clone(),
            name: order.name.clone(),
            meta_schema: order.meta_schema.clone(),
            run: order.run.clone(),
            server_id: order.server_id,
            from,
        };
        let began = OnceLock::new();
        let released = async {
            // A drain before the release ends an empty sync in good order.
            tokio::select! {
                () = self.control.released.cancelled() => {}
                () = self.control.drain.cancelled() => {}
            }
            let _ = began.set(self.begin(Unit::Sync).await);
        };
        let synced = sync::run(
            &order.settings.sync,
            &setup,
            released,
            &self.progress,
            self.control.drain.cancelled(),
            &self.control.cancel,
        )
        .await
        .map_err(|error| Failure::new(error.to_string(), error.class()));
        let tally = match &synced {
            Ok(synced) => Ok(Tally {
                rows: synced.rows,
                bytes: synced.bytes,
                statements: synced.statements,
                transaction: synced.transaction.clone(),
                statement: synced.statement.clone(),
            }),
            Err(failure) => Err(failure.clone()),
        };
        let began = match began.into_inner() {
            Some(began) => began,
            // It failed or was stopped before it was released: a unit of no length.
            None => self.begin(Unit::Sync).await,
        };
        // Before the end, behind which nobody listens.
        for text in synced.iter().flat_map(remarks) {
            self.tell(UnitEvent::Remark { unit: Unit::Sync, text }).await;
        }
        self.end(Unit::Sync, began, tally).await;
        synced.map(drop)
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

/// What a load that ended well leaves to be known.
fn remarks_on_load(loaded: &load::Loaded) -> Option<String> {
    let (retried, restarted) = (loaded.retried, loaded.restarted);
    let what = match (retried, restarted) {
        (0, 0) => return None,
        (_, 0) => format!("{retried} INSERTs of the load were tried again"),
        (0, _) => format!("the load's tables were made again, {restarted} times"),
        _ => format!(
            "the load's tables were made again, {restarted} times, and {retried} of its INSERTs were \
             tried again"
        ),
    };
    let why = loaded.trouble.as_deref().unwrap_or("no reason was given");
    Some(format!("{what}, the last because: {why}"))
}

/// What a sync that ended well leaves to be known.
fn remarks(synced: &sync::Synced) -> Vec<String> {
    let mut remarks = Vec::new();
    if synced.mismatched > 0 {
        remarks.push(format!(
            "{} updates or deletes found no row on the target: the ends differed",
            synced.mismatched
        ));
    }
    if synced.repeated > 0 {
        remarks.push(format!(
            "{} changes of tables without a key may have been executed twice after a restart or a \
             lost answer",
            synced.repeated
        ));
    }
    for key in &synced.serial {
        remarks.push(format!(
            "all changes of a table were applied one after the other because of a unique key over an \
             expression: {key}"
        ));
    }
    if synced.compacted > 0 {
        let (compacted, rows) = (synced.compacted, synced.rows);
        remarks
            .push(format!("{compacted} of {rows} row changes became part of another of their row"));
    }
    remarks
}

/// Drops the checkpoint of this name. What is loaded next is at another position, and sync would
/// go on from the old one.
async fn forget_checkpoint(order: &Order) -> Result<(), SessionError> {
    let mut session = Session::connect(&order.target()).await?;
    if owner::is_ours(&mut session, &order.meta_schema).await? == Some(true) {
        let table = checkpoint::table_name(&order.name);
        let (schema, table) = (quote_name(&order.meta_schema), quote_name(&table));
        session.execute(&format!("DROP TABLE IF EXISTS {schema}.{table}")).await?;
    }
    session.close().await;
    Ok(())
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
