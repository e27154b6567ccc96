//! What ops changed, as the server confirmed it: never what was intended.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// The effect of one op or the sum of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Effect {
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Rows read.
    pub read: u64,
    /// Statements the server carried out, BEGIN and COMMIT included.
    pub statements: u64,
    /// Bytes of column values in the changes: 4 for an integer, the length of a text; a deleted row
    /// counts none.
    pub bytes: u64,
}

impl Effect {
    /// Rows inserted, updated and deleted.
    pub fn row_changes(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }
}

impl AddAssign for Effect {
    fn add_assign(&mut self, other: Effect) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.read += other.read;
        self.statements += other.statements;
        self.bytes += other.bytes;
    }
}
