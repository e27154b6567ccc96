//! A live server's binlog, event by event.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream as _;
use mysql_async::prelude::Queryable as _;
use mysql_async::{BinlogStream, BinlogStreamRequest};
use mysql_common::binlog::events::{Event as WireEvent, GtidEvent, TransactionPayloadEvent};

use crate::mysql::binlog::cursor::Short;
use crate::mysql::binlog::error::Error;
use crate::mysql::binlog::packet::{self, Origin, RowsForm, kind};
use crate::mysql::binlog::row::Rows;
use crate::mysql::binlog::table_map::TableMap;
use crate::mysql::{Endpoint, Flavor, Position, Session};

/// How often an idle server says that it has nothing new.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// After so long without any word the connection is taken for dead.
const SILENCE: Duration = Duration::from_secs(60);

/// Table maps kept; ids change with every DDL and restart, so old ones are of no use.
const MOST_MAPS: usize = 4_096;

/// Something in the binlog.
#[derive(Debug)]
pub enum Event {
    /// A transaction begins.
    Begin,
    /// Rows of the current transaction.
    Rows(Rows),
    /// The current transaction is complete.
    Commit {
        /// Where the next event begins.
        end: Position,
        /// When it was committed on the source, in microseconds since 1970; whole seconds where the
        /// server writes no more.
        commit_time_us: u64,
    },
    /// A statement, such as a DDL.
    Statement {
        /// Schema in use.
        schema: String,
        /// Text; characters that are no UTF-8 are replaced.
        sql: String,
        /// Whether the text is exact.
        is_utf8: bool,
        /// What was set where it was executed.
        origin: Origin,
        /// Whether it stands inside a transaction.
        in_transaction: bool,
        /// Where the next event begins.
        end: Position,
        /// When it was executed on the source, in microseconds since 1970.
        commit_time_us: u64,
    },
    /// Rows of the current transaction given so far may not count: it was rolled back.
    RolledBack {
        /// Whether the transaction is over, or only a part of it undone.
        whole: bool,
        /// Where the next event begins.
        end: Position,
    },
    /// Something outside transactions that changes no row; the stream has come so far.
    Passed {
        /// Where the next event begins.
        end: Position,
    },
    /// The server has nothing more at the moment.
    Idle {
        /// The end of what there is.
        end: Position,
    },
}

/// A source's binlog from a position on.
pub struct Stream {
    inner: BinlogStream,
    endpoint: String,
    position: Position,
    /// Before the first format description the driver does not know that events have checksums.
    has_format: bool,
    in_transaction: bool,
    /// The current transaction is one of XA.
    in_xa: bool,
    commit_time_us: Option<u64>,
    maps: HashMap<u64, (Vec<u8>, Arc<TableMap>)>,
    /// Bytes of a compressed transaction's events still to come.
    payload: u64,
    bytes: u64,
}

impl Stream {
    /// Connects and asks for the binlog from `from`, which must be the begin of an event outside
    /// transactions. Nothing is read yet.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses a statement. That it no longer has the binlog
    /// shows with the first event.
    pub async fn open(
        endpoint: &Endpoint,
        from: &Position,
        server_id: u32,
    ) -> Result<Stream, Error> {
        let mut session = Session::connect(endpoint).await?;
        let period = HEARTBEAT.as_nanos();
        session
            .execute(&format!(
                "SET @master_heartbeat_period = {period}, @source_heartbeat_period = {period}, \
                 SESSION net_write_timeout = 86400, SESSION net_read_timeout = 86400"
            ))
            .await?;
        if session.server().flavor == Flavor::Mariadb {
            session.execute("SET @mariadb_slave_capability = 4").await?;
        }
        let read = |source| Error::Read {
            endpoint: endpoint.to_string(),
            position: from.to_string(),
            source: Box::new(source),
        };
        let mut conn = session.into_conn();
        // The driver registers as a replica without looking at the answer.
        conn.ping().await.map_err(read)?;
        let file = from.file.to_string();
        let request = BinlogStreamRequest::new(server_id)
            .with_filename(file.as_bytes())
            .with_pos(from.offset);
        let inner = conn.get_binlog_stream(request).await.map_err(read)?;
        Ok(Stream {
            inner,
            endpoint: endpoint.to_string(),
            position: from.clone(),
            has_format: false,
            in_transaction: false,
            in_xa: false,
            commit_time_us: None,
            maps: HashMap::new(),
            payload: 0,
            bytes: 0,
        })
    }

