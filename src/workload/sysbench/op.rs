//! What each op does: a pure function of seed and index.

use super::super::Error;
use super::super::draws::{Draws, Stream};
use super::super::keys::Keys;
use super::super::settings::{Script, Sysbench};
use super::table::quoted;
use super::text::Text;
use crate::mysql::{Endpoint, Session, owner};

/// A row's place. Tables count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct Key {
    pub(in super::super) table: u32,
    pub(in super::super) id: u64,
}

/// A row to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct Row {
    pub(in super::super) key: Key,
    pub(in super::super) k: u64,
    pub(in super::super) text: Text,
}

/// One op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum Op {
    /// `SELECT c … WHERE id = ?`
    PointSelect(Key),
    /// `INSERT`
    Insert(Row),
    /// `UPDATE … SET k = k + 1 WHERE id = ?`
    UpdateIndex(Key),
    /// Two UPDATEs, then DELETE and INSERT of one id, in a transaction.
    WriteOnly {
        /// Whose `k` grows.
        index: Key,
        /// Whose `c` changes …
        non_index: Key,
        /// … to the `c` of this.
        text: Text,
        /// Which row is replaced.
        replaced: Row,
    },
}

/// A script over prepared tables.
#[derive(Debug)]
pub(in super::super) struct Oltp {
    pub(super) endpoint: Endpoint,
    pub(super) schema: String,
    pub(super) script: Script,
    pub(super) tables: u32,
    pub(super) keys: Keys,
    pub(super) first_free_id: u64,
}

impl Oltp {
    /// Looks whether the tables fit and where their ids end: the first id that `oltp_insert` gives
    /// is the same in all tables, one above the highest in any, so that a second drive on the same
    /// tables goes on where the first ended.
    pub(in super::super) async fn open(
        endpoint: &Endpoint,
        schema: &str,
        settings: &Sysbench,
    ) -> Result<Oltp, Error> {
        check(settings)?;
        let mut session = Session::connect(endpoint).await?;
        // Ops write: only into what dmbench made. A schema that is missing is told by its tables.
        if owner::is_ours(&mut session, schema).await? == Some(false) {
            let (schema, endpoint) = (schema.to_owned(), endpoint.to_string());
            return Err(owner::Error::NotOurs { schema, endpoint }.into());
        }
        let mut first_free_id = 1;
        for table in 1..=settings.tables {
            let table = quoted(schema, table);
            let highest: u64 =
                session.value(&format!("SELECT MAX(id) FROM {table}")).await?.unwrap_or(0);
            if highest < settings.table_size {
                return Err(Error::NotPrepared { table, highest, expected: settings.table_size });
            }
            first_free_id = first_free_id.max(highest + 1);
        }
        session.close().await;
        Ok(Oltp {
            endpoint: endpoint.clone(),
            schema: schema.to_owned(),
            script: settings.script,
            tables: settings.tables,
            keys: Keys::new(settings.rand_type, settings.table_size),
            first_free_id,
        })
    }

    /// For tests of what does not need a server.
    #[cfg(test)]
    pub(in super::super) fn without_server(script: Script, tables: u32, rows: u64) -> Oltp {
        Oltp {
            endpoint: Endpoint::tcp("127.0.0.1", 1, "nobody", crate::mysql::Secret::default()),
            schema: "s".into(),
            script,
            tables,
            keys: Keys::new(super::super::settings::RandType::Zipfian, rows),
            first_free_id: rows + 1,
        }
    }

    /// The op of an index.
    pub(in super::super) fn op(&self, seed: u64, index: u64) -> Op {
        let mut draws = Draws::new(seed, Stream::Op, index);
        match self.script {
            Script::OltpPointSelect => Op::PointSelect(self.key(&mut draws)),
            Script::OltpUpdateIndex => Op::UpdateIndex(self.key(&mut draws)),
            Script::OltpInsert => Op::Insert(Row {
                key: self.free_key(seed, index),
                k: self.keys.draw(&mut draws),
                text: Text(draws.fork()),
            }),
            Script::OltpWriteOnly => Op::WriteOnly {
                index: self.key(&mut draws),
                non_index: self.key(&mut draws),
                text: Text(draws.fork()),
                replaced: Row {
                    key: self.key(&mut draws),
                    k: self.keys.draw(&mut draws),
                    text: Text(draws.fork()),
                },
            },
        }
    }

    /// A row that is there from the start. It stays there: no script takes a row away without
    /// putting it back in the same transaction.
    fn key(&self, draws: &mut Draws) -> Key {
        let table = 1 + draws.below(u64::from(self.tables)) as u32;
        Key { table, id: self.keys.draw(draws) }
    }

    /// The key that the insert of an index gives: with three tables, ops 0–2 insert the first free
    /// id into each of them, beginning with a random one, ops 3–5 the second, and so on.
    fn free_key(&self, seed: u64, index: u64) -> Key {
        let tables = u64::from(self.tables);
        let (round, place) = (index / tables, index % tables);
        let first = Draws::new(seed, Stream::Round, round).below(tables);
        Key { table: 1 + ((first + place) % tables) as u32, id: self.first_free_id + round }
    }
}

/// Refuses settings that no server could hold.
pub(in super::super) fn check(settings: &Sysbench) -> Result<(), Error> {
    let why = if settings.tables == 0 {
        "tables must be at least 1"
    } else if settings.tables > 10_000 {
        "tables must be at most 10000"
    } else if settings.table_size == 0 {
        "table-size must be at least 1"
    } else if settings.table_size > 2_000_000_000 {
        "table-size must be at most 2000000000, ids are INT"
    } else {
        return Ok(());
    };
    Err(Error::Settings { why })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn oltp(script: Script, tables: u32) -> Oltp {
        Oltp::without_server(script, tables, 1_000)
    }

    proptest! {
        #[test]
        fn inserts_fill_every_table_without_gap_or_twice(tables in 1u32..9, rounds in 1u64..50, seed: u64) {
            let oltp = oltp(Script::OltpInsert, tables);
            let count = rounds * u64::from(tables);
            let keys: HashSet<Key> = (0..count).map(|i| oltp.free_key(seed, i)).collect();
            let wanted: HashSet<Key> = (1..=tables)
                .flat_map(|table| (1_001..1_001 + rounds).map(move |id| Key { table, id }))
                .collect();
            prop_assert_eq!(keys, wanted);
        }

        #[test]
        fn seed_and_index_decide_and_nothing_else(seed: u64, index in 0u64..1 << 40) {
            for script in [Script::OltpWriteOnly, Script::OltpInsert, Script::OltpUpdateIndex] {
                let (one, other) = (oltp(script, 4), oltp(script, 4));
                prop_assert_eq!(one.op(seed, index), other.op(seed, index));
            }
            for script in [Script::OltpWriteOnly, Script::OltpInsert] {
                let (one, other) = (oltp(script, 4), oltp(script, 4));
                prop_assert_ne!(one.op(seed, index), other.op(seed ^ 1, index));
            }
        }

        #[test]
        fn other_keys_are_live_ones(seed: u64, index: u64) {
            let Op::WriteOnly { index, non_index, replaced, .. } =
                oltp(Script::OltpWriteOnly, 4).op(seed, index)
            else {
                unreachable!("the script decides")
            };
            for key in [index, non_index, replaced.key] {
                prop_assert!((1..=4).contains(&key.table) && (1..=1_000).contains(&key.id));
            }
        }
    }
}
