//! Which statements a batch becomes: one for each row, or with `multiple-rows` one for several rows
//! of one table and kind that follow each other.
//!
//! The forms are DM's (`dm/syncer/dml.go`, `pkg/sqlmodel`), but for three cases in which DM's give
//! another result than row after row does:
//! * rows of a table without a key are never searched together: `DELETE … WHERE (a = 1 AND b = 1)`
//!   takes all equal rows where one is meant;
//! * updates that move rows to other keys become one statement only when no value of a unique key is
//!   left by one of them and taken by another: a server goes through the rows in an order of its own;
//! * such an update sets the key last, and only a key of one column: `UPDATE t SET id = CASE WHEN id =
//!   3 THEN 10 END, v = CASE WHEN id = 3 THEN 7 END` sets `v` to NULL on a server that reads the `id`
//!   it has just set, as MySQL does and TiDB does not.

use std::collections::HashSet;
use std::sync::Arc;

use crate::mysql::binlog::Kind;
use crate::pipeline::builtin::sync::change::{Mode, RowChange};

/// Bytes of rows in one statement at most, about: statements stay below the smallest
/// `max_allowed_packet` that servers come with (16 MiB), even in hexadecimal.
const MOST_BYTES: usize = 4 << 20;

/// A form of statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `INSERT INTO … VALUES (…),(…)`.
    Insert,
    /// `REPLACE INTO … VALUES (…),(…)`.
    Replace,
    /// `INSERT INTO … VALUES (…),(…) ON DUPLICATE KEY UPDATE …`: the rows are there.
    Upsert,
    /// `UPDATE … WHERE … LIMIT 1`.
    Update,
    /// `UPDATE … SET c=CASE WHEN … END WHERE (…) OR (…)`.
    Cases,
    /// `DELETE FROM … WHERE … LIMIT 1`.
    Delete,
    /// `DELETE FROM … WHERE (…) OR (…)`.
    Deletes,
}

/// A statement to execute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) form: Form,
    /// Its rows, all of one table; one where the form allows no more.
    pub(super) rows: &'a [RowChange],
}

impl Step<'_> {
    /// Rows of this statement that the target must have, when it found only so many: an update or
    /// delete that is no repetition.
    pub(super) fn missing(&self, found: u64) -> u64 {
        if matches!(self.form, Form::Insert | Form::Replace | Form::Upsert) {
            return 0;
        }
        let expected = self.rows.iter().filter(|row| row.mode == Mode::Plain).count() as u64;
        expected.saturating_sub(found)
    }
}

/// The statements for a batch, in order. `replay`: all of it may be on the target already.
pub(super) fn plan(batch: &[RowChange], multiple_rows: bool, replay: bool) -> Vec<Step<'_>> {
    let mut steps = Vec::with_capacity(batch.len());
    let mut rest = batch;
    while let Some(first) = rest.first() {
        let Some(form) = form(first, multiple_rows, replay) else {
            let (row, behind) = rest.split_at(1);
            if first.table.row_key.is_none() || !first.keeps_keys() {
                steps.push(Step { form: Form::Delete, rows: row });
            }
            steps.push(Step { form: Form::Replace, rows: row });
            rest = behind;
            continue;
        };
        let joined = if multiple_rows { joined(rest, form, replay) } else { 1 };
        let (rows, behind) = rest.split_at(joined);
        steps.push(Step { form, rows });
        rest = behind;
    }
    steps
}

/// The form for a row; `None` for an update that is to be written as DELETE and REPLACE.
fn form(row: &RowChange, multiple_rows: bool, replay: bool) -> Option<Form> {
    let mode = if replay { Mode::Replay } else { row.mode };
    let key_columns = row.table.row_key.as_ref().map(Vec::len);
    Some(match (row.kind(), key_columns) {
        (Kind::Insert, _) if mode == Mode::Plain => Form::Insert,
        (Kind::Insert, _) => Form::Replace,
        (Kind::Delete, Some(_)) if multiple_rows => Form::Deletes,
        (Kind::Delete, _) => Form::Delete,
        // Executed a second time it finds nothing, where DELETE and REPLACE would add a row.
        (Kind::Update, None) if mode == Mode::Replay => Form::Update,
        (Kind::Update, _) if mode != Mode::Plain => return None,
        (Kind::Update, Some(_)) if multiple_rows && row.keeps_identity() => Form::Upsert,
        (Kind::Update, Some(1)) if multiple_rows => Form::Cases,
        (Kind::Update, _) => Form::Update,
    })
}

/// How many of the first rows one statement of this form can take.
fn joined(rows: &[RowChange], form: Form, replay: bool) -> usize {
    if matches!(form, Form::Update | Form::Delete) {
        return 1;
    }
    let table = &rows[0].table;
    let (mut bytes, mut touched) = (0, HashSet::new());
    let fits = |row: &&RowChange| {
        bytes += row.size();
        let alike = Arc::ptr_eq(&row.table, table) && self::form(row, true, replay) == Some(form);
        alike && bytes <= MOST_BYTES && (form != Form::Cases || stays_apart(row, &mut touched))
    };
    rows.iter().take_while(fits).count().max(1)
}

/// Whether a row shares no value of a unique key with those before.
fn stays_apart(row: &RowChange, touched: &mut HashSet<u64>) -> bool {
    let mut keys = Vec::new();
    let told = row.images().all(|image| row.table.add_keys(image, &mut keys));
    let apart = told && keys.iter().all(|key| !touched.contains(key));
    touched.extend(keys);
    apart
}
