//! What is written: workloads, key distributions, pace, drive.
//!
//! [`prepare`] makes tables and rows, [`drive`] lets clients commit ops at a pace and tells what
//! became of each. What an op *is* follows from seed and index alone; carrying it out is apart from
//! that. Nothing here knows that the server may be replicated from: probes and pipelines are
//! strangers to it.

mod client;
mod counters;
mod draws;
mod drive;
mod driven;
mod effect;
mod keys;
#[cfg(test)]
mod memory;
mod offer;
mod op;
mod pace;
mod pacer;
mod seed;
mod settings;
mod shard;
mod sysbench;

use std::time::Duration;

use crate::error::ErrorClass;
use crate::mysql::{Endpoint, Session, owner, session};

pub use counters::{Counters, Snapshot};
pub use drive::{DrivePlan, Stop, drive};
pub use driven::Driven;
pub use effect::Effect;
pub use pace::{Pace, Schedule};
pub use seed::{Seeded, prepare};
pub use settings::{KNOBS, PaceKind, PaceSettings, RandType, Script, Settings, Sysbench};

/// A failure to prepare or drive a workload.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pace makes no sense.
    #[error("understand the pace: {why}")]
    Pace {
        /// What is wrong.
        why: &'static str,
    },
    /// The workload makes no sense.
    #[error("understand the workload: {why}")]
    Settings {
        /// What is wrong.
        why: &'static str,
    },
    /// The tables are not there or hold fewer rows than the workload says.
    #[error(
        "use table {table}: its highest id is {highest}, the workload needs {expected} rows; prepare it with the same tables and table-size"
    )]
    NotPrepared {
        /// Table.
        table: String,
        /// Highest id found; 0 for an empty table.
        highest: u64,
        /// Rows that the workload relies on.
        expected: u64,
    },
    /// Rows with the ids of this drive are there already and hold something else.
    #[error("insert id {id} into {table}: the id is taken by a row that this drive did not write")]
    IdTaken {
        /// Table.
        table: String,
        /// Its id.
        id: u64,
    },
    /// A client lost its connection and could not make another in time.
    #[error("connect again within {waited:?}: {source}")]
    Reconnect {
        /// How long it tried.
        waited: Duration,
        /// The last attempt's failure.
        source: session::Error,
    },
    /// The pacer's thread could not be started.
    #[error("start the pacer's thread: {0}")]
    Pacer(std::io::Error),
    /// Cancelled before the first op: while tables were prepared, which leaves a part of the rows, or
    /// while clients connected.
    #[error("get ready: interrupted")]
    Interrupted,
    /// A client ended by a fault of its own.
    #[error("run a client to its end: {0}")]
    Client(#[from] tokio::task::JoinError),
    /// The schema could not be made.
    #[error(transparent)]
    Owner(#[from] owner::Error),
    /// The server refused.
    #[error(transparent)]
    Session(#[from] session::Error),
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Pace { .. } | Error::Settings { .. } => ErrorClass::User,
            Error::NotPrepared { .. }
            | Error::IdTaken { .. }
            | Error::Reconnect { .. }
            | Error::Pacer(_)
            | Error::Interrupted => ErrorClass::Lab,
            Error::Client(_) => ErrorClass::Bug,
            Error::Owner(error) => error.class(),
            Error::Session(error) => error.class(),
        }
    }
}

/// Drops the schema that [`prepare`] made; does nothing when there is none.
///
/// # Errors
/// When the schema is somebody else's, or the server refuses.
pub async fn cleanup(endpoint: &Endpoint, schema: &str) -> Result<(), Error> {
    let mut session = Session::connect(endpoint).await?;
    owner::drop_if_ours(&mut session, schema).await?;
    session.close().await;
    Ok(())
}
