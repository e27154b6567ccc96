//! A live source as a [`ChangeStream`]: binlog events matched with the target's tables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::mysql::binlog::{self, Event, Layout, Rows, TableMap};
use crate::mysql::owner::OWNER_TABLE;
use crate::mysql::schema::Table;
use crate::mysql::session::Error as SessionError;
use crate::mysql::{Endpoint, Position, Session};
use crate::pipeline::builtin::sync::cascade::{Cascade, Cascades};
use crate::pipeline::builtin::sync::change::{Change, ChangeStream, Ddl, RowChange};
use crate::pipeline::builtin::sync::ddl::{Meaning, meaning};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::retry::Retry;
use crate::pipeline::builtin::sync::table::ReplicaTable;

/// What the stream needs to know.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) source: Endpoint,
    /// The target, whose tables are what the binlog's rows must fit. The source's tables would not
    /// do: they may have changed since the row was written.
    pub(super) target: Endpoint,
    pub(super) schemas: Vec<String>,
    pub(super) server_id: u32,
}

/// A live source.
pub(super) struct LiveChanges {
    origin: Origin,
    stream: binlog::Stream,
    /// Bytes read over connections that broke.
    earlier_bytes: u64,
    target: Session,
    cascades: Cascades,
    tables: HashMap<(String, String), Arc<ReplicaTable>>,
    layouts: HashMap<u64, Known>,
    rows: Option<(Rows, Arc<ReplicaTable>, Arc<Layout>)>,
    /// End of the last transaction or other boundary that was given.
    boundary: Position,
    /// Rows of the current transaction that were given.
    given: u64,
    /// Rows to pass over because they were given before the connection broke.
    repeated: u64,
}

/// What is known of a table map: the table and how to decode it, or that it is of no interest.
#[derive(Debug, Clone)]
struct Known {
    map: Arc<TableMap>,
    fit: Option<(Arc<ReplicaTable>, Arc<Layout>)>,
}

impl LiveChanges {
    /// Connects to both ends and asks for the binlog from `from`, a boundary between transactions.
    ///
    /// # Errors
    /// When one of them cannot be reached.
    pub(super) async fn open(origin: Origin, from: &Position) -> Result<LiveChanges, Error> {
        let stream = binlog::Stream::open(&origin.source, from, origin.server_id).await?;
        let target = Session::connect(&origin.target).await?;
        let cascades = Cascades::open(&origin.source).await?;
        Ok(LiveChanges {
            origin,
            stream,
            earlier_bytes: 0,
            target,
            cascades,
            tables: HashMap::new(),
            layouts: HashMap::new(),
            rows: None,
            boundary: from.clone(),
            given: 0,
            repeated: 0,
        })
    }

    /// The next event; connects again where the connection broke.
    async fn event(&mut self) -> Result<Event, Error> {
        let mut retry = Retry::new();
        loop {
            match self.stream.next().await {
                Ok(event) => return Ok(event),
                Err(error) => retry.after(error).await?,
            }
            let origin = &self.origin;
            let stream = loop {
                let boundary = &self.boundary;
                match binlog::Stream::open(&origin.source, boundary, origin.server_id).await {
                    Ok(stream) => break stream,
                    Err(error) => retry.after(error).await?,
                }
            };
            self.earlier_bytes += self.stream.byte_count();
            self.stream = stream;
            self.rows = None;
            self.repeated = self.given;
        }
    }

    /// What a table map means; asks the target for the table's shape the first time.
    async fn known(&mut self, map: &Arc<TableMap>) -> Result<Known, Error> {
        if let Some(known) = self.layouts.get(&map.id)
            && Arc::ptr_eq(&known.map, map)
        {
            return Ok(known.clone());
        }
        let relevant = self.origin.schemas.contains(&map.schema) && map.table != OWNER_TABLE;
        let fit = if relevant {
            let table = self.table(&map.schema, &map.table).await?;
            let layout = Layout::new(map, &table.shape)?;
            Some((table, Arc::new(layout)))
        } else {
            None
        };
        if self.layouts.len() >= 4_096 {
            self.layouts.clear();
        }
        let known = Known { map: Arc::clone(map), fit };
        self.layouts.insert(map.id, known.clone());
        Ok(known)
    }

    async fn table(&mut self, schema: &str, name: &str) -> Result<Arc<ReplicaTable>, Error> {
        let key = (schema.to_owned(), name.to_owned());
        if let Some(table) = self.tables.get(&key) {
            return Ok(Arc::clone(table));
        }
        let mut retry = Retry::new();
        let (shape, cascade) = loop {
            match self.ask(schema, name).await {
                Ok(answer) => break answer,
                Err(error) => retry.after(error).await?,
            }
        };
        let mut table = ReplicaTable::new(shape);
        table.cascade = cascade;
        let table = Arc::new(table);
        self.tables.insert(key, Arc::clone(&table));
        Ok(table)
    }

