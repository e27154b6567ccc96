//! Rows that wait for room in the workers' queues, where changes of one row become one change.
//!
//! As in DM a row waits only under back-pressure, so only then is anything saved. What two changes of
//! a row are together is DM's table (`dm/syncer/compactor.go`):
//!
//! | first, second | together |
//! |---|---|
//! | INSERT, UPDATE | INSERT of the new values |
//! | UPDATE, UPDATE | UPDATE from the first to the last values |
//! | INSERT or UPDATE, DELETE | DELETE |
//! | DELETE, INSERT | INSERT that replaces |
//!
//! DM joins them whatever stands between. With `u` unique, `(2, u = 20) → 99`, `(3, u = 30) → 20`,
//! `(2, u = 99) → 30` lose their middle there, and two rows meet on one value. Here the second change
//! is moved ahead to the first only across changes that share no unique value with either.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::pipeline::builtin::sync::change::{Mode, RowChange};

/// A row with the keys it touches.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) change: RowChange,
    /// Keys of the row as the target has it before.
    base: Vec<u64>,
    /// Keys of the row as it is afterwards.
    now: Vec<u64>,
    /// Keys that it had between changes which are one now.
    passed: Vec<u64>,
    /// Changes that it was made of.
    entries: usize,
}

impl Waiting {
    /// All keys whose rows must keep their order with this one.
    pub(super) fn keys(&self, out: &mut Vec<u64>) {
        out.clear();
        out.extend(self.base.iter().chain(&self.now));
    }
}

/// First in, first out, but for changes that join one before them.
#[derive(Debug)]
pub(super) struct Compactor {
    rows: VecDeque<Waiting>,
    /// Number of the first row; the others count on from there.
    first: u64,
    /// The last change of each row that still waits.
    latest: HashMap<u64, u64>,
    /// The last that touches a key.
    touched: HashMap<u64, u64>,
    /// Changes held, those that joined others included.
    held: usize,
    capacity: usize,
}

impl Compactor {
    /// Holds so many changes, at least one.
    pub(super) fn new(capacity: usize) -> Compactor {
        Compactor {
            rows: VecDeque::new(),
            first: 0,
            latest: HashMap::new(),
            touched: HashMap::new(),
            held: 0,
            capacity: capacity.max(1),
        }
    }

    /// Whether it holds more than it should.
    pub(super) fn is_full(&self) -> bool {
        self.held > self.capacity
    }

    /// The row that is next.
    pub(super) fn front(&self) -> Option<&Waiting> {
        self.rows.front()
    }

    /// Takes a change that is no update of what tells the row from others, with the keys of its
    /// images. Gives `true` when it joined one before it.
    pub(super) fn push(&mut self, change: RowChange, base: Vec<u64>, now: Vec<u64>) -> bool {
        self.held += 1;
        let identity = change.images().next().and_then(|row| change.table.identity(row));
        let earlier = identity.and_then(|identity| self.latest.get(&identity).copied());
        if let Some(number) = earlier
            && self.may_join(number, &change, &now)
        {
            self.touched.extend(now.iter().map(|&key| (key, number)));
            let waiting = &mut self.rows[(number - self.first) as usize];
            if waiting.change.before.is_none() && change.after.is_none() {
                // The DELETE searches for a row that the first alone would not touch before.
                waiting.base.extend(base);
            }
            waiting.passed.append(&mut waiting.now);
            waiting.now = now;
            waiting.entries += 1;
            join(&mut waiting.change, change);
            return true;
        }
        let number = self.first + self.rows.len() as u64;
        self.touched.extend(base.iter().chain(&now).map(|&key| (key, number)));
        self.latest.extend(identity.map(|identity| (identity, number)));
        self.rows.push_back(Waiting { change, base, now, passed: Vec::new(), entries: 1 });
        false
    }

    /// Whether a change may be moved ahead to an earlier one of the same row.
    fn may_join(&self, number: u64, change: &RowChange, now: &[u64]) -> bool {
        let Some(waiting) = self.rows.get((number - self.first) as usize) else { return false };
        let untouched = |key: &u64| self.touched.get(key).is_none_or(|&last| last <= number);
        are_pair(&waiting.change, change)
            && waiting.base.iter().chain(&waiting.now).chain(now).all(untouched)
    }

    /// Gives the row that is next away.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.rows.pop_front()?;
        let number = self.first;
        self.first += 1;
        self.held -= waiting.entries;
        for key in waiting.base.iter().chain(&waiting.now).chain(&waiting.passed) {
            if self.touched.get(key) == Some(&number) {
                self.touched.remove(key);
            }
        }
        let row = waiting.change.images().next();
        if let Some(identity) = row.and_then(|row| waiting.change.table.identity(row))
            && self.latest.get(&identity) == Some(&number)
        {
            self.latest.remove(&identity);
        }
        Some(waiting)
    }
}

/// Whether the second begins where the first ends: hashes of other rows may be equal.
fn are_pair(first: &RowChange, second: &RowChange) -> bool {
    let (table, key) = (&first.table, first.table.row_key.as_deref().unwrap_or_default());
    if !Arc::ptr_eq(table, &second.table) {
        return false;
    }
    match (&first.before, &first.after, &second.before, &second.after) {
        (_, Some(between), Some(before), _) => between == before,
        (Some(gone), None, None, Some(back)) => key.iter().all(|&c| gone[c] == back[c]),
        _ => false,
    }
}

