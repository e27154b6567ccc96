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

/// Who owns which key.
#[derive(Debug)]
pub(super) struct Conflicts {
    owners: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    workers: usize,
    most: usize,
}

impl Conflicts {
    /// For so many workers, at least one.
    pub(super) fn new(workers: usize) -> Conflicts {
        Conflicts { owners: HashMap::default(), workers, most: MOST_KEYS }
    }

    /// Finds the worker for a row with these keys and makes it the owner of all of them. After
    /// [`Place::Conflict`] and [`Place::Full`] nothing has changed.
    pub(super) fn place(&mut self, keys: &[u64]) -> Place {
        let mut owner = None;
        for key in keys {
            let Some(&worker) = self.owners.get(key) else { continue };
            if owner.is_some_and(|known| known != worker) {
                return Place::Conflict;
            }
            owner = Some(worker);
        }
        if self.owners.len() + keys.len() > self.most && !self.owners.is_empty() {
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
