//! Comparing both ends, row for row, whatever servers they are.
//!
//! Tables are cut into chunks by ranges of an integer key; each end hashes the rows of a chunk
//! ([`canonical`] says how) and answers with a count and two sums. Chunks that differ are read row
//! by row and paired by key, so that missing, surplus and changed rows are told apart and shown by
//! example. Only columns that the servers cannot hash alike travel to the client.
//!
//! This reads both ends while nobody writes to them; it does not wait for that moment and does not
//! chase a moving target. The owner table is never compared.

mod canonical;
mod difference;
mod exact;
mod plan;
mod reading;
mod tables;
mod work;

use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::event::Events;
use crate::mysql::{Endpoint, Position, Session};
use crate::record::Verdict;

/// A failure to compare. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server refused or went away.
    #[error(transparent)]
    Session(#[from] crate::mysql::session::Error),
    /// The text of a row is beyond what a server computes with.
    #[error("hash the rows of {table}: a value is too large for the server's max_allowed_packet")]
    TooLarge {
        /// `schema.table`.
        table: String,
    },
    /// A server answered with something else than sums and hashes.
    #[error("understand the answer to a comparison of {table}")]
    Answer {
        /// `schema.table`.
        table: String,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::TooLarge { .. } => ErrorClass::Lab,
            Error::Answer { .. } => ErrorClass::Bug,
        }
    }
}

/// Compares all base tables of the schemas, but for the owner table and the tables named in
/// `ignore`. Both ends must be quiet meanwhile. Cancelling ends in [`Verdict::Unchecked`].
///
/// # Errors
/// When a server cannot be reached or refuses a query; a difference is no error.
pub async fn compare(
    source: &Endpoint,
    target: &Endpoint,
    schemas: &[String],
    ignore: &[&str],
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Verdict, Error> {
    tokio::select! {
        () = cancel.cancelled() => {
            Ok(Verdict::Unchecked { reason: "interrupted before all rows were compared".into() })
        }
        verdict = compare_all(source, target, schemas, ignore, events) => verdict,
    }
}

async fn compare_all(
    source: &Endpoint,
    target: &Endpoint,
    schemas: &[String],
    ignore: &[&str],
    events: &Events,
) -> Result<Verdict, Error> {
    let mut pair = work::SessionPair::connect(source, target).await?;
    let before = position(&mut pair.source).await;
    let survey = tables::survey(&mut pair, schemas, ignore).await?;
    let compared = work::compare(source, target, pair, &survey, events).await?;
    let (mut pair, rows, difference) = (compared.pair, compared.rows, compared.difference);
    let mut examples = survey.remarks.clone();
    examples.extend(compared.examples);
    if difference.is_empty() && examples.is_empty() {
        if let Some(reason) = survey.incomparable.first() {
            return Ok(Verdict::Unchecked { reason: reason.clone() });
        }
        if survey.tables == 0 {
            let reason = format!("there is no table to compare in {}", schemas.join(", "));
            return Ok(Verdict::Unchecked { reason });
        }
        return Ok(Verdict::Equal { tables: survey.tables, rows });
    }
    examples.truncate(difference::MOST_EXAMPLES);
    if difference.at_least {
        examples.push("more rows differ than were told apart: the counts are lower bounds".into());
    }
    let after = position(&mut pair.source).await;
    if let (Some(before), Some(after)) = (before, after)
        && before != after
    {
        examples.push(format!(
            "the source was written to meanwhile: its binlog went from {before} to {after}"
        ));
    }
    Ok(Verdict::Differs {
        missing: difference.missing + survey.missing,
        surplus: difference.surplus + survey.surplus,
        changed: difference.changed,
        examples,
    })
}

/// The source's position where it has one to tell.
async fn position(session: &mut Session) -> Option<Position> {
    session.binlog_position().await.ok()
}
