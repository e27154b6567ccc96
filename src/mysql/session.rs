//! One connection to a server, with the few statements everybody needs.
//!
//! A session adds to `mysql_async::Conn` what the rest relies on: errors that name the server and
//! the statement, flavour and version read once, and a session state that is the same everywhere
//! (UTC, `utf8mb4`). It is not a pool; who needs several connections opens several sessions.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, IoError, OptsBuilder, Params, Row};

use crate::error::ErrorClass;
use crate::mysql::cluster::{Search, Seat};
use crate::mysql::patience::{
    ANSWER_LIMIT, CLOSE_LIMIT, CONNECT_LIMIT, LOCK_LIMIT, Patience, RETRY_LIMIT,
};
use crate::mysql::{Endpoint, Position, Server, tls};

/// A connection with the server's identity.
#[derive(Debug)]
pub struct Session {
    conn: Conn,
    server: Server,
    endpoint: Endpoint,
    /// Kept for as long as the connection.
    _seat: Option<Seat>,
    /// How long a statement may take; zero once one took longer.
    limit: Duration,
}

/// A failure while talking to a server. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made.
    #[error("connect to {endpoint}{}: {source}", within(*tried))]
    Connect {
        /// `user@address`.
        endpoint: String,
        /// How long it was tried again; zero for a single attempt.
        tried: Duration,
        /// What the driver says.
        source: Box<mysql_async::Error>,
    },
    /// A statement failed.
    #[error("run \"{statement}\" on {endpoint}: {source}")]
    Statement {
        /// `user@address`.
        endpoint: String,
        /// The statement, shortened.
        statement: String,
        /// What the driver says.
        source: Box<mysql_async::Error>,
    },
    /// The answer has not the expected shape.
    #[error("understand the answer of {endpoint} to \"{statement}\": {why}")]
    Answer {
        /// `user@address`.
        endpoint: String,
        /// The statement, shortened.
        statement: String,
        /// What is missing or odd.
        why: String,
    },
}

/// Error codes of MySQL, MariaDB and TiDB that may go away when the statement or transaction is
/// tried again: too many connections (of all, of one account), deadlock, lock wait, schema or column
/// being changed, locks expired, TiKV and PD trouble (busy, timeout, region unavailable, stale
/// command, …), write conflict, retryable transaction.
pub const TRANSIENT_CODES: [u16; 21] = [
    1040, 1203, 1205, 1213, 1020, 8002, 8005, 8022, 8027, 8028, 8229, 8245, 9001, 9002, 9003, 9004,
    9005, 9007, 9008, 9010, 9011,
];

/// Those of them that say that something else wanted the same rows: deadlock, lock wait, record changed
/// meanwhile, write conflict, locks not resolved in time, retryable transaction.
pub const CONFLICT_CODES: [u16; 8] = [1020, 1205, 1213, 8002, 8005, 8022, 9004, 9007];

/// Error codes with which the session is at its end although the server still said so: shutdown,
/// trouble with the network, killed (MySQL during a statement and between two, MariaDB), idle too
/// long, and TiDB's undetermined result of a commit. What became of the statement is open.
pub const LOST_CODES: [u16; 10] = [1053, 1158, 1159, 1160, 1161, 1317, 1927, 3169, 4031, 8501];

impl Error {
    /// The server's error code, when the server answered with one.
    pub fn code(&self) -> Option<u16> {
        match self.driver()? {
            mysql_async::Error::Server(error) => Some(error.code),
            _ => None,
        }
    }

    /// Whether another transaction was in the way.
    pub fn is_conflict(&self) -> bool {
        self.code().is_some_and(|code| CONFLICT_CODES.contains(&code))
    }

