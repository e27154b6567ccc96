//! A connection that moves the protocol's bytes and does little else, for the hot paths.
//!
//! Everything that is not counted in microseconds goes through [`crate::mysql::Session`] and its
//! driver. Here a statement costs one encoding into a buffer that is kept, one send, and a look at
//! the first bytes of the answer; a row is handed out as the bytes that came. What it *is not*: a
//! driver. It has no pool, no types of columns, no compression and no files to upload, and it waits
//! for an answer as long as the server lives.

mod frames;
mod login;
mod stream;

use std::io;

use mysql_async::{DriverError, IoError};
use mysql_common::constants::Command;
use mysql_common::io::ParseBuf;
use mysql_common::packets::StmtPacket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use self::frames::Frames;
use self::stream::Stream;
use crate::mysql::cluster::{Search, Seat};
use crate::mysql::patience::CONNECT_LIMIT;
use crate::mysql::session::{self, shorten};
use crate::mysql::{Endpoint, Session};

/// What the driver calls an error, so that all connections' errors have the same classes.
type Result<T> = std::result::Result<T, mysql_async::Error>;

/// An integer without sign of eight bytes, as the type of a parameter.
const NUMBER: [u8; 2] = [mysql_common::constants::ColumnType::MYSQL_TYPE_LONGLONG as u8, 0x80];
/// A string of bytes, as the type of a parameter.
const BYTES: [u8; 2] = [mysql_common::constants::ColumnType::MYSQL_TYPE_VAR_STRING as u8, 0];

/// See the module.
#[derive(Debug)]
pub struct Raw {
    stream: Stream,
    frames: Frames,
    /// Packets to send.
    out: Vec<u8>,
    endpoint: Endpoint,
    /// Kept for as long as the connection.
    _seat: Option<Seat>,
    /// Whether an answer is owed: what was sent has not been answered to its end.
    owed: bool,
}

/// A statement that the server has prepared for this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    id: u32,
    parameters: u16,
}

/// The value of one parameter.
#[derive(Debug, Clone, Copy)]
pub enum Parameter<'a> {
    /// An integer.
    Number(u64),
    /// A string of bytes.
    Bytes(&'a [u8]),
}

/// What a statement did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows affected, as the server counts them.
    pub affected: u64,
    /// Rows returned.
    pub rows: u64,
}

impl Raw {
    /// Connects and sets the session's state as [`Session::connect`] does. One attempt, at
    /// each server of a cluster until one can be reached.
    ///
    /// # Errors
    /// [`session::Error::Connect`] when there is no connection to be had.
    pub async fn connect(endpoint: &Endpoint) -> std::result::Result<Raw, session::Error> {
        let mut search = Search::of(endpoint);
        let raw = loop {
            let greeted = async {
                let mut raw = login::log_in(search.at()).await?;
                raw.query(&Session::state()).await?;
                Ok(raw)
            };
            match session::within_limit(search.at(), CONNECT_LIMIT, greeted).await {
                Ok(raw) => break raw,
                Err(error) => search.failed(error)?,
            }
        };
        let (_, seat) = search.found();
        Ok(Raw { _seat: seat, ..raw })
    }

    /// Has a statement prepared.
    ///
    /// # Errors
    /// As the server or the network has it.
    pub async fn prepare(&mut self, sql: &str) -> Result<Prepared> {
        self.begin(Command::COM_STMT_PREPARE)?;
        self.out.extend_from_slice(sql.as_bytes());
        self.send().await?;
        let packet = self.answer_packet().await?;
        let packet = ParseBuf(packet).parse::<StmtPacket>(())?;
        for definitions in [packet.num_params(), packet.num_columns()] {
            if definitions > 0 {
                self.skip_to_end().await?;
            }
        }
        self.owed = false;
        Ok(Prepared { id: packet.statement_id(), parameters: packet.num_params() })
    }

