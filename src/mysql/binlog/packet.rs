//! The bodies of single events, read from bytes that may be anything.

use crate::mysql::binlog::cursor::{Cursor, Short};
use crate::mysql::binlog::deflated::inflate;
use crate::mysql::binlog::row::Kind;

/// Event type codes: MySQL's, then MariaDB's own from 160.
pub(super) mod kind {
    pub(crate) const QUERY: u8 = 2;
    pub(crate) const STOP: u8 = 3;
    pub(crate) const ROTATE: u8 = 4;
    pub(crate) const INTVAR: u8 = 5;
    pub(crate) const RAND: u8 = 13;
    pub(crate) const USER_VAR: u8 = 14;
    pub(crate) const FORMAT_DESCRIPTION: u8 = 15;
    pub(crate) const XID: u8 = 16;
    pub(crate) const BEGIN_LOAD_QUERY: u8 = 17;
    pub(crate) const EXECUTE_LOAD_QUERY: u8 = 18;
    pub(crate) const TABLE_MAP: u8 = 19;
    pub(crate) const WRITE_ROWS_V1: u8 = 23;
    pub(crate) const UPDATE_ROWS_V1: u8 = 24;
    pub(crate) const DELETE_ROWS_V1: u8 = 25;
    pub(crate) const INCIDENT: u8 = 26;
    pub(crate) const HEARTBEAT: u8 = 27;
    pub(crate) const IGNORABLE: u8 = 28;
    pub(crate) const ROWS_QUERY: u8 = 29;
    pub(crate) const WRITE_ROWS: u8 = 30;
    pub(crate) const UPDATE_ROWS: u8 = 31;
    pub(crate) const DELETE_ROWS: u8 = 32;
    pub(crate) const GTID: u8 = 33;
    pub(crate) const ANONYMOUS_GTID: u8 = 34;
    pub(crate) const PREVIOUS_GTIDS: u8 = 35;
    pub(crate) const TRANSACTION_CONTEXT: u8 = 36;
    pub(crate) const VIEW_CHANGE: u8 = 37;
    pub(crate) const XA_PREPARE: u8 = 38;
    pub(crate) const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub(crate) const TRANSACTION_PAYLOAD: u8 = 40;
    pub(crate) const HEARTBEAT_V2: u8 = 41;
    pub(crate) const GTID_TAGGED: u8 = 42;
    pub(crate) const MARIADB_ANNOTATE_ROWS: u8 = 160;
    pub(crate) const MARIADB_CHECKPOINT: u8 = 161;
    pub(crate) const MARIADB_GTID: u8 = 162;
    pub(crate) const MARIADB_GTID_LIST: u8 = 163;
    pub(crate) const MARIADB_START_ENCRYPTION: u8 = 164;
    pub(crate) const MARIADB_QUERY_COMPRESSED: u8 = 165;
}

/// How the rows of an event are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowsForm {
    pub(super) kind: Kind,
    /// Extra data stands ahead of the columns: version 2 of the events.
    pub(super) extra: bool,
    /// The images are deflated by MariaDB.
    pub(super) deflated: bool,
}

/// What the code of an event says of its rows; `None` for events without rows.
pub(super) fn rows_form(code: u8) -> Option<RowsForm> {
    let (kind, extra, deflated) = match code {
        kind::WRITE_ROWS_V1 => (Kind::Insert, false, false),
        kind::UPDATE_ROWS_V1 => (Kind::Update, false, false),
        kind::DELETE_ROWS_V1 => (Kind::Delete, false, false),
        kind::WRITE_ROWS => (Kind::Insert, true, false),
        kind::UPDATE_ROWS | kind::PARTIAL_UPDATE_ROWS => (Kind::Update, true, false),
        kind::DELETE_ROWS => (Kind::Delete, true, false),
        // MariaDB's compressed ones, of version 1 and 2.
        166 | 169 => (Kind::Insert, code > 168, true),
        167 | 170 => (Kind::Update, code > 168, true),
        168 | 171 => (Kind::Delete, code > 168, true),
        _ => return None,
    };
    Some(RowsForm { kind, extra, deflated })
}

