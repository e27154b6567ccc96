//! An in-memory target, source and checkpoint store, for tests of order.
//!
//! The target checks unique keys by rules of its own, not by those under test, and lets other
//! workers run between any two rows. It is no transactional store: a batch that is dropped half-way
//! stays half applied, which is worse than what a server does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;

use crate::mysql::Position;
use crate::mysql::binlog::Row;
use crate::mysql::schema::{Column, KeyPart, Table, UniqueKey};
use crate::mysql::session::Error as SessionError;
use crate::mysql::value::Value;
use crate::pipeline::builtin::checkpoint::{self, Checkpoint, Checkpoints, TableMark};
use crate::pipeline::builtin::sync::apply::{Applied, Applier, Failure, Fate, Timing};
use crate::pipeline::builtin::sync::change::{Change, ChangeStream, Ddl, RowChange};
use crate::pipeline::builtin::sync::ddl::Name;
use crate::pipeline::builtin::sync::define::Definer;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::plan::{Form, Step, plan};
use crate::pipeline::builtin::sync::table::ReplicaTable;

/// A key's name and its parts: column and prefix.
pub(super) type NamedKey<'a> = (&'a str, &'a [(usize, Option<u32>)]);

/// A table of integers and text: `name type` with `?` behind a column that allows NULL.
pub(super) fn table(name: &str, columns: &[&str], keys: &[NamedKey<'_>]) -> Table {
    let column = |text: &&str| {
        let nullable = text.ends_with('?');
        let (name, data_type) = text.trim_end_matches('?').split_once(' ').expect("name type");
        let (data_type, collation) = data_type.split_once(' ').unwrap_or((data_type, ""));
        Column {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
            column_type: data_type.to_owned(),
            charset: (!collation.is_empty()).then(|| "utf8mb4".to_owned()),
            collation: (!collation.is_empty()).then(|| format!("utf8mb4_{collation}")),
            nullable,
            generated: false,
        }
    };
    let key = |(name, parts): &NamedKey<'_>| UniqueKey {
        name: (*name).to_owned(),
        parts: parts.iter().map(|&(column, prefix)| KeyPart { column, prefix }).collect(),
    };
    Table {
        schema: "s".to_owned(),
        name: name.to_owned(),
        columns: columns.iter().map(column).collect(),
        unique_keys: keys.iter().map(key).collect(),
        expression_keys: Vec::new(),
    }
}

/// Rows of all tables.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Store {
    tables: BTreeMap<String, Vec<Row>>,
}

impl Store {
    /// The rows of a table.
    pub(super) fn rows(&self, table: &Table) -> &[Row] {
        self.tables.get(&table.name).map_or(&[], Vec::as_slice)
    }

    /// All rows, sorted, for comparison.
    pub(super) fn sorted(&self) -> BTreeMap<String, Vec<String>> {
        let text = |rows: &Vec<Row>| {
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        self.tables
            .iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(name, rows)| (name.clone(), text(rows)))
            .collect()
    }

    /// Whether a row may stand beside the others; `but` is a row about to go.
    pub(super) fn admits(&self, table: &Table, row: &Row, but: Option<&Row>) -> bool {
        let mut skipped = but.is_none();
        self.rows(table).iter().all(|other| {
            if !skipped && Some(other) == but {
                skipped = true;
                return true;
            }
            !table.unique_keys.iter().any(|key| collides(table, key, row, other))
        })
    }

    /// Executes a statement as a server would. Gives how many rows it found, or what was refused for
    /// a duplicate key.
    pub(super) fn execute(&mut self, step: Step<'_>) -> Result<u64, String> {
        let table = &step.rows[0].table;
        let before = || step.rows.iter().filter_map(|row| row.before.as_ref());
        let after = || step.rows.iter().filter_map(|row| row.after.as_ref());
        let pairs = || before().zip(after());
        let shape = &table.shape;
        match step.form {
            Form::Insert => after().try_fold(0, |n, row| Ok(n + self.insert(shape, row)?)),
            Form::Replace => Ok(after().map(|row| self.replace(shape, row)).sum()),
            Form::Upsert => after().try_fold(0, |n, row| Ok(n + self.upsert(shape, row)?)),
            Form::Update => {
                pairs().try_fold(0, |n, (before, after)| Ok(n + self.update(table, before, after)?))
            }
            Form::Cases => self.update_by_cases(table, &pairs().collect::<Vec<_>>()),
            Form::Delete => Ok(before().map(|row| self.delete(table, row, 1)).sum()),
            Form::Deletes => Ok(before().map(|row| self.delete(table, row, usize::MAX)).sum()),
        }
    }