    /// Whether the connection is of no use any more.
    pub fn is_disconnect(&self) -> bool {
        match self.driver() {
            Some(mysql_async::Error::Server(error)) => LOST_CODES.contains(&error.code),
            Some(mysql_async::Error::Io(_) | mysql_async::Error::Driver(_)) => true,
            _ => false,
        }
    }

    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self.driver() {
            Some(mysql_async::Error::Server(error))
                if TRANSIENT_CODES.contains(&error.code) || LOST_CODES.contains(&error.code) =>
            {
                ErrorClass::Transient
            }
            Some(error) if tls::refusal(error).is_some() => ErrorClass::Lab,
            Some(mysql_async::Error::Io(IoError::Io(_))) => ErrorClass::Transient,
            Some(mysql_async::Error::Driver(
                DriverError::ConnectionClosed
                | DriverError::PacketOutOfOrder
                | DriverError::UnexpectedPacket { .. },
            )) => ErrorClass::Transient,
            Some(_) => ErrorClass::Lab,
            None => ErrorClass::Bug,
        }
    }

    fn driver(&self) -> Option<&mysql_async::Error> {
        match self {
            Error::Connect { source, .. } | Error::Statement { source, .. } => Some(source),
            Error::Answer { .. } => None,
        }
    }
}

impl Session {
    /// Connects, sets UTC and `utf8mb4`, and asks the server what it is. One attempt, of at most
    /// [`CONNECT_LIMIT`], at each server of a cluster until one can be reached.
    ///
    /// # Errors
    /// [`Error::Connect`] when there is no connection to be had.
    pub async fn connect(endpoint: &Endpoint) -> Result<Session, Error> {
        Session::connect_with(endpoint, |opts| opts).await
    }

    /// As [`Session::connect`], tried again for [`RETRY_LIMIT`] where that may help: for a server
    /// that was there a moment ago.
    ///
    /// # Errors
    /// [`Error::Connect`] with the last attempt's failure.
    pub async fn reach(endpoint: &Endpoint) -> Result<Session, Error> {
        let mut patience = Patience::new(RETRY_LIMIT);
        loop {
            let mut error = match Session::connect(endpoint).await {
                Ok(session) => return Ok(session),
                Err(error) => error,
            };
            if !patience.allows(error.class()).await {
                if let Error::Connect { tried, .. } = &mut error {
                    *tried = patience.waited();
                }
                return Err(error);
            }
        }
    }

    /// As [`Session::connect`] with options that the caller makes of [`Endpoint::opts`].
    ///
    /// # Errors
    /// [`Error::Connect`] when there is no connection to be had.
    pub async fn connect_with(
        endpoint: &Endpoint,
        with: impl Fn(OptsBuilder) -> OptsBuilder,
    ) -> Result<Session, Error> {
        let mut search = Search::of(endpoint);
        let (conn, server) = loop {
            let at = search.at();
            match within_limit(at, CONNECT_LIMIT, admitted(at, with(at.opts()))).await {
                Ok(greeted) => break greeted,
                Err(error) => search.failed(error)?,
            }
        };
        let (endpoint, seat) = search.found();
        Ok(Session { conn, server, endpoint, _seat: seat, limit: ANSWER_LIMIT })
    }

    /// The statement that sets the state of every connection.
    pub(super) fn state() -> String {
        let wait = LOCK_LIMIT.as_secs();
        format!("SET NAMES utf8mb4, time_zone = '+00:00', lock_wait_timeout = {wait}")
    }

    /// Gives statements from now on another time than [`ANSWER_LIMIT`] to be answered in. An answer
    /// that came too late is a lost connection.
    pub fn wait_up_to(&mut self, limit: Duration) {
        if !self.limit.is_zero() {
            self.limit = limit;
        }
    }

    /// What the server is.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where it is: of a cluster, the server that this connection leads to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The driver's connection, for hot paths.
    pub fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Gives the driver's connection away, for a binlog stream.
    pub fn into_conn(self) -> Conn {
        self.conn
    }

    /// Runs a statement by the text protocol and drops its answer. Returns the affected rows as the
    /// server counted them.
    ///
    /// # Errors
    /// [`Error::Statement`].
    pub async fn execute(&mut self, statement: impl AsRef<[u8]>) -> Result<u64, Error> {
        let statement = statement.as_ref();
        match in_time(&mut self.limit, self.conn.query_drop(statement)).await {
            Ok(()) => Ok(self.conn.affected_rows()),
            // Enough to be cut to what is shown.
            Err(source) => {
                let shown = &statement[..statement.len().min(1_024)];
                Err(self.statement_error(&String::from_utf8_lossy(shown), source))
            }
        }
    }

