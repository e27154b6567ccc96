//! Carrying ops out over the binary protocol with prepared statements.

use super::super::Error;
use super::super::effect::Effect;
use super::super::keys::Keys;
use super::super::op::{Failure, Fate, Workload};
use super::op::{Key, Oltp, Op, Row};
use super::table::{quoted, seeded};
use super::text::{C_LEN, PAD_LEN};
use crate::error::ErrorClass;
use crate::mysql::raw::{Answer, Parameter, Prepared, Raw, cells};
use crate::mysql::session::{Error as SessionError, LOST_CODES, TRANSIENT_CODES};

/// Bytes of an INT.
const INT_LEN: u64 = 4;
const ROW_LEN: u64 = 2 * INT_LEN + (C_LEN + PAD_LEN) as u64;

/// What a whole `oltp_write_only` changes.
const WRITTEN: Effect = Effect {
    inserted: 1,
    updated: 2,
    deleted: 1,
    read: 0,
    statements: 6,
    bytes: ROW_LEN + INT_LEN + C_LEN as u64,
};

const DUPLICATE_KEY: u16 = 1062;

/// The prepared statements of a script, for one table each.
#[derive(Debug, Clone, Copy)]
enum Verb {
    Select,
    Insert,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
}

const VERBS: usize = 5;

/// A connection and its prepared statements, made at their first use.
#[derive(Debug)]
pub(in super::super) struct Client {
    raw: Raw,
    schema: String,
    statements: Vec<Option<Prepared>>,
}

impl Workload for Oltp {
    type Op = Op;
    type Client = Client;

    fn pick(&self, seed: u64, index: u64) -> Op {
        self.op(seed, index)
    }

    fn row_changes(&self, _: &Op) -> u64 {
        self.script.row_changes()
    }

    async fn connect(&self) -> Result<Client, SessionError> {
        let raw = Raw::connect(&self.endpoint).await?;
        let statements = vec![None; self.tables as usize * VERBS];
        Ok(Client { raw, schema: self.schema.clone(), statements })
    }

    async fn perform(&self, client: &mut Client, op: &Op) -> Result<Effect, Failure> {
        match op {
            Op::PointSelect(key) => client.select(*key).await,
            Op::Insert(row) => client.insert(row, true).await.map_err(|f| taken(f, client, row)),
            Op::UpdateIndex(key) => client.update_index(*key, true).await,
            Op::WriteOnly { .. } => match client.write_only(op).await {
                Err(Failure::Refused { code }) => {
                    // A deadlock has rolled back already, a lock wait has not.
                    client.text("ROLLBACK", false).await?;
                    Err(Failure::Refused { code })
                }
                other => other,
            },
        }
    }

    async fn settle(&self, seed: u64, client: &mut Client, op: &Op) -> Result<Fate, Failure> {
        match op {
            // A read changes nothing, it never needs settling.
            Op::PointSelect(_) => Ok(Fate::NotCommitted),
            // Adding 1 leaves no trace of who did it.
            Op::UpdateIndex(_) => Ok(Fate::Unknown),
            Op::Insert(row) => client.settle_insert(row).await,
            Op::WriteOnly { .. } => client.settle_write_only(seed, &self.keys, op).await,
        }
    }

    async fn close(&self, client: Client) {
        client.raw.close().await;
    }
}

impl Client {
    async fn select(&mut self, key: Key) -> Result<Effect, Failure> {
        let parameters = [Parameter::Number(key.id)];
        let read = self.exec(Verb::Select, key.table, &parameters, false).await?.rows;
        Ok(Effect { read, statements: 1, ..Effect::default() })
    }

    async fn insert(&mut self, row: &Row, committing: bool) -> Result<Effect, Failure> {
        let parameters = [
            Parameter::Number(row.key.id),
            Parameter::Number(row.k),
            Parameter::Bytes(&row.text.c()),
            Parameter::Bytes(&row.text.pad()),
        ];
        let answer = self.exec(Verb::Insert, row.key.table, &parameters, committing).await?;
        let inserted = answer.affected;
        Ok(Effect { inserted, statements: 1, bytes: inserted * ROW_LEN, ..Effect::default() })
    }

    async fn update_index(&mut self, key: Key, committing: bool) -> Result<Effect, Failure> {
        let parameters = [Parameter::Number(key.id)];
        let answer = self.exec(Verb::UpdateIndex, key.table, &parameters, committing).await?;
        let updated = answer.affected;
        Ok(Effect { updated, statements: 1, bytes: updated * INT_LEN, ..Effect::default() })
    }

    async fn write_only(&mut self, op: &Op) -> Result<Effect, Failure> {
        let Op::WriteOnly { index, non_index, text, replaced } = op else {
            unreachable!("called for this kind of op only")
        };
        self.text("BEGIN", false).await?;
        let mut effect = self.update_index(*index, false).await?;
        let (c, id) = (text.c(), replaced.key.id);
        let parameters = [Parameter::Bytes(&c), Parameter::Number(non_index.id)];
        let answer = self.exec(Verb::UpdateNonIndex, non_index.table, &parameters, false).await?;
        let updated = answer.affected;
        let parameters = [Parameter::Number(id)];
        let answer = self.exec(Verb::Delete, replaced.key.table, &parameters, false).await?;
        let deleted = answer.affected;
        effect += Effect { updated, deleted, bytes: updated * C_LEN as u64, ..Effect::default() };
        effect += self.insert(replaced, false).await?;
        self.text("COMMIT", true).await?;
        effect.statements = 6;
        Ok(effect)
    }

