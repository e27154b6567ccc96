//! Several connections that all see the source at one binlog position.
//!
//! A read lock is held only while the position is read and every connection starts its snapshot
//! transaction. What is read later through any of them is the state at that position, so that sync
//! from there continues exactly where the dump ends.

use std::collections::BTreeSet;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::mysql::schema::table_names;
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Endpoint, Flavor, Position, Server, Session};
use crate::pipeline::builtin::dump::Error;

/// Seconds to wait for a lock. While `FLUSH TABLES WITH READ LOCK` waits for a long statement, all
/// writers wait behind it, so this bounds the stall that a dump may cause on the source.
const LOCK_WAIT_S: u64 = 30;

/// Access denied for want of a privilege, in the three ways servers say it.
const DENIED_CODES: [u16; 3] = [1044, 1045, 1227];

/// How the connections were brought to one position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// `FLUSH TABLES WITH READ LOCK`.
    GlobalReadLock,
    /// `LOCK TABLES … READ` of all tables of the dump, for an account without RELOAD.
    TableLocks,
}

/// See the module.
pub(super) struct Snapshot {
    pub(super) sessions: Vec<Session>,
    pub(super) position: Position,
    pub(super) gtid: String,
    /// Schema and table, as they were at the position.
    pub(super) tables: Vec<(String, String)>,
    pub(super) consistency: Consistency,
    pub(super) remarks: Vec<String>,
    /// Holds MySQL's backup lock, which keeps table definitions as they are.
    locker: Session,
}

struct Started {
    sessions: Vec<Session>,
    position: Position,
    gtid: String,
    tables: Vec<(String, String)>,
    consistency: Consistency,
}

impl Snapshot {
    /// Opens `threads` connections at one position. The read lock is gone when this returns, whether
    /// well, with an error or because `cancel` fired.
    pub(super) async fn open(
        source: &Endpoint,
        threads: u32,
        schemas: &[String],
        cancel: &CancellationToken,
    ) -> Result<Snapshot, Error> {
        let mut sessions = Vec::new();
        for _ in 0..threads.max(1) {
            let mut session = Session::connect(source).await?;
            for sql in preparation(session.server()) {
                session.execute(sql).await?;
            }
            sessions.push(session);
        }
        let mut locker = Session::connect(source).await?;
        let mut remarks = Vec::new();
        let locker_id = locker.conn().id();
        let started = tokio::select! {
            started = lock_and_start(&mut locker, sessions, schemas, &mut remarks) => started,
            () = cancel.cancelled() => {
                kill(source, locker_id).await?;
                return Err(Error::Cancelled);
            }
        };
        let unlocked = locker.execute("UNLOCK TABLES").await;
        match (started, unlocked) {
            (Ok(started), Ok(_)) => Ok(Snapshot {
                sessions: started.sessions,
                position: started.position,
                gtid: started.gtid,
                tables: started.tables,
                consistency: started.consistency,
                remarks,
                locker,
            }),
            (Ok(_), Err(error)) => {
                locker.close().await;
                Err(error.into())
            }
            (Err(error), _) => {
                locker.close().await;
                Err(error)
            }
        }
    }

    /// Gives up the backup lock.
    pub(super) async fn close(self) {
        self.locker.close().await;
        for session in self.sessions {
            session.close().await;
        }
    }
}

/// Ends the connection that locks or waits for a lock. Closing it would not do: a server goes on
/// waiting for the lock, with all writers behind it, though nobody is there any more.
async fn kill(source: &Endpoint, connection: u32) -> Result<(), Error> {
    const UNKNOWN_CONNECTION: u16 = 1094;
    let mut session = Session::connect(source).await?;
    match session.execute(&format!("KILL {connection}")).await {
        Err(error) if error.code() != Some(UNKNOWN_CONNECTION) => return Err(error.into()),
        _ => session.close().await,
    }
    Ok(())
}

/// Statements that make a session read everything as it is, for as long as it takes.
fn preparation(server: &Server) -> Vec<&'static str> {
    let mut statements = vec![
        "SET SESSION sql_mode = '', sql_quote_show_create = 1, wait_timeout = 86400, \
         net_write_timeout = 3600",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    ];
    match server.flavor {
        Flavor::Mariadb => statements.push("SET SESSION max_statement_time = 0"),
        Flavor::Mysql if server.at_least(8, 0) => {
            // Row counts in information_schema are a day old otherwise.
            statements
                .push("SET SESSION information_schema_stats_expiry = 0, max_execution_time = 0");
        }
        _ => {}
    }
    statements
}