    /// Where the next event begins.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Bytes of events read so far, as they lie in the binlog.
    pub fn byte_count(&self) -> u64 {
        self.bytes
    }

    /// The next event. May be dropped and called again without losing one.
    ///
    /// # Errors
    /// When the connection breaks or the binlog holds what cannot be replicated.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            let next = poll_fn(|cx| Pin::new(&mut self.inner).poll_next(cx));
            let event = match tokio::time::timeout(SILENCE, next).await {
                Err(_) => return Err(self.ended("no word for 60 s")),
                Ok(None) => return Err(self.ended("the server ended the stream")),
                Ok(Some(Err(source))) => {
                    return Err(Error::Read {
                        endpoint: self.endpoint.clone(),
                        position: self.position.to_string(),
                        source: Box::new(source),
                    });
                }
                Ok(Some(Ok(event))) => event,
            };
            if let Some(event) = self.take(&event)? {
                return Ok(event);
            }
        }
    }

    /// Digests one event of the driver.
    fn take(&mut self, event: &WireEvent) -> Result<Option<Event>, Error> {
        let header = event.header();
        let kind = header.event_type_raw();
        self.advance(event)?;
        let body = event.data();
        let seconds = u64::from(header.timestamp()) * 1_000_000;
        match kind {
            kind::TABLE_MAP => {
                self.map(body)?;
                Ok(None)
            }
            kind::GTID | kind::ANONYMOUS_GTID => {
                self.commit_time_us = packet::commit_time(body).filter(|&time| time > 0);
                Ok(None)
            }
            kind::GTID_TAGGED => {
                self.commit_time_us = event
                    .read_event::<GtidEvent>()
                    .ok()
                    .map(|gtid| gtid.immediate_commit_timestamp())
                    .filter(|&time| time > 0);
                Ok(None)
            }
            kind::MARIADB_GTID => self.mariadb_gtid(body),
            kind::XID => Ok(Some(self.commit(seconds))),
            kind::XA_PREPARE => Ok(Some(self.commit(seconds))),
            kind::QUERY => self.query(packet::query(body), seconds),
            kind::MARIADB_QUERY_COMPRESSED => self.query(packet::deflated_query(body), seconds),
            kind::EXECUTE_LOAD_QUERY => self.query(packet::load_query(body), seconds),
            kind::TRANSACTION_PAYLOAD => {
                // The driver passes the events inside on, but says nothing when it cannot.
                let malformed = |why: String| self.malformed("compressed transaction", why);
                let payload = event
                    .read_event::<TransactionPayloadEvent<'_>>()
                    .map_err(|e| malformed(e.to_string()))?;
                self.payload = match payload.uncompressed_size() {
                    0 => return Err(malformed("it holds nothing".to_owned())),
                    size => size,
                };
                Ok(None)
            }
            // The first one names the file that was asked for, and MariaDB appends a checksum that
            // the driver cannot cut off: only the event after it tells that there are checksums.
            kind::ROTATE if !self.has_format => Ok(None),
            kind::FORMAT_DESCRIPTION => {
                self.has_format = true;
                Ok(self.passed())
            }
            kind::ROTATE => {
                let (offset, file) =
                    packet::rotate(body).map_err(|_| self.malformed("rotate", "too short"))?;
                self.position =
                    Position::new(&file, offset).map_err(|e| self.malformed("rotate", e))?;
                Ok(None)
            }
            kind::HEARTBEAT if !self.in_transaction => {
                Ok(Some(Event::Idle { end: self.position.clone() }))
            }
            _ => match packet::rows_form(kind) {
                Some(form) => self.rows(form, kind, body),
                None => self.other(kind, header.flags_raw()),
            },
        }
    }

    /// Moves the position behind the event.
    fn advance(&mut self, event: &WireEvent) -> Result<(), Error> {
        const ARTIFICIAL: u16 = 0x20;
        let header = event.header();
        let size = u64::from(header.event_size());
        if self.payload > 0 {
            // Inside a compressed transaction: the position is already behind all of it.
            self.payload = left_of_payload(self.payload, header.event_type_raw(), size)
                .map_err(|why| self.malformed("compressed transaction", why))?;
            return Ok(());
        }
        let kind = header.event_type_raw();
        let log_pos = u64::from(header.log_pos());
        if header.flags_raw() & ARTIFICIAL != 0 {
            return Ok(());
        }
        match (kind, log_pos) {
            (kind::HEARTBEAT, 0) | (kind::FORMAT_DESCRIPTION | kind::ROTATE, 0) => return Ok(()),
            // MariaDB from 11.4 leaves it out inside transactions.
            (_, 0) => self.position.offset += size,
            _ => self.position.offset = widened(log_pos, self.position.offset),
        }
        if kind != kind::HEARTBEAT {
            self.bytes += size;
        }
        Ok(())
    }

    fn map(&mut self, body: &[u8]) -> Result<(), Error> {
        let id = body.get(..6).map_or(0, |id| {
            id.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte))
        });
        if self.maps.get(&id).is_some_and(|(known, _)| known == body) {
            return Ok(());
        }
        let map =
            TableMap::parse(body).map_err(|Short| self.malformed("table map", "too short"))?;
        if self.maps.len() >= MOST_MAPS {
            self.maps.clear();
        }
        self.maps.insert(id, (body.to_vec(), Arc::new(map)));
        Ok(())
    }

    fn rows(&self, form: RowsForm, code: u8, body: &[u8]) -> Result<Option<Event>, Error> {
        let refusal = if code == kind::PARTIAL_UPDATE_ROWS {
            Some(
                "the source's binlog_row_value_options must be empty: it holds a partial JSON update",
            )
        } else {
            self.in_xa.then_some("XA transactions are not replicated")
        };
        let id = body.get(..6).map_or(0, |id| {
            id.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte))
        });
        let Some((_, map)) = self.maps.get(&id) else {
            return Err(self.malformed("rows", format!("no table map with number {id}")));
        };
        Rows::parse(Arc::clone(map), form, body.to_vec())
            .map(|rows| Some(Event::Rows(rows.refused(refusal))))
            .map_err(|Short| self.malformed("rows", format!("table {}", map.name())))
    }

    fn mariadb_gtid(&mut self, body: &[u8]) -> Result<Option<Event>, Error> {
        let gtid =
            packet::mariadb_gtid(body).map_err(|Short| self.malformed("GTID", "too short"))?;
        if gtid.standalone {
            return Ok(None);
        }
        self.in_transaction = true;
        self.in_xa = gtid.xa;
        Ok(Some(Event::Begin))
    }

    fn commit(&mut self, seconds: u64) -> Event {
        self.in_transaction = false;
        self.in_xa = false;
        let commit_time_us = self.commit_time_us.take().unwrap_or(seconds);
        Event::Commit { end: self.position.clone(), commit_time_us }
    }

    fn query(
        &mut self,
        query: Result<packet::Query, Short>,
        seconds: u64,
    ) -> Result<Option<Event>, Error> {
        let query = query.map_err(|Short| self.malformed("query", "too short"))?;
        let end = || self.position.clone();
        match query.sql.as_slice() {
            b"BEGIN" => {
                self.in_transaction = true;
                return Ok(Some(Event::Begin));
            }
            b"COMMIT" => return Ok(Some(self.commit(seconds))),
            b"ROLLBACK" => {
                let end = end();
                self.commit(seconds);
                return Ok(Some(Event::RolledBack { whole: true, end }));
            }
            sql if starts_with(sql, b"ROLLBACK") => {
                return Ok(Some(Event::RolledBack { whole: false, end: end() }));
            }
            sql if starts_with(sql, b"XA START") => {
                (self.in_transaction, self.in_xa) = (true, true);
                return Ok(Some(Event::Begin));
            }
            sql if starts_with(sql, b"SAVEPOINT") || starts_with(sql, b"XA END") => {
                return Ok(None);
            }
            _ => {}
        }
        let (sql, is_utf8) = match String::from_utf8(query.sql) {
            Ok(sql) => (sql, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        };
        let commit_time_us = if self.in_transaction {
            seconds
        } else {
            self.commit_time_us.take().unwrap_or(seconds)
        };
        Ok(Some(Event::Statement {
            schema: query.schema,
            sql,
            is_utf8,
            origin: query.origin,
            in_transaction: self.in_transaction,
            end: self.position.clone(),
            commit_time_us,
        }))
    }

    /// Events that change nothing here, and those that must not be passed over.
    fn other(&self, kind: u8, flags: u16) -> Result<Option<Event>, Error> {
        const IGNORABLE: u16 = 0x80;
        match kind {
            // Parts of a group of events, be it a transaction or not: no place to resume from.
            kind::INTVAR
            | kind::RAND
            | kind::USER_VAR
            | kind::ROWS_QUERY
            | kind::BEGIN_LOAD_QUERY
            | kind::TRANSACTION_CONTEXT
            | kind::MARIADB_ANNOTATE_ROWS => Ok(None),
            kind::STOP
            | kind::HEARTBEAT
            | kind::HEARTBEAT_V2
            | kind::IGNORABLE
            | kind::PREVIOUS_GTIDS
            | kind::VIEW_CHANGE
            | kind::MARIADB_CHECKPOINT
            | kind::MARIADB_GTID_LIST
            | kind::MARIADB_START_ENCRYPTION => Ok(self.passed()),
            kind::INCIDENT => {
                Err(self.unsupported("an incident", "the source lost events; copy the data anew"))
            }
            _ if flags & IGNORABLE != 0 => Ok(self.passed()),
            unknown => Err(self.unsupported(
                &format!("an event of unknown type {unknown}"),
                "the source is newer than this reader",
            )),
        }
    }

    fn passed(&self) -> Option<Event> {
        (!self.in_transaction).then(|| Event::Passed { end: self.position.clone() })
    }

    fn malformed(&self, what: &'static str, why: impl ToString) -> Error {
        Error::Malformed { position: self.position.to_string(), what, why: why.to_string() }
    }

    fn unsupported(&self, what: &str, hint: &'static str) -> Error {
        Error::Unsupported { position: self.position.to_string(), what: what.to_owned(), hint }
    }

    fn ended(&self, why: &'static str) -> Error {
        Error::Ended { endpoint: self.endpoint.clone(), position: self.position.to_string(), why }
    }
}

