//! What flows through the sync unit.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::mysql::Position;
use crate::mysql::binlog::{Kind, Origin, Row};
use crate::mysql::value::Value;
use crate::pipeline::builtin::sync::ddl::Definition;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::table::ReplicaTable;

/// What may be on the target already when a row is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Exactly what was there on the source.
    Plain,
    /// The same, but the row is to be written by statements that may be repeated.
    Safe,
    /// Perhaps this change and changes behind it: it was read before a crash.
    Replay,
}

/// One changed row. At least one image is there.
#[derive(Debug)]
pub(super) struct RowChange {
    /// Its table.
    pub(super) table: Arc<ReplicaTable>,
    /// The row before; `None` for an insert.
    pub(super) before: Option<Row>,
    /// The row after; `None` for a delete.
    pub(super) after: Option<Row>,
    /// Which statements are right for it.
    pub(super) mode: Mode,
    /// Number of its source transaction, for telling how far everything is applied.
    pub(super) ticket: u64,
    /// Those of changes that became part of this one.
    pub(super) absorbed: Vec<u64>,
    /// Row changes of the source that it stands for.
    pub(super) weight: u64,
    /// Its share of the memory that rows under way may take; given back when it is dropped.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl RowChange {
    /// A change of a table's row.
    pub(super) fn new(table: Arc<ReplicaTable>, before: Option<Row>, after: Option<Row>) -> Self {
        RowChange {
            table,
            before,
            after,
            mode: Mode::Plain,
            ticket: 0,
            absorbed: Vec::new(),
            weight: 1,
            room: None,
        }
    }

    /// What happened to the row.
    pub(super) fn kind(&self) -> Kind {
        match (&self.before, &self.after) {
            (None, _) => Kind::Insert,
            (Some(_), Some(_)) => Kind::Update,
            (Some(_), None) => Kind::Delete,
        }
    }

    /// Both images that are there.
    pub(super) fn images(&self) -> impl Iterator<Item = &Row> {
        self.before.iter().chain(&self.after)
    }

    /// Whether an update leaves the columns that tell the row from all others as they are.
    pub(super) fn keeps_identity(&self) -> bool {
        match (&self.before, &self.after, &self.table.row_key) {
            (Some(before), Some(after), Some(key)) => key.iter().all(|&c| before[c] == after[c]),
            _ => false,
        }
    }

    /// Whether an update leaves all columns of unique keys as they are.
    pub(super) fn keeps_keys(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => {
                self.table.key_columns.iter().all(|&c| before[c] == after[c])
            }
            _ => false,
        }
    }

    /// About how many bytes of memory it takes.
    pub(super) fn size(&self) -> usize {
        let row = |row: &Row| {
            row.iter().map(|value| size_of::<Value>() + value.heap_bytes()).sum::<usize>()
        };
        size_of::<RowChange>() + self.images().map(row).sum::<usize>()
    }
}

/// A statement to be executed between barriers.
#[derive(Debug)]
pub(super) struct Ddl {
    /// Schema in use; empty for none.
    pub(super) schema: String,
    /// Text.
    pub(super) sql: String,
    /// What was set where it was executed.
    pub(super) origin: Origin,
    /// What it does, and the tables that it names.
    pub(super) definition: Definition,
    /// Where the next event begins.
    pub(super) end: Position,
    /// Told when it is executed: until then the reader must not look at the target's tables.
    pub(super) executed: Option<oneshot::Sender<()>>,
}

/// What a [`ChangeStream`] gives.
#[derive(Debug)]
pub(super) enum Change {
    /// A row of the current transaction; the first begins it.
    Row(RowChange),
    /// The current transaction is complete.
    Commit {
        /// Where the next event begins.
        end: Position,
    },
    /// A DDL, never inside a transaction.
    Ddl(Ddl),
    /// Nothing for this unit up to here, outside transactions.
    Passed {
        /// Where the next event begins.
        end: Position,
    },
    /// The source has nothing more at the moment.
    Idle {
        /// Its end.
        end: Position,
    },
}

/// Committed changes of a source in their order.
///
/// Contract: rows of one transaction come one after the other, then its `Commit`; a transaction
/// whose rows are all of no interest may come as `Passed`. Positions never fall. `Idle` comes only
/// outside transactions. A broken connection is repaired inside, without gap or repetition. After an
/// error the stream is over. `next` is not dropped half-way but with the stream itself.
pub(super) trait ChangeStream: Send + 'static {
    /// Waits for the next change.
    ///
    /// # Errors
    /// When the source cannot be read any more or holds what cannot be replicated exactly.
    fn next(&mut self) -> impl Future<Output = Result<Change, Error>> + Send;

    /// Forgets the shapes of tables: a DDL was executed on the target.
    fn forget_tables(&mut self);

    /// Bytes of binlog read so far.
    fn byte_count(&self) -> u64;
}
