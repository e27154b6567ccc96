//! Which worker gets a row, so that rows sharing a key keep their order.
//!
//! A key belongs to the worker that got the last row with it. A row whose keys all belong to one
//! worker (or to nobody yet) goes there. When two workers own its keys, no queue can keep its order:
//! that is a conflict, and everything under way must finish first. Example with unique keys `id` and
//! `u`: worker 0 has `INSERT (1, 'a')`, worker 1 has `INSERT (2, 'b')`; then `UPDATE (2, 'b') →
//! (2, 'a')` touches `u = 'a'` of worker 0 and `id = 2` of worker 1.
//!
//! DM calls this causality. It compares relations, not workers, so with few workers it sees
//! conflicts where one queue keeps the order; here those cost nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys remembered before everything is forgotten at a barrier, so that memory stays bounded
/// (about 16 bytes each) however long the time between checkpoints.
const MOST_KEYS: usize = 1 << 20;

/// Where a row goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// To this worker.
    Worker(usize),
    /// Nowhere before a barrier: two workers own its keys.
    Conflict,
    /// Nowhere before a barrier: too many keys are remembered.
    Full,
}

type Owners = HashMap<u64, u32, BuildHasherDefault<Identity>>;

/// Who owns which key.
#[derive(Debug)]
pub(super) struct Conflicts {
    owners: Owners,
    /// Those of before the checkpoint that is waited for.
    older: Owners,
    workers: usize,
    most: usize,
}

impl Conflicts {
    /// For so many workers, at least one.
    pub(super) fn new(workers: usize) -> Conflicts {
        let (owners, older) = (HashMap::default(), HashMap::default());
        Conflicts { owners, older, workers, most: MOST_KEYS }
    }

    /// Finds the worker for a row with these keys and makes it the owner of all of them. After
    /// [`Place::Conflict`] and [`Place::Full`] nothing has changed.
    pub(super) fn place(&mut self, keys: &[u64]) -> Place {
        let mut owner = None;
        for key in keys {
            let known = self.owners.get(key).or_else(|| self.older.get(key));
            let Some(&worker) = known else { continue };
            if owner.is_some_and(|known| known != worker) {
                return Place::Conflict;
            }
            owner = Some(worker);
        }
        let known = self.owners.len() + self.older.len();
        if known + keys.len() > self.most && known > 0 {
            return Place::Full;
        }
        let worker = owner.unwrap_or_else(|| {
            let first = keys.first().copied().unwrap_or_default();
            ((first >> 32) as usize % self.workers) as u32
        });
        self.owners.extend(keys.iter().map(|&key| (key, worker)));
        Place::Worker(worker as usize)
    }

    /// Forgets all keys: after a barrier nothing is under way.
    pub(super) fn clear(&mut self) {
        self.owners.clear();
        self.older.clear();
    }

    /// Begins to tell keys by their age: a checkpoint here is waited for. Only when none is.
    pub(super) fn rotate(&mut self) {
        self.older.extend(self.owners.drain());
    }

    /// Forgets the keys of before [`Conflicts::rotate`]: none of those rows is under way any more.
    pub(super) fn forget_older(&mut self) {
        self.older.clear();
    }
}