/// A statement in the binlog.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) schema: String,
    pub(super) sql: Vec<u8>,
    pub(super) origin: Origin,
}

/// What was set where a statement was executed, as far as its meaning depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// `sql_mode` as the server's bits; `None` where the event does not say.
    pub sql_mode: Option<u64>,
    /// `time_zone`; only where the statement used it.
    pub time_zone: Option<String>,
}

pub(super) fn query(body: &[u8]) -> Result<Query, Short> {
    statement(body, 0)
}

/// The same with its text deflated by MariaDB.
pub(super) fn deflated_query(body: &[u8]) -> Result<Query, Short> {
    let Query { schema, sql: deflated, origin } = statement(body, 0)?;
    let mut sql = Vec::new();
    inflate(&deflated, &mut sql)?;
    Ok(Query { schema, sql, origin })
}

/// The statement of LOAD DATA, with a file number, two offsets and a flag in its head.
pub(super) fn load_query(body: &[u8]) -> Result<Query, Short> {
    statement(body, 13)
}

fn statement(body: &[u8], more_head: usize) -> Result<Query, Short> {
    let mut cursor = Cursor::new(body);
    cursor.take(8)?;
    let schema_length = usize::from(cursor.u8()?);
    cursor.take(2)?;
    let status_length = cursor.le(2)? as usize;
    cursor.take(more_head)?;
    let origin = origin(cursor.take(status_length)?);
    let schema = String::from_utf8_lossy(cursor.take(schema_length)?).into_owned();
    cursor.u8()?;
    Ok(Query { schema, sql: cursor.rest().to_vec(), origin })
}

/// Reads the variables ahead of a statement up to the first that is not known: servers write them in
/// the order of their codes, and those of later versions come last.
fn origin(variables: &[u8]) -> Origin {
    let mut origin = Origin::default();
    let mut cursor = Cursor::new(variables);
    while origin.read(&mut cursor).is_ok() {}
    origin
}

impl Origin {
    /// Codes by `Query_event` in MySQL's `statement_events.h`; MariaDB has the same up to 13.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Short> {
        let length = match cursor.u8()? {
            // flags
            0 => 4,
            1 => {
                self.sql_mode = Some(cursor.le(8)?);
                0
            }
            // increment and offset of AUTO_INCREMENT; character sets
            3 => 4,
            4 => 6,
            5 => {
                let length = cursor.u8()?.into();
                let zone = cursor.take(length)?;
                self.time_zone = Some(String::from_utf8_lossy(zone).into_owned());
                0
            }
            // catalog
            6 => cursor.u8()?.into(),
            _ => return Err(Short),
        };
        cursor.take(length).map(drop)
    }
}

/// The file and offset that a rotate event names.
pub(super) fn rotate(body: &[u8]) -> Result<(u64, String), Short> {
    let mut cursor = Cursor::new(body);
    let offset = cursor.le(8)?;
    Ok((offset, String::from_utf8_lossy(cursor.rest()).into_owned()))
}

/// The commit time in microseconds since 1970 of a MySQL GTID event; `None` before MySQL 8.0.
pub(super) fn commit_time(body: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(body);
    // flags, server uuid, number, kind of the logical clock and its two counters
    cursor.take(1 + 16 + 8 + 1 + 8 + 8).ok()?;
    // The highest bit tells that the original commit time follows.
    Some(cursor.le(7).ok()? & 0x7f_ffff_ffff_ffff)
}

/// The part of MariaDB's GTID event that tells what follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MariadbGtid {
    /// A statement without COMMIT follows, not a transaction.
    pub(super) standalone: bool,
    /// The transaction is a part of an XA transaction.
    pub(super) xa: bool,
}

pub(super) fn mariadb_gtid(body: &[u8]) -> Result<MariadbGtid, Short> {
    let mut cursor = Cursor::new(body);
    cursor.take(8 + 4)?;
    let flags = cursor.u8()?;
    Ok(MariadbGtid { standalone: flags & 1 != 0, xa: flags & (64 | 128) != 0 })
}
