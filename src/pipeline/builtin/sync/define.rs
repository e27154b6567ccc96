//! Executing DDL on the target, exactly once.
//!
//! A DDL cannot share a transaction with a checkpoint. So what its tables are like is stored before it
//! runs, and after a crash they are looked at again: where they differ it was executed, where they do
//! not it was not. Errors such as "column exists" would not tell: an unnamed `ADD INDEX (v)` succeeds
//! twice, and `RENAME TABLE a TO c, b TO a, c TO b` undoes itself. Two tables that look alike are told
//! apart by the number that the server gives each, which goes with it when it is renamed.
//!
//! A server goes on executing a DDL whose client is gone. A lock of the session, which the server
//! gives back only when that session is over, keeps the next process waiting until then.

use crate::mysql::patience::WORK_LIMIT;
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Endpoint, Flavor, Session};
use crate::pipeline::builtin::checkpoint::{Checkpoints, PendingDdl, TableMark};
use crate::pipeline::builtin::sync::apply;
use crate::pipeline::builtin::sync::change::Ddl;
use crate::pipeline::builtin::sync::ddl::{Action, Name};
use crate::pipeline::builtin::sync::dispatch::Dispatcher;
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::key::Hasher64;
use crate::pipeline::builtin::sync::origin;
use crate::pipeline::builtin::sync::retry::Retry;
use crate::pipeline::builtin::sync::stage::count;

/// Tries of 10 s to get the lock.
const LOCK_TRIES: u32 = 18;

/// Whether a DDL was executed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not, or without any effect.
    NotExecuted,
    /// It was.
    Executed,
    /// That cannot be told.
    Unclear,
}

/// What became of a DDL whose tables were like `before` ahead of it and are like `now`.
pub(super) fn fate(action: Action, before: &[TableMark], now: &[TableMark]) -> Fate {
    let is_there = |mark: &TableMark| mark.definition.is_some();
    match action {
        Action::Rename if before == now => {
            let all_told = now.iter().filter(|mark| is_there(mark)).all(|mark| mark.id.is_some());
            if all_told { Fate::NotExecuted } else { Fate::Unclear }
        }
        _ if before == now => Fate::NotExecuted,
        // A server that went down half-way may have dropped only some.
        Action::Drop if now.iter().any(is_there) => Fate::Unclear,
        _ => Fate::Executed,
    }
}

/// The target as DDL sees it.
///
/// Contract: `mark` tells what the tables are like when nothing that this or an earlier process has
/// sent is under way any more. `define` executes; an error leaves open whether it did.
pub(super) trait Definer: Send {
    /// What the tables are like, each named once.
    ///
    /// # Errors
    /// When the target refuses the question.
    fn mark(
        &mut self,
        tables: &[Name],
    ) -> impl Future<Output = Result<Vec<TableMark>, Error>> + Send;