    /// Runs a query by the text protocol and returns its rows.
    ///
    /// # Errors
    /// [`Error::Statement`].
    pub async fn rows(&mut self, statement: &str) -> Result<Vec<Row>, Error> {
        match in_time(&mut self.limit, self.conn.query(statement)).await {
            Ok(rows) => Ok(rows),
            Err(source) => Err(self.statement_error(statement, source)),
        }
    }

    /// Runs a prepared query with parameters and returns its rows.
    ///
    /// # Errors
    /// [`Error::Statement`].
    pub async fn rows_with(
        &mut self,
        statement: &str,
        params: impl Into<Params> + Send,
    ) -> Result<Vec<Row>, Error> {
        match in_time(&mut self.limit, self.conn.exec(statement, params.into())).await {
            Ok(rows) => Ok(rows),
            Err(source) => Err(self.statement_error(statement, source)),
        }
    }

    /// The first column of the first row, or `None` for no row or NULL.
    ///
    /// # Errors
    /// [`Error::Statement`]; [`Error::Answer`] when the value is of another type.
    pub async fn value<T: mysql_common::value::convert::FromValue>(
        &mut self,
        statement: &str,
    ) -> Result<Option<T>, Error> {
        let rows = self.rows(statement).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        match row.get_opt::<Option<T>, usize>(0) {
            Some(Ok(value)) => Ok(value),
            _ => Err(self.answer_error(statement, "the first column has an unexpected type")),
        }
    }

    /// The source's current binlog position.
    ///
    /// # Errors
    /// [`Error::Statement`], or [`Error::Answer`] when binary logging is off.
    pub async fn binlog_position(&mut self) -> Result<Position, Error> {
        let statement = self.server.binlog_status_sql();
        let rows = self.rows(statement).await?;
        let Some(row) = rows.first() else {
            return Err(self.answer_error(statement, "no row: the binary log is off"));
        };
        let file: Option<String> = row.get("File");
        let offset: Option<u64> = row.get("Position");
        let (Some(file), Some(offset)) = (file, offset) else {
            return Err(self.answer_error(statement, "no columns File and Position"));
        };
        Position::new(&file, offset).map_err(|e| self.answer_error(statement, &e.to_string()))
    }

    /// Whether a schema exists.
    ///
    /// # Errors
    /// [`Error::Statement`].
    pub async fn has_schema(&mut self, schema: &str) -> Result<bool, Error> {
        let sql = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?";
        let rows = self.rows_with(sql, (schema,)).await?;
        Ok(rows.first().and_then(|row| row.get::<u64, usize>(0)).unwrap_or(0) > 0)
    }

    /// Asks whether the server is there, by a packet that counts as no statement.
    ///
    /// # Errors
    /// [`Error::Statement`].
    pub async fn ping(&mut self) -> Result<(), Error> {
        match in_time(&mut self.limit, self.conn.ping()).await {
            Ok(()) => Ok(()),
            Err(source) => Err(self.statement_error("ping", source)),
        }
    }

    /// Closes the connection in good order; errors while closing do not matter.
    pub async fn close(self) {
        let _ = in_time(&mut CLOSE_LIMIT.clone(), self.conn.disconnect()).await;
    }

    /// Wraps a driver's error with this server and the statement.
    pub fn statement_error(&self, statement: &str, source: mysql_async::Error) -> Error {
        Error::Statement {
            endpoint: self.endpoint.to_string(),
            statement: shorten(statement),
            source: Box::new(source),
        }
    }

    fn answer_error(&self, statement: &str, why: &str) -> Error {
        Error::Answer {
            endpoint: self.endpoint.to_string(),
            statement: shorten(statement),
            why: why.to_owned(),
        }
    }
}