    /// Executes a prepared statement; its rows are counted and dropped.
    ///
    /// # Errors
    /// As the server or the network has it.
    ///
    /// # Panics
    /// When there are more or fewer parameters than the statement has.
    pub async fn execute(
        &mut self,
        prepared: &Prepared,
        parameters: &[Parameter<'_>],
    ) -> Result<Answer> {
        assert_eq!(parameters.len(), usize::from(prepared.parameters), "parameters to a statement");
        self.begin(Command::COM_STMT_EXECUTE)?;
        encode(prepared.id, parameters, &mut self.out);
        self.send().await?;
        self.answer(|_| ()).await
    }

    /// Runs a statement as text; its rows are counted and dropped.
    ///
    /// # Errors
    /// As the server or the network has it.
    pub async fn query(&mut self, sql: &str) -> Result<Answer> {
        self.rows(sql, |_| ()).await
    }

    /// Runs a statement as text and hands out each of its rows: see [`cells`].
    ///
    /// # Errors
    /// As the server or the network has it.
    pub async fn rows(&mut self, sql: &str, each: impl FnMut(&[u8])) -> Result<Answer> {
        self.begin(Command::COM_QUERY)?;
        self.out.extend_from_slice(sql.as_bytes());
        self.send().await?;
        self.answer(each).await
    }

    /// Hands out the events that the server's binlog holds from a position on, as they come.
    #[cfg(test)]
    pub(crate) async fn binlog(
        &mut self,
        server_id: u32,
        from: &crate::mysql::Position,
        mut each: impl FnMut(&[u8]),
    ) -> Result<()> {
        /// Ends at the end of the binlog instead of waiting for more.
        const NON_BLOCK: u16 = 1;
        self.query("SET @source_binlog_checksum = @@GLOBAL.binlog_checksum").await?;
        self.begin(Command::COM_BINLOG_DUMP)?;
        self.out.extend_from_slice(&(from.offset as u32).to_le_bytes());
        self.out.extend_from_slice(&NON_BLOCK.to_le_bytes());
        self.out.extend_from_slice(&server_id.to_le_bytes());
        self.out.extend_from_slice(from.file.to_string().as_bytes());
        self.send().await?;
        loop {
            match self.answer_packet().await? {
                [0, event @ ..] => each(event),
                packet if is_end(packet) => break,
                packet => return Err(unexpected(packet)),
            }
        }
        self.owed = false;
        Ok(())
    }

    /// Says good-bye and closes; errors do not matter.
    pub async fn close(mut self) {
        if self.begin(Command::COM_QUIT).is_ok() {
            let _ = self.send().await;
        }
        let _ = self.stream.shutdown().await;
    }

    /// Wraps an error of this connection with the server and the statement.
    pub fn error(&self, statement: &str, source: mysql_async::Error) -> session::Error {
        session::Error::Statement {
            endpoint: self.endpoint.to_string(),
            statement: shorten(statement),
            source: Box::new(source),
        }
    }

    /// Begins a command in the buffer to send. A connection that still owes an answer is of no use:
    /// that answer would be taken for the next one.
    fn begin(&mut self, command: Command) -> Result<()> {
        if self.owed {
            let text = "an earlier answer was not waited for";
            return Err(io::Error::new(io::ErrorKind::NotConnected, text).into());
        }
        self.owed = true;
        self.frames.restart();
        self.out.clear();
        self.out.push(command as u8);
        Ok(())
    }

    /// Sends what is in the buffer.
    async fn send(&mut self) -> Result<()> {
        self.frames.wrap(&mut self.out);
        self.stream.write_all(&self.out).await.map_err(lost)?;
        // Only an encrypted stream keeps something back.
        self.stream.flush().await.map_err(lost)
    }

    /// The next packet.
    async fn packet(&mut self) -> Result<&[u8]> {
        let place = loop {
            if let Some(place) = self.frames.next().map_err(mysql_async::Error::Driver)? {
                break place;
            }
            if self.stream.read_buf(self.frames.room()).await.map_err(lost)? == 0 {
                return Err(lost(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "connection closed",
                )));
            }
        };
        Ok(self.frames.payload(place))
    }

    /// The first packet of an answer. An error of the server is a whole answer.
    async fn answer_packet(&mut self) -> Result<&[u8]> {
        let packet = self.packet().await?;
        if let [0xFF, error @ ..] = packet {
            let error = server_error(error);
            self.owed = false;
            return Err(error);
        }
        // Looked at again, since the compiler does not see that the branch above has let go of it.
        Ok(self.frames.latest())
    }

    async fn answer(&mut self, mut each: impl FnMut(&[u8])) -> Result<Answer> {
        let mut answer = Answer::default();
        match self.answer_packet().await? {
            [0x00, rest @ ..] => {
                answer.affected = length(&mut &*rest).ok_or_else(|| unexpected(rest))?;
            }
            // The server asks for a file.
            packet @ [0xFB, ..] | packet @ [] => return Err(unexpected(packet)),
            _ => {
                self.skip_to_end().await?;
                loop {
                    let packet = self.answer_packet().await?;
                    if is_end(packet) {
                        break;
                    }
                    each(packet);
                    answer.rows += 1;
                }
            }
        }
        self.owed = false;
        Ok(answer)
    }

    /// Passes over definitions of columns.
    async fn skip_to_end(&mut self) -> Result<()> {
        while !is_end(self.answer_packet().await?) {}
        Ok(())
    }
}

/// The values of a row of a text answer, `None` for NULL. A row that breaks off ends early.
pub fn cells(mut row: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if let [0xFB, rest @ ..] = row {
            row = rest;
            return Some(None);
        }
        let length = usize::try_from(length(&mut row)?).ok()?;
        let (cell, rest) = row.split_at_checked(length)?;
        row = rest;
        Some(Some(cell))
    })
}