    /// Inserts again: that cannot happen twice, since the id is the op's own. The first try may
    /// still be on its way to the server; whichever comes second finds the id taken.
    async fn settle_insert(&mut self, row: &Row) -> Result<Fate, Failure> {
        match self.insert(row, true).await {
            Ok(effect) => Ok(Fate::Committed(effect)),
            Err(Failure::Fatal(error)) if is_duplicate(&error) => {
                let table = quoted(&self.schema, row.key.table);
                let id = row.key.id;
                let sql = format!("SELECT c, pad FROM {table} WHERE id = {id} FOR UPDATE");
                let found = self.witness(&sql).await?;
                if found.is_some_and(|(c, pad)| c == row.text.c() && pad == row.text.pad()) {
                    let (inserted, statements, bytes) = (1, 1, ROW_LEN);
                    let effect = Effect { inserted, statements, bytes, ..Effect::default() };
                    Ok(Fate::Committed(effect))
                } else {
                    Err(Failure::Fatal(Error::IdTaken { table, id }))
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// Looks for the texts that only this op writes. The locking reads wait for a transaction that
    /// is still under way on the lost connection, so what they find is final. A row with the op's
    /// text tells that it committed, a row as it was seeded that it did not. When both rows hold
    /// texts of other ops, either it did not commit or others have overwritten both rows since.
    async fn settle_write_only(
        &mut self,
        seed: u64,
        keys: &Keys,
        op: &Op,
    ) -> Result<Fate, Failure> {
        let Op::WriteOnly { non_index, text, replaced, .. } = op else {
            unreachable!("called for this kind of op only")
        };
        let mut fate = Fate::Unknown;
        for (key, text, replaces) in
            [(*non_index, *text, false), (replaced.key, replaced.text, true)]
        {
            let table = quoted(&self.schema, key.table);
            let sql = format!("SELECT c, pad FROM {table} WHERE id = {} FOR UPDATE", key.id);
            let Some((c, pad)) = self.witness(&sql).await? else { continue };
            let (_, before) = seeded(seed, key.table, key.id, keys);
            if c == text.c() || (replaces && pad == text.pad()) {
                return Ok(Fate::Committed(WRITTEN));
            }
            if c == before.c() || (replaces && pad == before.pad()) {
                fate = Fate::NotCommitted;
            }
        }
        Ok(fate)
    }

    /// The two texts of a row, where it is there.
    async fn witness(&mut self, sql: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>, Failure> {
        let mut found = None;
        let answer = self.raw.rows(sql, |row| {
            let mut cells = cells(row).map(|cell| cell.unwrap_or_default().to_vec());
            found = cells.next().zip(cells.next());
        });
        match answer.await {
            Ok(_) => Ok(found),
            Err(error) => Err(self.failure(sql, error, true)),
        }
    }

    async fn exec(
        &mut self,
        verb: Verb,
        table: u32,
        parameters: &[Parameter<'_>],
        committing: bool,
    ) -> Result<Answer, Failure> {
        let prepared = self.prepare(verb, table).await?;
        match self.raw.execute(&prepared, parameters).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let sql = sql(verb, &self.schema, table);
                Err(self.failure(&sql, error, committing))
            }
        }
    }

    async fn text(&mut self, sql: &str, committing: bool) -> Result<(), Failure> {
        match self.raw.query(sql).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failure(sql, error, committing)),
        }
    }

    /// The prepared statement, made where it is not there yet.
    async fn prepare(&mut self, verb: Verb, table: u32) -> Result<Prepared, Failure> {
        let slot = (table as usize - 1) * VERBS + verb as usize;
        if let Some(prepared) = self.statements[slot] {
            return Ok(prepared);
        }
        let sql = sql(verb, &self.schema, table);
        match self.raw.prepare(&sql).await {
            Ok(prepared) => Ok(*self.statements[slot].insert(prepared)),
            Err(error) => Err(self.failure(&sql, error, false)),
        }
    }

    /// What an error means for the op.
    fn failure(&self, sql: &str, error: mysql_async::Error, committing: bool) -> Failure {
        let code = match &error {
            mysql_async::Error::Server(server) => server.code,
            _ => 0,
        };
        if LOST_CODES.contains(&code) {
            return Failure::Lost { code, committing };
        }
        if TRANSIENT_CODES.contains(&code) {
            return Failure::Refused { code };
        }
        let error = self.raw.error(sql, error);
        if error.is_disconnect() && error.class() == ErrorClass::Transient {
            return Failure::Lost { code, committing };
        }
        Failure::Fatal(error.into())
    }
}

fn sql(verb: Verb, schema: &str, table: u32) -> String {
    let table = quoted(schema, table);
    match verb {
        Verb::Select => format!("SELECT c FROM {table} WHERE id=?"),
        Verb::Insert => format!("INSERT INTO {table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
        Verb::UpdateIndex => format!("UPDATE {table} SET k=k+1 WHERE id=?"),
        Verb::UpdateNonIndex => format!("UPDATE {table} SET c=? WHERE id=?"),
        Verb::Delete => format!("DELETE FROM {table} WHERE id=?"),
    }
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error, Error::Session(error) if error.code() == Some(DUPLICATE_KEY))
}

/// A first try that finds its id taken met somebody else's row.
fn taken(failure: Failure, client: &Client, row: &Row) -> Failure {
    match failure {
        Failure::Fatal(error) if is_duplicate(&error) => Failure::Fatal(Error::IdTaken {
            table: quoted(&client.schema, row.key.table),
            id: row.key.id,
        }),
        other => other,
    }
}