/// Bytes of a compressed transaction still to come behind an event of this kind and size. The driver
/// passes over a payload that it cannot read, or the rest of one, without a word; what comes next
/// then is an event that no payload holds.
fn left_of_payload(payload: u64, kind: u8, size: u64) -> Result<u64, String> {
    let stands_outside = matches!(
        kind,
        kind::GTID
            | kind::ANONYMOUS_GTID
            | kind::GTID_TAGGED
            | kind::TRANSACTION_PAYLOAD
            | kind::HEARTBEAT
            | kind::HEARTBEAT_V2
            | kind::ROTATE
            | kind::STOP
            | kind::FORMAT_DESCRIPTION
            | kind::PREVIOUS_GTIDS
    );
    match payload.checked_sub(size) {
        Some(left) if !stands_outside => Ok(left),
        _ => Err(format!("{payload} bytes of its events cannot be read")),
    }
}

/// An event's end offset, of which the binlog keeps 32 bits: a file with a large transaction may be
/// longer. Offsets only rise within a file, so one far below the last has begun anew.
fn widened(low_bits: u64, last: u64) -> u64 {
    const TURN: u64 = 1 << 32;
    let near = (last & !(TURN - 1)) | low_bits;
    if near + TURN / 2 < last { near + TURN } else { near }
}

