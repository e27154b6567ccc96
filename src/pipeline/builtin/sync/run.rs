//! Starting the sync unit, watching it, ending it.

use std::pin::pin;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::mysql::patience::RETRY_LIMIT;
use crate::mysql::{Endpoint, Position, Session, owner};
use crate::pipeline::builtin::Sync;
use crate::pipeline::builtin::checkpoint::{Checkpoints, TableCheckpoints};
use crate::pipeline::builtin::sync::apply::SqlApplier;
use crate::pipeline::builtin::sync::define::SqlDefiner;
use crate::pipeline::builtin::sync::drive::{Parts, drive};
use crate::pipeline::builtin::sync::error::{Error, ended};
use crate::pipeline::builtin::sync::retry::Retry;
use crate::pipeline::builtin::sync::start::Start;
use crate::pipeline::builtin::sync::stream::{LiveChanges, Origin};
use crate::pipeline::{Progress, State, Unit};
use crate::stats::Histogram;

/// From where to where, and under which names.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Source.
    pub source: Endpoint,
    /// Target.
    pub target: Endpoint,
    /// Schemas to replicate; they exist on the target.
    pub schemas: Vec<String>,
    /// Names the checkpoint table.
    pub name: String,
    /// Schema of the checkpoint table on the target; made when it is missing.
    pub meta_schema: String,
    /// Written into the owner table of the meta schema.
    pub run: String,
    /// Id to register with at the source; no other replica may have it.
    pub server_id: u32,
    /// Where to begin when there is no checkpoint: the position of a snapshot that the target holds.
    pub from: Position,
}

/// What the unit did.
#[derive(Debug, Clone, PartialEq)]
pub struct Synced {
    /// Row changes committed on the target, each counted once per position.
    pub rows: u64,
    /// Bytes of binlog read.
    pub bytes: u64,
    /// Statements that changed rows.
    pub statements: u64,
    /// Transactions committed on the target.
    pub transactions: u64,
    /// Time of a transaction on the target, begin to commit (µs).
    pub transaction: Histogram,
    /// Time of a statement that changes rows (µs).
    pub statement: Histogram,
    /// Barriers over all workers because of shared keys.
    pub conflicts: u64,
    /// Updates and deletes that found no row outside safe mode: the ends differ.
    pub mismatched: u64,
    /// Changes of tables without a key that may have been executed twice.
    pub repeated: u64,
    /// Row changes that became part of another one of the same row.
    pub compacted: u64,
    /// Unique keys over expressions, as `schema.table (key)`, for which all changes of their tables
    /// were applied one after the other.
    pub serial: Vec<String>,
    /// Transactions on the target that were tried again.
    pub retries: u64,
    /// DDL executed.
    pub ddl: u64,
    /// Source transactions with replicated rows, applied whole.
    pub source_transactions: u64,
    /// Everything before is applied and stored as checkpoint.
    pub position: Position,
}

/// Replicates until `drain` is ready. Resumes from the checkpoint where there is one, else begins at
/// `setup.from`. Connects everything, asks for the binlog, reports [`State::Held`] and waits for
/// `released` before the first event is read. When `drain` is ready it stops at the next
/// transaction's end, waits until all is applied, stores a checkpoint and returns. Progress is
/// published about every 20 ms. After an error or when this future is dropped, running it again
/// goes on from the last checkpoint.
///
/// # Errors
/// [`Error::Cancelled`] at once when `cancel` is; else what could not be read, applied or stored.
pub async fn run(
    settings: &Sync,
    setup: &Setup,
    released: impl Future<Output = ()>,
    progress: &watch::Sender<Progress>,
    drain: impl Future<Output = ()>,
    cancel: &CancellationToken,
) -> Result<Synced, Error> {
    progress.send_replace(Progress::new(Unit::Sync));
    // On the heap: what it holds is large, and callers would carry it on their stacks.
    let replicated = Box::pin(replicate(settings, setup, released, progress, drain));
    let result = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Error::Cancelled),
        result = replicated => result,
    };
    progress.send_modify(|progress| match &result {
        Ok(_) => progress.state = State::Finished,
        Err(error) => {
            progress.state = State::Failed;
            progress.error = Some(error.to_string());
        }
    });
    result
}

/// Sync writes only into schemas that dmbench made. One that is missing is told by its first table.
async fn refuse_foreign_schemas(setup: &Setup) -> Result<(), Error> {
    let mut target = Session::connect(&setup.target).await?;
    for schema in &setup.schemas {
        if owner::is_ours(&mut target, schema).await? == Some(false) {
            let (schema, endpoint) = (schema.clone(), setup.target.to_string());
            return Err(owner::Error::NotOurs { schema, endpoint }.into());
        }
    }
    target.close().await;
    Ok(())
}

async fn replicate(
    settings: &Sync,
    setup: &Setup,
    released: impl Future<Output = ()>,
    progress: &watch::Sender<Progress>,
    drain: impl Future<Output = ()>,
) -> Result<Synced, Error> {
    let mut retry = Retry::within(RETRY_LIMIT);
    let mut start = None;
    let (start, parts) = loop {
        match connect(settings, setup, &mut start).await {
            Ok(connected) => break connected,
            Err(error) => retry.after(error).await?,
        }
    };
    progress.send_modify(|progress| {
        progress.state = State::Held;
        progress.read = Some(start.position.clone());
        progress.applied = Some(start.position.clone());
        progress.durable = Some(start.position.clone());
    });
    let mut drain = pin!(drain);
    let drained_while_held = tokio::select! {
        () = released => false,
        () = &mut drain => true,
    };
    progress.send_modify(|progress| progress.state = State::Running);
    let drain = async {
        if !drained_while_held {
            drain.await;
        }
    };
    drive(settings, start, parts, progress, drain).await
}

type LiveParts = Parts<LiveChanges, SqlApplier, SqlDefiner, TableCheckpoints>;

/// Makes all connections, asks for the binlog and stores the checkpoint that is owed. May be done
/// again: the start stays the one that the first try found.
async fn connect(
    settings: &Sync,
    setup: &Setup,
    start: &mut Option<Start>,
) -> Result<(Start, LiveParts), Error> {
    refuse_foreign_schemas(setup).await?;
    let mut checkpoints =
        TableCheckpoints::open(&setup.target, &setup.meta_schema, &setup.name, &setup.run).await?;
    let definer = SqlDefiner::connect(&setup.target, checkpoints.table()).await?;
    let start = match start {
        Some(start) => start,
        None => start.insert(Start::find(settings, setup, &mut checkpoints).await?),
    };
    let appliers = connect_workers(settings, &setup.target).await?;
    let origin = Origin {
        source: setup.source.clone(),
        target: setup.target.clone(),
        schemas: setup.schemas.clone(),
        server_id: setup.server_id,
    };
    let stream = LiveChanges::open(origin, &start.position).await?;
    if let Some(owed) = &start.owed {
        checkpoints.save(owed).await?;
    }
    Ok((start.clone(), Parts { stream, appliers, definer, checkpoints }))
}

async fn connect_workers(settings: &Sync, target: &Endpoint) -> Result<Vec<SqlApplier>, Error> {
    let mut connecting = JoinSet::new();
    for _ in 0..settings.worker_count.max(1) {
        let (target, multiple_rows) = (target.clone(), settings.multiple_rows);
        connecting.spawn(async move { SqlApplier::connect(&target, multiple_rows).await });
    }
    let mut appliers = Vec::new();
    while let Some(applier) = connecting.join_next().await {
        appliers.push(applier.map_err(ended)??);
    }
    Ok(appliers)
}
