//! Which schemas dmbench may write: those that hold its owner table.
//!
//! On both ends, a schema is only ever written or dropped when it holds `_dmbench (run, created)`.
//! This is the one place that creates and drops schemas.

use crate::mysql::patience::{Patience, RETRY_LIMIT};
use crate::mysql::session::{Error as SessionError, Session, quote_name};

/// Name of the owner table.
pub const OWNER_TABLE: &str = "_dmbench";

/// A failure to take or give up a schema.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema exists and dmbench did not make it.
    #[error(
        "use schema {schema} on {endpoint}: it exists and holds no table {OWNER_TABLE}, so dmbench did not make it and will not touch it"
    )]
    NotOurs {
        /// Schema.
        schema: String,
        /// `user@address`.
        endpoint: String,
    },
    /// The server refused.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> crate::error::ErrorClass {
        match self {
            Error::NotOurs { .. } => crate::error::ErrorClass::Lab,
            Error::Session(error) => error.class(),
        }
    }
}

/// Whether the schema holds the owner table; `None` where there is no such schema.
///
/// # Errors
/// When the server refuses the question.
pub async fn is_ours(session: &mut Session, schema: &str) -> Result<Option<bool>, SessionError> {
    if !session.has_schema(schema).await? {
        return Ok(None);
    }
    // A view of that name, or a table of another shape, is somebody else's.
    let sql = "SELECT GROUP_CONCAT(CONCAT(c.column_name, ' ', c.data_type) \
               ORDER BY c.ordinal_position SEPARATOR ',') \
               FROM information_schema.tables t JOIN information_schema.columns c \
               ON c.table_schema = t.table_schema AND c.table_name = t.table_name \
               WHERE t.table_type = 'BASE TABLE' AND t.table_schema = ? AND t.table_name = ?";
    let rows = session.rows_with(sql, (schema, OWNER_TABLE)).await?;
    let shape = rows.first().and_then(|row| row.get::<Option<String>, usize>(0)).flatten();
    Ok(Some(shape.is_some_and(|shape| shape.to_lowercase() == "run varchar,created timestamp")))
}

/// All schemas that are ours, in order of names.
///
/// # Errors
/// When the server refuses the question.
pub async fn owned_schemas(session: &mut Session) -> Result<Vec<String>, SessionError> {
    let sql = "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name = ? \
               ORDER BY 1";
    let mut ours = Vec::new();
    for row in session.rows_with(sql, (OWNER_TABLE,)).await? {
        let schema: String = row.get(0).unwrap_or_default();
        if is_ours(session, &schema).await? == Some(true) {
            ours.push(schema);
        }
    }
    Ok(ours)
}

/// The run that made a schema of ours, and when (UTC); `None` where that was never written.
///
/// # Errors
/// When the server refuses the question.
pub async fn mark(
    session: &mut Session,
    schema: &str,
) -> Result<Option<(String, String)>, SessionError> {
    let sql = format!(
        "SELECT run, CAST(created AS CHAR) FROM {}.`{OWNER_TABLE}` ORDER BY created LIMIT 1",
        quote_name(schema)
    );
    let rows = session.rows(&sql).await?;
    Ok(rows.first().and_then(|row| Some((row.get(0)?, row.get(1)?))))
}

/// Makes the schema empty and ours: drops it when it is ours, refuses when it is somebody else's,
/// then creates it with the owner table, which names the run.
///
/// # Errors
/// [`Error::NotOurs`], or what the server refuses.
pub async fn recreate(session: &mut Session, schema: &str, run: &str) -> Result<(), Error> {
    drop_if_ours(session, schema).await?;
    create(session, schema, run).await
}

/// Makes the schema when it is missing; leaves one of ours as it is and refuses somebody else's.
///
/// # Errors
/// [`Error::NotOurs`], or what the server refuses.
pub async fn ensure(session: &mut Session, schema: &str, run: &str) -> Result<(), Error> {
    match is_ours(session, schema).await? {
        None => create(session, schema, run).await,
        Some(true) => Ok(()),
        Some(false) => Err(not_ours(session, schema)),
    }
}

/// Makes a schema that is known to be missing. A connection that is lost half-way must not leave a
/// schema without an owner, which nobody would ever touch again: the rest is done over another one.
async fn create(session: &mut Session, schema: &str, run: &str) -> Result<(), Error> {
    let lost = match create_over(session, schema, run).await {
        Err(error) if error.is_disconnect() => error,
        done => return Ok(done?),
    };
    let mut patience = Patience::new(RETRY_LIMIT);
    while patience.allows(lost.class()).await {
        let Ok(mut other) = Session::connect(session.endpoint()).await else { continue };
        match create_over(&mut other, schema, run).await {
            Err(error) if error.is_disconnect() => {}
            done => {
                other.close().await;
                done?;
                break;
            }
        }
    }
    // Whoever called has a session that is of no use any more.
    Err(lost.into())
}

async fn create_over(session: &mut Session, schema: &str, run: &str) -> Result<(), SessionError> {
    let name = quote_name(schema);
    session
        .execute(&format!(
            "CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        ))
        .await?;
    session
        .execute(&format!(
            "CREATE TABLE IF NOT EXISTS {name}.`{OWNER_TABLE}` (run VARCHAR(128) NOT NULL PRIMARY KEY, \
             created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        ))
        .await?;
    let insert = format!("INSERT IGNORE INTO {name}.`{OWNER_TABLE}` (run) VALUES (?)");
    session.rows_with(&insert, (run,)).await?;
    Ok(())
}

/// Drops the schema when it is ours; does nothing when it does not exist.
///
/// # Errors
/// [`Error::NotOurs`], or what the server refuses.
pub async fn drop_if_ours(session: &mut Session, schema: &str) -> Result<(), Error> {
    match is_ours(session, schema).await? {
        None => Ok(()),
        Some(true) => {
            session.execute(&format!("DROP DATABASE {}", quote_name(schema))).await?;
            Ok(())
        }
        Some(false) => Err(not_ours(session, schema)),
    }
}

fn not_ours(session: &Session, schema: &str) -> Error {
    Error::NotOurs { schema: schema.to_owned(), endpoint: session.endpoint().to_string() }
}