/// Whether a statement begins with these words, whatever their case.
fn starts_with(sql: &[u8], words: &[u8]) -> bool {
    sql.get(..words.len()).is_some_and(|head| head.eq_ignore_ascii_case(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_transaction_is_never_cut_short_unseen() {
        assert_eq!(left_of_payload(300, kind::TABLE_MAP, 50), Ok(250));
        assert_eq!(left_of_payload(31, kind::XID, 31), Ok(0));
        for outside in [kind::GTID, kind::TRANSACTION_PAYLOAD, kind::HEARTBEAT, kind::ROTATE] {
            let why = left_of_payload(300, outside, 50).expect_err("events are missing");
            assert!(why.contains("300 bytes"), "{why}");
        }
        left_of_payload(30, kind::XID, 31).expect_err("longer than the payload said");
    }

    #[test]
    fn offsets_go_on_behind_four_gib() {
        assert_eq!(widened(500, 400), 500);
        // A server that starts a stream in the middle repeats an early event now and then.
        assert_eq!(widened(126, 9_000), 126);
        assert_eq!(widened(100, 0xffff_ff00), 0x1_0000_0064);
        assert_eq!(widened(0xffff_fff0, 0xffff_ff00), 0xffff_fff0);
        assert_eq!(widened(200, 0x1_0000_0064), 0x1_0000_00c8);
        assert_eq!(widened(10, 0x1_ffff_ff00), 0x2_0000_000a);
    }
}