    /// A table's shape on the target and what its changes do unseen; over a new connection where
    /// there was none any more.
    async fn ask(
        &mut self,
        schema: &str,
        name: &str,
    ) -> Result<(Table, Option<Cascade>), SessionError> {
        let shape = match Table::read(&mut self.target, schema, name).await {
            Err(error) if error.is_disconnect() => {
                self.target = Session::connect(&self.origin.target).await?;
                Table::read(&mut self.target, schema, name).await?
            }
            answer => answer?,
        };
        let columns: Vec<&str> = shape.columns.iter().map(|column| column.name.as_str()).collect();
        let cascade = self.cascades.of(schema, name, &columns).await?;
        Ok((shape, cascade))
    }

    /// The next row of the event at hand.
    fn row(&mut self) -> Result<Option<RowChange>, Error> {
        let Some((rows, table, layout)) = &mut self.rows else { return Ok(None) };
        while let Some((before, after)) = rows.next(layout)? {
            if self.repeated > 0 {
                self.repeated -= 1;
                continue;
            }
            if let Some(cascade) = &table.cascade
                && let Some(why) = cascade.refusal(before.as_ref(), after.as_ref())
            {
                let table = rows.table().name();
                return Err(Error::Cascade { table, why });
            }
            self.given += 1;
            return Ok(Some(RowChange::new(Arc::clone(table), before, after)));
        }
        self.rows = None;
        Ok(None)
    }

    fn boundary(&mut self, end: Position) -> Position {
        self.boundary = end.clone();
        self.given = 0;
        self.repeated = 0;
        end
    }

    fn statement(&mut self, statement: Statement) -> Result<Option<Change>, Error> {
        let Statement { schema, sql, origin, is_utf8, in_transaction, end } = statement;
        let why = match meaning(&sql, &schema, &self.origin.schemas) {
            Meaning::Nothing if in_transaction => return Ok(None),
            Meaning::Nothing => return Ok(Some(Change::Passed { end: self.boundary(end) })),
            Meaning::Execute(definition) if is_utf8 && !in_transaction => {
                let end = self.boundary(end);
                let ddl = Ddl { schema, sql, origin, definition, end, executed: None };
                return Ok(Some(Change::Ddl(ddl)));
            }
            Meaning::Execute(_) if is_utf8 => "it stands inside a transaction",
            Meaning::Execute(_) => "it is no UTF-8",
            Meaning::Refuse(why) => why,
        };
        let sql = sql.chars().take(200).collect();
        Err(Error::Statement { sql, position: end.to_string(), why })
    }
}

/// A statement of the binlog.
struct Statement {
    schema: String,
    sql: String,
    origin: binlog::Origin,
    is_utf8: bool,
    in_transaction: bool,
    end: Position,
}

impl ChangeStream for LiveChanges {
    async fn next(&mut self) -> Result<Change, Error> {
        loop {
            if let Some(row) = self.row()? {
                return Ok(Change::Row(row));
            }
            match self.event().await? {
                Event::Begin => {}
                Event::Rows(rows) => {
                    let known = self.known(rows.table()).await?;
                    self.rows = known.fit.map(|(table, layout)| (rows, table, layout));
                }
                Event::Commit { end, .. } => {
                    let had_rows = self.given > 0;
                    let end = self.boundary(end);
                    return Ok(if had_rows {
                        Change::Commit { end }
                    } else {
                        Change::Passed { end }
                    });
                }
                Event::Statement { schema, sql, origin, is_utf8, in_transaction, end, .. } => {
                    let statement = Statement { schema, sql, origin, is_utf8, in_transaction, end };
                    if let Some(change) = self.statement(statement)? {
                        return Ok(change);
                    }
                }
                Event::RolledBack { end, .. } if self.given > 0 => {
                    return Err(Error::Statement {
                        sql: "ROLLBACK".to_owned(),
                        position: end.to_string(),
                        why: "rows before it are applied already; use only transactional tables",
                    });
                }
                Event::RolledBack { whole: true, end } => {
                    return Ok(Change::Passed { end: self.boundary(end) });
                }
                Event::RolledBack { whole: false, .. } => {}
                Event::Passed { end } => {
                    return Ok(Change::Passed { end: self.boundary(end) });
                }
                Event::Idle { end } => return Ok(Change::Idle { end: self.boundary(end) }),
            }
        }
    }

    fn forget_tables(&mut self) {
        self.tables.clear();
        self.layouts.clear();
    }

    fn byte_count(&self) -> u64 {
        self.earlier_bytes + self.stream.byte_count()
    }
}
