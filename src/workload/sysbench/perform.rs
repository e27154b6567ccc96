//! Carrying ops out over the binary protocol with prepared statements.

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Row as AnswerRow, Statement, Value};

use super::super::Error;
use super::super::effect::Effect;
use super::super::keys::Keys;
use super::super::op::{Failure, Fate, Workload};
use super::op::{Key, Oltp, Op, Row};
use super::table::{quoted, seeded};
use super::text::{C_LEN, PAD_LEN};
use crate::error::ErrorClass;
use crate::mysql::Session;
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

/// A session and its prepared statements, made at their first use.
#[derive(Debug)]
pub(in super::super) struct Client {
    session: Session,
    schema: String,
    statements: Vec<Option<Statement>>,
}

impl Workload for Oltp {
    type Op = Op;
    type Client = Client;

    fn pick(&self, seed: u64, index: u64) -> Op {
        self.op(seed, index)
    }

    fn row_changes(&self, op: &Op) -> u64 {
        op.row_changes()
    }

    async fn connect(&self) -> Result<Client, SessionError> {
        let count = self.tables as usize * VERBS;
        let opts = self.endpoint.opts().stmt_cache_size(count.max(256));
        let session = Session::connect_with(&self.endpoint, opts).await?;
        Ok(Client { session, schema: self.schema.clone(), statements: vec![None; count] })
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
        client.session.close().await;
    }
}

impl Client {
    async fn select(&mut self, key: Key) -> Result<Effect, Failure> {
        let slot = self.prepare(Verb::Select, key.table).await?;
        let statement = self.statements[slot].as_ref().expect("prepared just now");
        let params = Params::Positional(vec![Value::UInt(key.id)]);
        let row: Result<Option<AnswerRow>, _> =
            self.session.conn().exec_first(statement, params).await;
        let row = row.map_err(|e| self.failure("SELECT c", e, false))?;
        Ok(Effect { read: u64::from(row.is_some()), statements: 1, ..Effect::default() })
    }

    async fn insert(&mut self, row: &Row, committing: bool) -> Result<Effect, Failure> {
        let params = vec![
            Value::UInt(row.key.id),
            Value::UInt(row.k),
            Value::Bytes(row.text.c()),
            Value::Bytes(row.text.pad()),
        ];
        let inserted = self.exec(Verb::Insert, row.key.table, params, committing).await?;
        Ok(Effect { inserted, statements: 1, bytes: inserted * ROW_LEN, ..Effect::default() })
    }

    async fn update_index(&mut self, key: Key, committing: bool) -> Result<Effect, Failure> {
        let params = vec![Value::UInt(key.id)];
        let updated = self.exec(Verb::UpdateIndex, key.table, params, committing).await?;
        Ok(Effect { updated, statements: 1, bytes: updated * INT_LEN, ..Effect::default() })
    }

    async fn write_only(&mut self, op: &Op) -> Result<Effect, Failure> {
        let Op::WriteOnly { index, non_index, text, replaced } = op else {
            unreachable!("called for this kind of op only")
        };
        self.text("BEGIN", false).await?;
        let mut effect = self.update_index(*index, false).await?;
        let params = vec![Value::Bytes(text.c()), Value::UInt(non_index.id)];
        let updated = self.exec(Verb::UpdateNonIndex, non_index.table, params, false).await?;
        let params = vec![Value::UInt(replaced.key.id)];
        let deleted = self.exec(Verb::Delete, replaced.key.table, params, false).await?;
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
                if found == Some((row.text.c(), row.text.pad())) {
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

    async fn witness(&mut self, sql: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>, Failure> {
        let found = self.session.conn().query_first(sql).await;
        found.map_err(|e| self.failure(sql, e, true))
    }

    async fn exec(
        &mut self,
        verb: Verb,
        table: u32,
        params: Vec<Value>,
        committing: bool,
    ) -> Result<u64, Failure> {
        let slot = self.prepare(verb, table).await?;
        let statement = self.statements[slot].as_ref().expect("prepared just now");
        let done = self.session.conn().exec_drop(statement, Params::Positional(params)).await;
        match done {
            Ok(()) => Ok(self.session.conn().affected_rows()),
            Err(error) => {
                let sql = sql(verb, &self.schema, table);
                Err(self.failure(&sql, error, committing))
            }
        }
    }

    async fn text(&mut self, sql: &str, committing: bool) -> Result<(), Failure> {
        let done = self.session.conn().query_drop(sql).await;
        done.map_err(|e| self.failure(sql, e, committing))
    }

    /// Makes sure that a statement is prepared and gives its place.
    async fn prepare(&mut self, verb: Verb, table: u32) -> Result<usize, Failure> {
        let slot = (table as usize - 1) * VERBS + verb as usize;
        if self.statements[slot].is_none() {
            let sql = sql(verb, &self.schema, table);
            let prepared = self.session.conn().prep(sql.as_str()).await;
            let statement = prepared.map_err(|e| self.failure(&sql, e, false))?;
            self.statements[slot] = Some(statement);
        }
        Ok(slot)
    }

    /// What a driver's error means for the op.
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
        let error = self.session.statement_error(sql, error);
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