/// Keys are hashes already.
#[derive(Debug, Default, Clone, Copy)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 << 8) | u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::binlog::Row;
    use crate::mysql::value::Value;
    use crate::pipeline::builtin::sync::memory::table;
    use crate::pipeline::builtin::sync::table::ReplicaTable;

    /// `t (id PRIMARY KEY, u UNIQUE, name UNIQUE)`.
    fn several() -> ReplicaTable {
        ReplicaTable::new(table(
            "t",
            &["id int", "u int?", "name varchar general_ci?"],
            &[("PRIMARY", &[(0, None)]), ("name", &[(2, None)]), ("u", &[(1, None)])],
        ))
    }

    fn row(id: i64, u: Option<i64>, name: Option<&str>) -> Row {
        vec![
            Value::Int(id),
            u.map_or(Value::Null, Value::Int),
            name.map_or(Value::Null, |name| Value::Bytes(name.as_bytes().into())),
        ]
    }

    fn keys(table: &ReplicaTable, images: &[&Row]) -> Vec<u64> {
        let mut keys = Vec::new();
        for image in images {
            assert!(table.add_keys(image, &mut keys), "{image:?} can be folded");
        }
        keys
    }

    #[test]
    fn rows_that_share_a_key_go_to_one_worker() {
        let table = several();
        let mut conflicts = Conflicts::new(16);
        let insert = keys(&table, &[&row(1, Some(5), None)]);
        let Place::Worker(worker) = conflicts.place(&insert) else { panic!("no conflict yet") };
        // The update frees u = 5 and takes u = 6; whoever takes either comes behind it.
        let update = keys(&table, &[&row(1, Some(5), None), &row(1, Some(6), None)]);
        assert_eq!(conflicts.place(&update), Place::Worker(worker));
        for next in [row(9, Some(5), None), row(10, Some(6), None)] {
            assert_eq!(conflicts.place(&keys(&table, &[&next])), Place::Worker(worker));
        }
    }

    #[test]
    fn a_row_between_two_workers_is_a_conflict_until_a_barrier() {
        let table = several();
        let mut conflicts = Conflicts::new(16);
        let first = conflicts.place(&keys(&table, &[&row(1, Some(1), None)]));
        let apart = (2..100)
            .find(|&id| conflicts.place(&keys(&table, &[&row(id, Some(id), None)])) != first);
        let id = apart.expect("sixteen workers get something");
        let update = keys(&table, &[&row(id, Some(id), None), &row(id, Some(1), None)]);
        assert_eq!(conflicts.place(&update), Place::Conflict);
        conflicts.clear();
        assert!(matches!(conflicts.place(&update), Place::Worker(_)));
    }

    #[test]
    fn one_worker_has_no_conflicts() {
        let table = several();
        let mut conflicts = Conflicts::new(1);
        for id in 1..50 {
            let images = [&row(id, Some(id), None), &row(id, Some(id + 1), None)];
            assert_eq!(conflicts.place(&keys(&table, &images)), Place::Worker(0));
        }
    }

    #[test]
    fn null_is_no_key_and_equal_names_are_one() {
        let table = several();
        let key_count = |row: Row| keys(&table, &[&row]).len();
        assert_eq!(key_count(row(1, None, None)), 1);
        assert_eq!(key_count(row(1, Some(1), None)), 2);
        let name = |text: &str| keys(&table, &[&row(1, None, Some(text))]);
        assert_eq!(name("Anna"), name("aNNA  "));
        assert_ne!(name("Anna"), name("Ann"));
        // The same value under another key is another key.
        let (id, u) =
            (keys(&table, &[&row(7, None, None)]), keys(&table, &[&row(1, Some(7), None)]));
        assert!(!u.contains(&id[0]));
    }

    #[test]
    fn text_that_cannot_be_folded_makes_its_key_coarse() {
        let table = several();
        let mut some = Vec::new();
        assert!(!table.add_keys(&row(1, None, Some("Änne")), &mut some), "a barrier is due");
        let umlaut = keys(&table, &[&row(1, None, Some("Änne"))]);
        let plain = keys(&table, &[&row(2, None, Some("zoe"))]);
        assert_eq!(umlaut[1], plain[1], "all names are one key now");
        assert_eq!(keys(&table, &[&row(3, None, None)]).len(), 1, "NULL still is none");
    }

    #[test]
    fn a_table_without_a_key_is_one_queue() {
        for keys_of in [&[][..], &[("u", &[(1usize, None)][..])][..]] {
            let table = ReplicaTable::new(table("t", &["a int", "u int?"], keys_of));
            let (first, second) =
                (vec![Value::Int(1), Value::Null], vec![Value::Int(2), Value::Int(3)]);
            assert_eq!(keys(&table, &[&first]), keys(&table, &[&second]));
        }
    }

    #[test]
    fn keys_are_forgotten_with_the_checkpoint_behind_them_unless_used_again() {
        let mut conflicts = Conflicts::new(8);
        for key in [1 << 32, 2 << 32] {
            assert_eq!(conflicts.place(&[key]), Place::Worker((key >> 32) as usize));
        }
        conflicts.rotate();
        // Both are known still; the first is used again together with a new one.
        assert_eq!(conflicts.place(&[1 << 32, 2 << 32]), Place::Conflict);
        assert_eq!(conflicts.place(&[1 << 32, 5 << 32]), Place::Worker(1));
        conflicts.forget_older();
        assert_eq!(conflicts.place(&[5 << 32, 2 << 32]), Place::Worker(1));
    }

    #[test]
    fn memory_is_bounded_by_a_barrier() {
        let mut conflicts = Conflicts { most: 4, ..Conflicts::new(2) };
        for key in 0..4 {
            assert!(matches!(conflicts.place(&[key << 40]), Place::Worker(_)));
        }
        assert_eq!(conflicts.place(&[9 << 40]), Place::Full);
        conflicts.clear();
        assert!(matches!(conflicts.place(&[9 << 40, 1, 2, 3, 4, 5]), Place::Worker(_)));
    }
}