    /// Executes a DDL.
    ///
    /// # Errors
    /// When the target refuses it or does not answer.
    fn define(&mut self, ddl: &Ddl) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes it usable after a failure.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn recover(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// A definer over one connection.
#[derive(Debug)]
pub(super) struct SqlDefiner {
    endpoint: Endpoint,
    session: Session,
    lock: String,
}

impl SqlDefiner {
    /// Connects and waits until no session of an earlier process with this checkpoint table is left.
    ///
    /// # Errors
    /// When the target cannot be reached or another session does not end.
    pub(super) async fn connect(endpoint: &Endpoint, checkpoint: &str) -> Result<Self, Error> {
        let mut hasher = Hasher64::new(0);
        hasher.write(checkpoint.as_bytes());
        let lock = format!("dmbench-ddl-{:016x}", hasher.finish());
        let session = locked(endpoint, &lock).await?;
        Ok(SqlDefiner { endpoint: endpoint.clone(), session, lock })
    }

    async fn mark_table(&mut self, name: &Name) -> Result<TableMark, SessionError> {
        let quoted = format!("{}.{}", quote_name(&name.schema), quote_name(&name.table));
        let definition = match self.session.rows(&format!("SHOW CREATE TABLE {quoted}")).await {
            Ok(rows) => rows.into_iter().next().and_then(|row| row.get::<String, usize>(1)),
            // No such schema or table.
            Err(error) if matches!(error.code(), Some(1049 | 1146)) => None,
            Err(error) => return Err(error),
        };
        let id = if definition.is_some() { self.id(name).await? } else { None };
        let hash = |text: String| {
            let mut hasher = Hasher64::new(0);
            hasher.write(without_counter(&text).as_bytes());
            format!("{:016x}", hasher.finish())
        };
        let (schema, table) = (name.schema.clone(), name.table.clone());
        Ok(TableMark { schema, table, definition: definition.map(hash), id })
    }

    /// The server's number for a table; `None` where it does not tell.
    async fn id(&mut self, name: &Name) -> Result<Option<u64>, SessionError> {
        let sql = match self.session.server().flavor {
            Flavor::Mysql => {
                "SELECT table_id FROM information_schema.innodb_tables WHERE name = CONCAT(?, '/', ?)"
            }
            Flavor::Mariadb => {
                "SELECT table_id FROM information_schema.innodb_sys_tables \
                 WHERE name = CONCAT(?, '/', ?)"
            }
            Flavor::Tidb => {
                "SELECT tidb_table_id FROM information_schema.tables \
                 WHERE table_schema = ? AND table_name = ?"
            }
        };
        match self.session.rows_with(sql, (&name.schema, &name.table)).await {
            Ok(rows) => Ok(rows.into_iter().next().and_then(|row| row.get(0))),
            Err(error) if error.is_disconnect() => Err(error),
            // Without the privilege PROCESS.
            Err(_) => Ok(None),
        }
    }
}

/// A table's definition without the next value of its AUTO_INCREMENT column.
fn without_counter(definition: &str) -> String {
    const COUNTER: &str = " AUTO_INCREMENT=";
    match definition.rfind(COUNTER) {
        Some(at) => {
            let rest = &definition[at + COUNTER.len()..];
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{}{rest}", &definition[..at])
        }
        None => definition.to_owned(),
    }
}

async fn locked(endpoint: &Endpoint, lock: &str) -> Result<Session, Error> {
    let mut session = apply::connect(endpoint).await?;
    for _ in 0..LOCK_TRIES {
        let got: Option<u64> = session.value(&format!("SELECT GET_LOCK('{lock}', 10)")).await?;
        if got == Some(1) {
            return Ok(session);
        }
    }
    Err(Error::Locked)
}

impl Definer for SqlDefiner {
    async fn mark(&mut self, tables: &[Name]) -> Result<Vec<TableMark>, Error> {
        let mut marks = Vec::<TableMark>::new();
        for name in tables {
            if !marks.iter().any(|m| m.schema == name.schema && m.table == name.table) {
                marks.push(self.mark_table(name).await?);
            }
        }
        Ok(marks)
    }

    async fn define(&mut self, ddl: &Ddl) -> Result<(), Error> {
        let error = |source| Error::Ddl { position: ddl.end.to_string(), source: Box::new(source) };
        self.session.wait_up_to(WORK_LIMIT);
        if !ddl.schema.is_empty() {
            let used = format!("USE {}", quote_name(&ddl.schema));
            self.session.execute(&used).await.map_err(error)?;
        }
        let there = origin::settings(&ddl.origin);
        if let Some(set) = &there {
            self.session.execute(set).await.map_err(error)?;
        }
        let done = self.session.execute(&ddl.sql).await;
        // How the target shows a definition depends on the mode, and marks are compared.
        let reset = match there {
            Some(_) => self.session.execute(apply::SET_STATE).await,
            None => Ok(0),
        };
        // What the DDL failed of says more than what came of it.
        done.and(reset).map(drop).map_err(error)
    }

    async fn recover(&mut self) -> Result<(), Error> {
        if self.session.execute("DO 0").await.is_err() {
            self.session = locked(&self.endpoint, &self.lock).await?;
        }
        Ok(())
    }
}

impl<C: Checkpoints, D: Definer> Dispatcher<C, D> {
    /// Executes a DDL between two checkpoints. The first keeps what its tables are like.
    pub(super) async fn define(&mut self, mut ddl: Ddl) -> Result<(), Error> {
        let (action, tables) = (ddl.definition.action, &ddl.definition.tables);
        let mut unsure = self.pending.is_some();
        let before = match &self.pending {
            Some(pending) if pending.end == ddl.end => pending.tables.clone(),
            Some(_) => {
                return Err(Error::Order { what: "another DDL than the pending one is next" });
            }
            None => {
                let tables = self.mark(tables).await?;
                self.pending = Some(PendingDdl { end: ddl.end.clone(), tables: tables.clone() });
                self.flush(true).await?;
                tables
            }
        };
        let mut retry = Retry::new();
        loop {
            if unsure {
                match fate(action, &before, &self.mark(tables).await?) {
                    Fate::Executed => break,
                    Fate::NotExecuted => {}
                    Fate::Unclear => {
                        let sql = ddl.sql.chars().take(200).collect();
                        return Err(Error::Unclear { sql, position: ddl.end.to_string() });
                    }
                }
            }
            match self.definer.define(&ddl).await {
                Ok(()) => break,
                Err(error) => retry.after(error).await?,
            }
            unsure = true;
            while let Err(error) = self.definer.recover().await {
                retry.after(error).await?;
            }
        }
        count(&self.counters.ddl, 1);
        self.pending = None;
        self.tracker.pass(ddl.end.clone());
        self.come_to(ddl.end.clone());
        self.flush(false).await?;
        if let Some(executed) = ddl.executed.take() {
            let _ = executed.send(());
        }
        Ok(())
    }

    async fn mark(&mut self, tables: &[Name]) -> Result<Vec<TableMark>, Error> {
        let mut retry = Retry::new();
        loop {
            match self.definer.mark(tables).await {
                Ok(marks) => return Ok(marks),
                Err(error) => retry.after(error).await?,
            }
            while let Err(error) = self.definer.recover().await {
                retry.after(error).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(table: &str, definition: Option<&str>, id: Option<u64>) -> TableMark {
        let definition = definition.map(str::to_owned);
        TableMark { schema: "s".to_owned(), table: table.to_owned(), definition, id }
    }

    #[test]
    fn a_changed_definition_tells_that_it_was_executed() {
        let (old, new) = ([mark("t", Some("a"), Some(1))], [mark("t", Some("b"), Some(1))]);
        assert_eq!(fate(Action::Change, &old, &old), Fate::NotExecuted);
        assert_eq!(fate(Action::Change, &old, &new), Fate::Executed);
        // TRUNCATE makes a new table of the same definition.
        assert_eq!(fate(Action::Change, &old, &[mark("t", Some("a"), Some(2))]), Fate::Executed);
        // Without a number it may be executed twice, which is as once.
        let unknown = [mark("t", Some("a"), None)];
        assert_eq!(fate(Action::Change, &unknown, &unknown), Fate::NotExecuted);
    }

    #[test]
    fn equal_tables_that_changed_places_are_told_by_their_numbers() {
        let of = |a, b| [mark("a", Some("x"), a), mark("c", None, None), mark("b", Some("x"), b)];
        let before = of(Some(1), Some(2));
        assert_eq!(fate(Action::Rename, &before, &before), Fate::NotExecuted);
        assert_eq!(fate(Action::Rename, &before, &of(Some(2), Some(1))), Fate::Executed);
        assert_eq!(fate(Action::Rename, &of(None, None), &of(None, None)), Fate::Unclear);
    }

    #[test]
    fn a_drop_of_some_is_unclear() {
        let there = |name| mark(name, Some("x"), Some(1));
        let gone = |name| mark(name, None, None);
        let before = [there("a"), there("b"), gone("nowhere")];
        assert_eq!(fate(Action::Drop, &before, &before), Fate::NotExecuted);
        let all = [gone("a"), gone("b"), gone("nowhere")];
        assert_eq!(fate(Action::Drop, &before, &all), Fate::Executed);
        let some = [gone("a"), there("b"), gone("nowhere")];
        assert_eq!(fate(Action::Drop, &before, &some), Fate::Unclear);
    }

    #[test]
    fn the_counter_is_no_part_of_a_definition() {
        assert_eq!(
            without_counter("CREATE TABLE `t` (…) ENGINE=InnoDB AUTO_INCREMENT=57 CHARSET=utf8mb4"),
            "CREATE TABLE `t` (…) ENGINE=InnoDB CHARSET=utf8mb4"
        );
        assert_eq!(without_counter("CREATE TABLE `t` (…)"), "CREATE TABLE `t` (…)");
    }
}