/// Makes the first what both are together.
fn join(first: &mut RowChange, second: RowChange) {
    let inserted = first.before.is_none();
    let deleted = first.after.is_none();
    first.mode = first.mode.max(second.mode);
    if deleted || (inserted && second.after.is_none()) {
        // The row may be there or not: no plain INSERT, and a DELETE that finds nothing is none
        // that misses its row.
        first.mode = first.mode.max(Mode::Safe);
    }
    if deleted {
        first.before = None;
    } else if inserted && second.after.is_none() {
        first.before = second.before;
    }
    first.after = second.after;
    first.weight += second.weight;
    first.absorbed.push(second.ticket);
    first.absorbed.extend(second.absorbed);
    first.room = second.room;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::binlog::{Kind, Row};
    use crate::mysql::value::Value;
    use crate::pipeline::builtin::sync::memory::table;
    use crate::pipeline::builtin::sync::table::ReplicaTable;

    fn unique() -> Arc<ReplicaTable> {
        Arc::new(ReplicaTable::new(table(
            "t",
            &["id int", "u int?"],
            &[("PRIMARY", &[(0, None)]), ("u", &[(1, None)])],
        )))
    }

    fn row(id: i64, u: i64) -> Option<Row> {
        Some(vec![Value::Int(id), Value::Int(u)])
    }

    /// What changes of one table become: kind, images, mode, weight.
    fn compacted(changes: &[(Option<Row>, Option<Row>)]) -> Vec<RowChange> {
        let table = unique();
        let mut compactor = Compactor::new(100);
        for (ticket, (before, after)) in changes.iter().enumerate() {
            let mut change = RowChange::new(Arc::clone(&table), before.clone(), after.clone());
            change.ticket = ticket as u64;
            let keys = |row: &Option<Row>| {
                let mut keys = Vec::new();
                row.iter().for_each(|row| assert!(table.add_keys(row, &mut keys)));
                keys
            };
            compactor.push(change, keys(before), keys(after));
        }
        let out = std::iter::from_fn(|| compactor.pop()).map(|waiting| waiting.change).collect();
        assert!(compactor.touched.is_empty() && compactor.latest.is_empty());
        assert_eq!(compactor.held, 0);
        out
    }

    #[test]
    fn two_changes_of_a_row_become_one_by_the_table() {
        let (a, b, c) = (row(1, 1), row(1, 2), row(1, 3));
        for (changes, kind, mode, images) in [
            (
                [(None, a.clone()), (a.clone(), b.clone())],
                Kind::Insert,
                Mode::Plain,
                (None, b.clone()),
            ),
            (
                [(a.clone(), b.clone()), (b.clone(), c.clone())],
                Kind::Update,
                Mode::Plain,
                (a.clone(), c),
            ),
            ([(None, a.clone()), (a.clone(), None)], Kind::Delete, Mode::Safe, (a.clone(), None)),
            (
                [(a.clone(), b.clone()), (b.clone(), None)],
                Kind::Delete,
                Mode::Plain,
                (a.clone(), None),
            ),
            ([(a, None), (None, b.clone())], Kind::Insert, Mode::Safe, (None, b)),
        ] {
            let out = compacted(&changes);
            assert_eq!(out.len(), 1);
            let change = &out[0];
            assert_eq!((change.kind(), change.mode), (kind, mode), "{changes:?}");
            assert_eq!((change.before.clone(), change.after.clone()), images);
            assert_eq!((change.weight, change.ticket, &change.absorbed), (2, 0, &vec![1]));
        }
    }

    #[test]
    fn values_that_two_rows_swap_keep_all_their_changes() {
        let changes =
            [(row(2, 20), row(2, 99)), (row(3, 30), row(3, 20)), (row(2, 99), row(2, 30))];
        let out = compacted(&changes);
        let images: Vec<_> = out.into_iter().map(|c| (c.before, c.after)).collect();
        assert_eq!(images, changes);
    }

    #[test]
    fn others_between_do_not_matter_where_they_share_nothing() {
        let out = compacted(&[
            (row(1, 1), row(1, 2)),
            (row(5, 5), row(5, 6)),
            (row(1, 2), row(1, 3)),
            (row(5, 6), None),
        ]);
        let images: Vec<_> = out.into_iter().map(|c| (c.before, c.after)).collect();
        assert_eq!(images, [(row(1, 1), row(1, 3)), (row(5, 5), None)]);
    }

    #[test]
    fn a_value_that_was_left_stays_among_the_keys() {
        // The target still has u = 5 until the first row is written, so (2, 5) must wait for it.
        let table = unique();
        let mut compactor = Compactor::new(1);
        let push = |compactor: &mut Compactor, before: Option<Row>, after: Option<Row>| {
            let keys = |row: &Option<Row>| {
                let mut keys = Vec::new();
                row.iter().for_each(|row| assert!(table.add_keys(row, &mut keys)));
                keys
            };
            let (base, now) = (keys(&before), keys(&after));
            compactor.push(RowChange::new(Arc::clone(&table), before, after), base, now)
        };
        assert!(!push(&mut compactor, row(1, 5), None));
        assert!(push(&mut compactor, None, row(1, 6)));
        assert!(push(&mut compactor, row(1, 6), None));
        assert!(compactor.is_full());
        let (mut keys, mut five) = (Vec::new(), Vec::new());
        compactor.front().expect("one").keys(&mut keys);
        assert!(table.add_keys(&row(9, 5).expect("a row"), &mut five));
        assert!(keys.contains(&five[1]));

        assert!(!push(&mut compactor, None, row(7, 7)));
        assert!(push(&mut compactor, row(7, 7), None));
        compactor.pop();
        compactor.front().expect("a DELETE").keys(&mut keys);
        assert_eq!(keys.len(), 2, "nobody may insert the row again before");
    }
}