async fn lock_and_start(
    locker: &mut Session,
    sessions: Vec<Session>,
    schemas: &[String],
    remarks: &mut Vec<String>,
) -> Result<Started, Error> {
    let timeout = format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S}, wait_timeout = 86400");
    locker.execute(&timeout).await?;
    for schema in schemas {
        if !locker.has_schema(schema).await? {
            return Err(Error::NoSchema { schema: schema.clone() });
        }
    }
    keep_definitions(locker, remarks).await?;
    let (consistency, tables) = match locker.execute("FLUSH TABLES WITH READ LOCK").await {
        Ok(_) => (Consistency::GlobalReadLock, list_tables(locker, schemas).await?),
        Err(error) if is_denied(&error) => {
            remarks.push(
                "the dump locked its tables one by one, since the account may not lock all \
                 (RELOAD)"
                    .to_owned(),
            );
            (Consistency::TableLocks, lock_tables(locker, schemas).await?)
        }
        Err(error) => return Err(lock_error(error)),
    };
    let position = locker.binlog_position().await?;
    let gtid = read_gtid(locker).await?;
    let sessions = start_transactions(sessions).await?;
    Ok(Started { sessions, position, gtid, tables, consistency })
}

/// Takes MySQL's backup lock, which lets rows change and keeps definitions; without it a definition
/// that changes under the dump ends the dump by error 1412.
async fn keep_definitions(locker: &mut Session, remarks: &mut Vec<String>) -> Result<(), Error> {
    if locker.server().flavor != Flavor::Mysql || !locker.server().at_least(8, 0) {
        return Ok(());
    }
    match locker.execute("LOCK INSTANCE FOR BACKUP").await {
        Ok(_) => Ok(()),
        Err(error) if is_denied(&error) => {
            remarks.push(
                "the dump could not take the backup lock (BACKUP_ADMIN): it fails if a table's \
                 definition changes meanwhile"
                    .to_owned(),
            );
            Ok(())
        }
        Err(error) => Err(lock_error(error)),
    }
}

async fn list_tables(
    session: &mut Session,
    schemas: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let mut tables = Vec::new();
    for schema in schemas {
        for table in table_names(session, schema).await? {
            tables.push((schema.clone(), table));
        }
    }
    Ok(tables)
}

/// Locks every table against writing. Once the lock is granted every transaction that wrote one of
/// them has ended, so the position read next holds for all of them. A table created between listing
/// and locking would be missing from the dump and from what follows its position: list again.
async fn lock_tables(
    locker: &mut Session,
    schemas: &[String],
) -> Result<Vec<(String, String)>, Error> {
    for _ in 0..3 {
        let tables = list_tables(locker, schemas).await?;
        if tables.is_empty() {
            return Ok(tables);
        }
        let list: Vec<String> = tables
            .iter()
            .map(|(schema, table)| format!("{}.{} READ", quote_name(schema), quote_name(table)))
            .collect();
        locker.execute(&format!("LOCK TABLES {}", list.join(", "))).await.map_err(lock_error)?;
        let now: BTreeSet<_> = list_tables(locker, schemas).await?.into_iter().collect();
        if now == tables.iter().cloned().collect() {
            return Ok(tables);
        }
        locker.execute("UNLOCK TABLES").await?;
    }
    Err(Error::TablesChange)
}

async fn read_gtid(session: &mut Session) -> Result<String, SessionError> {
    let sql = match session.server().flavor {
        Flavor::Mariadb => "SELECT @@GLOBAL.gtid_binlog_pos",
        _ => "SELECT @@GLOBAL.gtid_executed",
    };
    Ok(session.value::<String>(sql).await?.unwrap_or_default().replace('\n', ""))
}

/// All at once: the lock is held for one round trip, not for one per connection.
async fn start_transactions(sessions: Vec<Session>) -> Result<Vec<Session>, Error> {
    let mut starting = JoinSet::new();
    for mut session in sessions {
        starting.spawn(async move {
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.map(|_| session)
        });
    }
    let mut started = Vec::new();
    while let Some(session) = starting.join_next().await {
        started.push(session.map_err(|e| Error::Reader { why: e.to_string() })??);
    }
    Ok(started)
}

fn is_denied(error: &SessionError) -> bool {
    error.code().is_some_and(|code| DENIED_CODES.contains(&code))
}

fn lock_error(error: SessionError) -> Error {
    if error.class() == ErrorClass::Transient && !error.is_disconnect() {
        Error::Lock { seconds: LOCK_WAIT_S, source: error }
    } else {
        Error::Session(error)
    }
}
