//! The sync unit: reads the source's binlog and applies it to the target with several workers.
//!
//! ```text
//! binlog ─► reader (decode) ─► [compact] ─► conflict (who may run beside whom) ─► worker 0…n ─► target
//!                                 │ barrier: checkpoint, DDL, conflict
//! ```
//!
//! As in DM, a source transaction is cut and joined freely: rows that share a key keep their order
//! because one worker gets them all, and where that is not possible a barrier waits for every
//! worker. Between barriers the target is no consistent image of the source. A crash is repaired by
//! reading again from the last checkpoint in *safe mode*: statements that may be executed twice. A DDL
//! stands between two checkpoints and is executed once.
//!
//! Not here: the first copy (dump, load), the process around the units.

mod apply;
mod cascade;
mod change;
mod compact;
mod conflict;
mod ddl;
mod define;
mod dispatch;
mod drive;
#[cfg(test)]
mod equivalence;
mod error;
mod key;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod memory;
mod origin;
mod plan;
mod reader;
mod retry;
mod run;
mod safety;
mod saver;
mod stage;
mod start;
mod statement;
mod stream;
mod table;
mod tracker;
mod watch;
mod worker;

pub use error::Error;
pub use run::{Setup, Synced, run};
