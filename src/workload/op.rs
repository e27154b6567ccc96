//! The seam between what an op is and carrying it out.
//!
//! `pick` is a pure function, `perform` is I/O. Between them stands the client ([`super::client`]),
//! which decides what happens to an op that did not commit at once; a workload only says how a try
//! went.

use super::Error;
use super::effect::Effect;
use crate::mysql::session;

/// How a try of an op went wrong.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused in a way that may go away, such as a deadlock. Nothing of the op is
    /// committed and the session is outside a transaction: the whole op may be tried again.
    Refused {
        /// The server's error code.
        code: u16,
    },
    /// The connection is gone or of no use.
    Lost {
        /// The server's last error code, 0 for none.
        code: u16,
        /// Whether the statement that commits had been sent, so that the op may be committed.
        committing: bool,
    },
    /// Trying again makes no sense.
    Fatal(Error),
}

/// What reading back told about an op whose commit was never answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is committed, with this effect.
    Committed(Effect),
    /// It is not committed and never will be: it may be tried again.
    NotCommitted,
    /// The rows do not tell.
    Unknown,
}

/// A kind of op on one server. All methods are called by many clients at once.
pub(super) trait Workload: Send + Sync + 'static {
    /// One op, without anything that a server says.
    type Op: Send + Sync;
    /// A session with what it needs to perform ops.
    type Client: Send;

    /// The op of an index: a pure function of seed and index, whoever performs it.
    fn pick(&self, seed: u64, index: u64) -> Self::Op;

    /// How many rows the op changes when all goes as it should.
    fn row_changes(&self, op: &Self::Op) -> u64;

    /// Opens a session.
    fn connect(&self) -> impl Future<Output = Result<Self::Client, session::Error>> + Send;

    /// Tries the op once. `Ok` means the server confirmed the commit.
    fn perform(
        &self,
        client: &mut Self::Client,
        op: &Self::Op,
    ) -> impl Future<Output = Result<Effect, Failure>> + Send;

    /// Finds out, on a new session, what became of an op whose commit was sent and not answered.
    /// May carry the op out where that cannot happen twice.
    fn settle(
        &self,
        seed: u64,
        client: &mut Self::Client,
        op: &Self::Op,
    ) -> impl Future<Output = Result<Fate, Failure>> + Send;

    /// Ends a session in good order.
    fn close(&self, client: Self::Client) -> impl Future<Output = ()> + Send;
}