    fn update(&mut self, table: &ReplicaTable, before: &Row, after: &Row) -> Result<u64, String> {
        let rows = self.tables.entry(table.shape.name.clone()).or_default();
        let Some(at) = rows.iter().position(|row| is_row(table, row, before)) else {
            return Ok(0);
        };
        self.set(&table.shape, at, after)
    }

    /// Goes through the rows in an order of its own, and sees what it has set.
    fn update_by_cases(
        &mut self,
        table: &ReplicaTable,
        pairs: &[(&Row, &Row)],
    ) -> Result<u64, String> {
        let rows = self.tables.entry(table.shape.name.clone()).or_default();
        let mut found: Vec<(usize, &Row)> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let case = pairs.iter().find(|(before, _)| is_row(table, row, before));
            found.extend(case.map(|(_, after)| (at, *after)));
        }
        found
            .iter()
            .rev()
            .try_fold(0, |n, (at, after)| Ok(n + self.set(&table.shape, *at, after)?))
    }

    fn set(&mut self, table: &Table, at: usize, after: &Row) -> Result<u64, String> {
        let old = self.rows(table)[at].clone();
        if !self.admits(table, after, Some(&old)) {
            return Err(format!("duplicate key for {after:?}"));
        }
        self.tables.get_mut(&table.name).expect("there")[at] = after.clone();
        Ok(1)
    }

    /// `INSERT … ON DUPLICATE KEY UPDATE`: updates the row that the first key finds.
    fn upsert(&mut self, table: &Table, row: &Row) -> Result<u64, String> {
        let rows = self.rows(table);
        let met = table
            .unique_keys
            .iter()
            .find_map(|key| rows.iter().position(|other| collides(table, key, row, other)));
        match met {
            Some(at) => self.set(table, at, row),
            None => self.insert(table, row),
        }
    }

    fn insert(&mut self, table: &Table, row: &Row) -> Result<u64, String> {
        if !self.admits(table, row, None) {
            return Err(format!("duplicate key for {row:?}"));
        }
        self.tables.entry(table.name.clone()).or_default().push(row.clone());
        Ok(1)
    }

    fn replace(&mut self, table: &Table, row: &Row) -> u64 {
        let rows = self.tables.entry(table.name.clone()).or_default();
        rows.retain(|other| !table.unique_keys.iter().any(|key| collides(table, key, row, other)));
        rows.push(row.clone());
        1
    }

    fn delete(&mut self, table: &ReplicaTable, row: &Row, most: usize) -> u64 {
        let rows = self.tables.entry(table.shape.name.clone()).or_default();
        let before = rows.len();
        let mut left = most;
        rows.retain(|other| {
            let goes = left > 0 && is_row(table, other, row);
            left -= usize::from(goes);
            !goes
        });
        (before - rows.len()) as u64
    }
}

fn is_row(table: &ReplicaTable, row: &Row, wanted: &Row) -> bool {
    match &table.row_key {
        Some(columns) => {
            columns.iter().all(|&c| equal(&table.shape.columns[c], &row[c], &wanted[c], None))
        }
        None => row == wanted,
    }
}

fn collides(table: &Table, key: &UniqueKey, a: &Row, b: &Row) -> bool {
    key.parts.iter().all(|part| {
        let (a, b) = (&a[part.column], &b[part.column]);
        let column = &table.columns[part.column];
        !a.is_null() && !b.is_null() && equal(column, a, b, part.prefix)
    })
}

/// Equality as a server has it: `general_ci` knows neither case nor these accents, all collations
/// here pad with blanks.
fn equal(column: &Column, a: &Value, b: &Value, prefix: Option<u32>) -> bool {
    let (Value::Bytes(a), Value::Bytes(b)) = (a, b) else { return a == b };
    let text = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).expect("tests use UTF-8");
        let cut: String = text.chars().take(prefix.unwrap_or(u32::MAX) as usize).collect();
        let cut = cut.trim_end_matches(' ').to_owned();
        match column.collation.as_deref() {
            Some("utf8mb4_general_ci") => cut.to_lowercase().replace('ä', "a").replace('é', "e"),
            _ => cut,
        }
    };
    text(a) == text(b)
}

/// What may go wrong at a target.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// One batch in so many is refused before anything of it is applied; 0 for never.
    pub(super) refuse: u32,
    /// One batch in so many is applied and then reported as of unknown fate; 0 for never.
    pub(super) forget: u32,
}

/// Appliers over one store.
#[derive(Debug)]
pub(super) struct MemoryApplier {
    pub(super) store: Arc<Mutex<Store>>,
    pub(super) rng: SmallRng,
    pub(super) faults: Faults,
    /// The setting `multiple-rows`.
    pub(super) multiple_rows: bool,
    /// Counts rows down to zero, then wakes: for ending a run at any moment.
    pub(super) fuse: Arc<Fuse>,
}

