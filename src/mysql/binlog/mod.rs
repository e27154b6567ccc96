//! The source's binlog as a stream of events that replication needs.
//!
//! [`Stream`] reads a live server's binlog from a position and gives [`Event`]s: transactions row by
//! row, statements outside transactions, and how far the stream has come. Values are decoded here
//! and not by the driver, which knows no DATE, shows YEAR 0 as 1900 and builds a column description
//! for every value. What cannot be replicated exactly (row images that are not full, statement
//! format, XA) ends in an error with the table's name.
//!
//! Not here: which schemas matter, what a statement means, how changes are applied.

#[cfg(test)]
mod bytes;
mod cursor;
mod deflated;
mod error;
mod json;
mod packet;
mod row;
mod stream;
mod table_map;

pub use error::Error;
pub use packet::Origin;
pub use row::{Kind, Row, RowPair, Rows};
pub use stream::{Event, Stream};
pub use table_map::{Layout, TableMap};
