//! The bodies of single events, read from bytes that may be anything.

use crate::mysql::binlog::cursor::{Cursor, Short};

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
}

/// A statement in the binlog.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) schema: String,
    pub(super) sql: Vec<u8>,
}

pub(super) fn query(body: &[u8]) -> Result<Query, Short> {
    statement(body, 0)
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
    cursor.take(status_length)?;
    let schema = String::from_utf8_lossy(cursor.take(schema_length)?).into_owned();
    cursor.u8()?;
    Ok(Query { schema, sql: cursor.rest().to_vec() })
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