/// Burns down with each row applied.
#[derive(Debug, Default)]
pub(super) struct Fuse {
    left: Mutex<Option<u64>>,
    burnt: Notify,
}

impl Fuse {
    /// Burns down after so many rows.
    pub(super) fn after(rows: u64) -> Fuse {
        Fuse { left: Mutex::new(Some(rows)), burnt: Notify::new() }
    }

    fn burn(&self) {
        let mut left = self.left.lock().expect("no panic");
        if let Some(rows) = left.as_mut() {
            *rows = rows.saturating_sub(1);
            if *rows == 0 {
                self.burnt.notify_one();
            }
        }
    }

    /// Waits until it has burnt down.
    pub(super) async fn burnt(&self) {
        self.burnt.notified().await;
    }
}

pub(super) fn broken() -> Error {
    let io = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    Error::Session(SessionError::Statement {
        endpoint: "memory".to_owned(),
        statement: "COMMIT".to_owned(),
        source: Box::new(mysql_async::Error::Io(mysql_async::IoError::Io(io))),
    })
}

impl Applier for MemoryApplier {
    async fn apply(
        &mut self,
        batch: &[RowChange],
        replay: bool,
        timing: &mut Timing,
    ) -> Result<Applied, Failure> {
        let hit = |one_in: u32, rng: &mut SmallRng| one_in > 0 && rng.random_ratio(1, one_in);
        if hit(self.faults.refuse, &mut self.rng) {
            return Err(Failure { error: broken(), fate: Fate::RolledBack });
        }
        let mut applied = Applied::default();
        for step in plan(batch, self.multiple_rows, replay) {
            for _ in 0..self.rng.random_range(0..4) {
                tokio::task::yield_now().await;
            }
            let found = self.store.lock().expect("no panic").execute(step);
            let found = found.map_err(|what| Failure {
                error: Error::Ddl {
                    position: what,
                    source: Box::new(SessionError::Answer {
                        endpoint: "memory".to_owned(),
                        statement: format!("{step:?}"),
                        why: "duplicate".to_owned(),
                    }),
                },
                fate: Fate::RolledBack,
            })?;
            applied.statements += 1;
            if !replay {
                applied.mismatched += step.missing(found);
            }
            self.fuse.burn();
        }
        if hit(self.faults.forget, &mut self.rng) {
            return Err(Failure { error: broken(), fate: Fate::Unknown });
        }
        timing.transaction.record(1);
        Ok(applied)
    }

    async fn recover(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// There is no DDL in these tests.
#[derive(Debug)]
pub(super) struct NoDefiner;

impl Definer for NoDefiner {
    async fn mark(&mut self, _: &[Name]) -> Result<Vec<TableMark>, Error> {
        unreachable!("no DDL")
    }

    async fn define(&mut self, _: &Ddl) -> Result<(), Error> {
        unreachable!("no DDL")
    }

    async fn recover(&mut self) -> Result<(), Error> {
        unreachable!("no DDL")
    }
}

/// Changes written down before. Behind the last the source is idle.
#[derive(Debug)]
pub(super) struct ScriptedChanges {
    pub(super) changes: VecDeque<Change>,
    pub(super) rng: SmallRng,
    pub(super) end: Position,
}

impl ScriptedChanges {
    pub(super) fn new(changes: Vec<Change>, end: Position, seed: u64) -> Self {
        ScriptedChanges { changes: changes.into(), rng: SmallRng::seed_from_u64(seed), end }
    }
}

impl ChangeStream for ScriptedChanges {
    async fn next(&mut self) -> Result<Change, Error> {
        if self.rng.random_ratio(1, 8) {
            tokio::task::yield_now().await;
        }
        match self.changes.pop_front() {
            Some(change) => Ok(change),
            None => {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                Ok(Change::Idle { end: self.end.clone() })
            }
        }
    }

    fn forget_tables(&mut self) {}

    fn byte_count(&self) -> u64 {
        0
    }
}

/// A checkpoint that outlives a run.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryCheckpoints(pub(super) Arc<Mutex<Option<Checkpoint>>>);

impl Checkpoints for MemoryCheckpoints {
    async fn load(&mut self) -> Result<Option<Checkpoint>, checkpoint::Error> {
        Ok(self.0.lock().expect("no panic").clone())
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), checkpoint::Error> {
        *self.0.lock().expect("no panic") = Some(checkpoint.clone());
        Ok(())
    }

    async fn recover(&mut self) -> Result<(), checkpoint::Error> {
        Ok(())
    }
}