/// The body of `COM_STMT_EXECUTE`: no cursor, no NULL among the values.
fn encode(id: u32, parameters: &[Parameter<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&1_u32.to_le_bytes());
    if parameters.is_empty() {
        return;
    }
    out.resize(out.len() + parameters.len().div_ceil(8), 0);
    out.push(1);
    for parameter in parameters {
        out.extend_from_slice(match parameter {
            Parameter::Number(_) => &NUMBER,
            Parameter::Bytes(_) => &BYTES,
        });
    }
    for parameter in parameters {
        match parameter {
            Parameter::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
            Parameter::Bytes(bytes) => {
                push_length(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// Appends an integer in the protocol's own encoding.
fn push_length(length: u64, out: &mut Vec<u8>) {
    let bytes = length.to_le_bytes();
    match length {
        0..=250 => out.push(bytes[0]),
        251..=0xFFFF => out.extend_from_slice(&[0xFC, bytes[0], bytes[1]]),
        0x1_0000..=0xFF_FFFF => out.extend_from_slice(&[0xFD, bytes[0], bytes[1], bytes[2]]),
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Takes an integer in the protocol's own encoding; `None` where there is none.
fn length(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let size = match first {
        0..=250 => 0,
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(size)?;
    *bytes = rest;
    if size == 0 {
        return Some(u64::from(first));
    }
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(number);
    Some(u64::from_le_bytes(wide))
}

/// Whether a packet ends a list: a row that begins so is longer.
fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&0xFE) && packet.len() < 9
}

/// What a server's error packet says, from behind its first byte. Before the login is through it has
/// no state.
fn server_error(packet: &[u8]) -> mysql_async::Error {
    let Some((code, rest)) = packet.split_first_chunk::<2>() else { return unexpected(packet) };
    let (state, message) = match rest.strip_prefix(b"#").and_then(|rest| rest.split_at_checked(5)) {
        Some(parts) => parts,
        None => (&b"HY000"[..], rest),
    };
    mysql_async::Error::Server(mysql_async::ServerError {
        code: u16::from_le_bytes(*code),
        message: String::from_utf8_lossy(message).into_owned(),
        state: String::from_utf8_lossy(state).into_owned(),
    })
}

fn unexpected(packet: &[u8]) -> mysql_async::Error {
    let payload = packet[..packet.len().min(64)].to_vec();
    mysql_async::Error::Driver(DriverError::UnexpectedPacket { payload })
}

fn lost(error: io::Error) -> mysql_async::Error {
    mysql_async::Error::Io(IoError::Io(error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_length_is_read_as_it_was_written(number: u64, shift in 0u32..64) {
            let (number, mut bytes) = (number >> shift, Vec::new());
            push_length(number, &mut bytes);
            bytes.push(7);
            let mut rest = &bytes[..];
            prop_assert_eq!(length(&mut rest), Some(number));
            prop_assert_eq!(rest, [7]);
        }

        #[test]
        fn whatever_a_row_holds_its_cells_come_to_an_end(row: Vec<u8>) {
            let total: usize = cells(&row).map(|cell| cell.map_or(1, <[u8]>::len)).sum();
            prop_assert!(total <= row.len());
        }

        #[test]
        fn cells_are_those_of_the_row(cells_in: Vec<Option<Vec<u8>>>) {
            let mut row = Vec::new();
            for cell in &cells_in {
                match cell {
                    None => row.push(0xFB),
                    Some(cell) => {
                        push_length(cell.len() as u64, &mut row);
                        row.extend_from_slice(cell);
                    }
                }
            }
            let found: Vec<_> = cells(&row).map(|cell| cell.map(<[u8]>::to_vec)).collect();
            prop_assert_eq!(found, cells_in);
        }
    }

    #[test]
    fn an_execution_is_encoded_as_the_protocol_has_it() {
        let mut out = Vec::new();
        encode(258, &[Parameter::Number(5), Parameter::Bytes(b"ab")], &mut out);
        let expected: &[&[u8]] = &[
            &[2, 1, 0, 0],
            &[0],
            &[1, 0, 0, 0],
            &[0],
            &[1],
            &[8, 0x80, 0xFD, 0],
            &[5, 0, 0, 0, 0, 0, 0, 0],
            b"\x02ab",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_servers_error_is_read_with_and_without_its_state() {
        for (packet, state) in
            [(&b"\x10\x04#08004Too many"[..], "08004"), (b"\x10\x04Too many", "HY000")]
        {
            let mysql_async::Error::Server(error) = server_error(packet) else {
                panic!("a server's error")
            };
            assert_eq!((error.code, &*error.message, &*error.state), (1040, "Too many", state));
        }
        assert!(matches!(server_error(b"\x10"), mysql_async::Error::Driver(_)));
    }
}
