//! A table as the sync unit sees it: its shape with all that is computed once for many rows.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::mysql::binlog::Row;
use crate::mysql::schema::{Table, UniqueKey};
use crate::mysql::session::quote_name;
use crate::pipeline::builtin::sync::cascade::Cascade;
use crate::pipeline::builtin::sync::key::{Fold, Hasher64};

/// A replicated table.
#[derive(Debug)]
pub(super) struct ReplicaTable {
    /// Shape, as the target has it.
    pub(super) shape: Table,
    /// Columns that statements write: all but generated ones.
    pub(super) written: Vec<usize>,
    /// Columns that tell a row from all others; `None` for a table without a key.
    pub(super) row_key: Option<Vec<usize>>,
    /// Columns of any unique key; all columns where one is over an expression.
    pub(super) key_columns: Vec<usize>,
    /// Backquoted name.
    pub(super) quoted: String,
    /// Backquoted column names.
    pub(super) column_names: Vec<String>,
    /// `` `s`.`t` (`a`,`b`) VALUES  ``
    pub(super) insert_head: String,
    /// `` ON DUPLICATE KEY UPDATE `a`=VALUES(`a`),`b`=VALUES(`b`)``
    pub(super) upsert_tail: String,
    /// Changes that the source carries on into other tables without a trace in its binlog.
    pub(super) cascade: Option<Cascade>,
    /// All rows keep their order, because keys cannot tell which ones may change it.
    serial: bool,
    name_hash: u64,
    keys: Vec<Key>,
}

/// A unique key as a source of conflicts.
#[derive(Debug)]
struct Key {
    parts: Vec<(usize, Fold)>,
    /// All rows with a value here count as one: some value cannot be folded.
    coarse: AtomicBool,
}

impl ReplicaTable {
    /// Prepares a table's shape.
    pub(super) fn new(shape: Table) -> ReplicaTable {
        let quoted = shape.quoted();
        let column_names: Vec<String> = shape.columns.iter().map(|c| quote_name(&c.name)).collect();
        let written: Vec<usize> =
            (0..shape.columns.len()).filter(|&i| !shape.columns[i].generated).collect();
        let list: Vec<&str> = written.iter().map(|&i| column_names[i].as_str()).collect();
        let insert_head = format!("{quoted} ({}) VALUES ", list.join(","));
        let same: Vec<String> = list.iter().map(|name| format!("{name}=VALUES({name})")).collect();
        let upsert_tail = format!(" ON DUPLICATE KEY UPDATE {}", same.join(","));
        let row_key = shape.row_key().map(|key| key.parts.iter().map(|part| part.column).collect());
        let key_columns = (0..shape.columns.len())
            .filter(|&column| {
                let mut parts = shape.unique_keys.iter().flat_map(|key| &key.parts);
                !shape.expression_keys.is_empty() || parts.any(|part| part.column == column)
            })
            .collect();
        let keys = shape.unique_keys.iter().map(|key| Key::new(key, &shape)).collect();
        let serial = row_key.is_none() || !shape.expression_keys.is_empty();
        let mut name = Hasher64::new(0);
        name.write(quoted.as_bytes());
        let name_hash = name.finish();
        ReplicaTable {
            written,
            row_key,
            key_columns,
            quoted,
            column_names,
            insert_head,
            upsert_tail,
            cascade: None,
            serial,
            name_hash,
            keys,
            shape,
        }
    }

    /// A hash of what tells the row from all others; `None` for a table without a key. Equal rows
    /// have equal hashes; rows that only a collation takes for equal have different ones.
    pub(super) fn identity(&self, row: &Row) -> Option<u64> {
        let mut hasher = Hasher64::new(self.name_hash);
        for &column in self.row_key.as_ref()? {
            Fold::Exact { bytes: None }.add(&row[column], &mut hasher);
        }
        Some(hasher.finish())
    }

    /// The keys over expressions for which all rows keep their order.
    pub(super) fn expression_keys(&self) -> &[String] {
        &self.shape.expression_keys
    }

    /// Appends the keys of a row image: changes that share none commute. Gives `false` when the row
    /// made a key coarse: the keys of earlier rows are then of no use any more, and these too.
    pub(super) fn add_keys(&self, row: &Row, keys: &mut Vec<u64>) -> bool {
        if self.serial {
            keys.push(self.name_hash);
            return true;
        }
        for (nth, key) in self.keys.iter().enumerate() {
            let seed = self.name_hash.wrapping_add(nth as u64 + 1);
            if key.parts.iter().any(|(column, _)| row[*column].is_null()) {
                continue;
            }
            let mut hasher = Hasher64::new(seed);
            if !key.coarse.load(Ordering::Relaxed) {
                let folded =
                    key.parts.iter().all(|(column, fold)| fold.add(&row[*column], &mut hasher));
                if !folded {
                    key.coarse.store(true, Ordering::Relaxed);
                    return false;
                }
            }
            keys.push(hasher.finish());
        }
        true
    }
}

impl Key {
    fn new(key: &UniqueKey, shape: &Table) -> Key {
        let parts: Vec<(usize, Fold)> = key
            .parts
            .iter()
            .map(|part| (part.column, Fold::of(&shape.columns[part.column], part.prefix)))
            .collect();
        let coarse = parts.iter().any(|(_, fold)| matches!(fold, Fold::Never));
        Key { parts, coarse: AtomicBool::new(coarse) }
    }
}