/// Bounds the time for a connection to be made in.
pub(super) async fn within_limit<T>(
    endpoint: &Endpoint,
    limit: Duration,
    made: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, Error> {
    let made = tokio::time::timeout(limit, made).await.unwrap_or_else(|_| Err(silent(limit)));
    made.map_err(|source| Error::Connect {
        endpoint: endpoint.to_string(),
        tried: Duration::ZERO,
        source: Box::new(source),
    })
}

/// Logs in, by another way where the first fails and the endpoint's TLS mode allows one.
async fn admitted(
    endpoint: &Endpoint,
    opts: OptsBuilder,
) -> Result<(Conn, Server), mysql_async::Error> {
    match greet(opts.clone().into()).await {
        Err(error) => match endpoint.tls.after(&error) {
            Some(ssl) => greet(opts.ssl_opts(ssl).into()).await,
            None => Err(error),
        },
        greeted => greeted,
    }
}

/// Logs in, sets the session's state, learns what the server is.
async fn greet(opts: mysql_async::Opts) -> Result<(Conn, Server), mysql_async::Error> {
    let mut conn = Conn::new(opts).await?;
    conn.query_drop(Session::state()).await?;
    let text: Option<String> = conn.query_first("SELECT VERSION()").await?;
    Ok((conn, Server::from_version(&text.unwrap_or_default())))
}

/// Bounds a wait for the server. A connection whose answer came too late is of no use any more, which
/// the error says: the late answer would be taken for that of the next statement, so there is none. The
/// limit is zero from then on.
async fn in_time<T>(
    limit: &mut Duration,
    answer: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, mysql_async::Error> {
    if limit.is_zero() {
        let text = "the connection was given up, since an answer did not come in time";
        return Err(std::io::Error::new(std::io::ErrorKind::NotConnected, text).into());
    }
    match tokio::time::timeout(*limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(silent(std::mem::take(limit))),
    }
}

fn silent(limit: Duration) -> mysql_async::Error {
    let text = format!("no answer within {} s", limit.as_secs());
    std::io::Error::new(std::io::ErrorKind::TimedOut, text).into()
}

fn within(tried: Duration) -> String {
    match tried.as_secs() {
        0 => String::new(),
        seconds => format!(" within {seconds} s"),
    }
}

/// At most 160 characters of a statement in one line, for errors and logs.
pub fn shorten(statement: &str) -> String {
    const MOST: usize = 160;
    let in_one_line = |text: &str| text.replace(['\n', '\r'], " ");
    match statement.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", in_one_line(&statement[..end])),
        None => in_one_line(statement),
    }
}

/// An identifier in backquotes, with backquotes inside doubled.
pub fn quote_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The COMMIT that was answered after all must not pass for the answer to a ROLLBACK.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_over_a_connection_whose_answer_is_overdue() {
        let mut limit = Duration::from_secs(3);
        let late = in_time::<()>(&mut limit, std::future::pending()).await;
        assert!(late.expect_err("late").to_string().contains("no answer within 3 s"));
        let next = in_time::<()>(&mut limit, async { unreachable!("it is not begun") }).await;
        assert!(next.expect_err("given up").to_string().contains("given up"));
    }

    #[test]
    fn a_statement_is_shown_in_one_line() {
        assert_eq!(shorten("INSERT INTO `t` VALUES\n(1)"), "INSERT INTO `t` VALUES (1)");
        let long = format!("VALUES\r\n{}", "(1),\n".repeat(50));
        let shown = shorten(&long);
        assert!(shown.ends_with('…') && shown.chars().count() == 161 && !shown.contains('\n'));
    }

    #[test]
    fn a_killed_session_is_lost_and_may_be_had_again() {
        let told = |code| Error::Statement {
            endpoint: "bench@127.0.0.1:3306".to_owned(),
            statement: "COMMIT".to_owned(),
            source: Box::new(mysql_async::Error::Server(mysql_async::ServerError {
                code,
                message: String::new(),
                state: "HY000".to_owned(),
            })),
        };
        for (code, lost, class) in [
            (1927, true, ErrorClass::Transient),
            (4031, true, ErrorClass::Transient),
            (1213, false, ErrorClass::Transient),
            (8028, false, ErrorClass::Transient),
            (9005, false, ErrorClass::Transient),
            (9007, false, ErrorClass::Transient),
            (8025, false, ErrorClass::Lab),
            (1062, false, ErrorClass::Lab),
        ] {
            assert_eq!((told(code).is_disconnect(), told(code).class()), (lost, class), "{code}");
        }
    }
}
