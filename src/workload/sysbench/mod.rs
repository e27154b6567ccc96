//! sysbench's OLTP tables and scripts.
//!
//! Tables, statements, texts and key formulas are sysbench 1.0.20's. What differs, so that the same
//! seed means the same ops for any number of clients: everything random follows from seed and index
//! instead of a generator per thread; `oltp_insert` gives explicit ids, the next free ones of each
//! table in turn, instead of leaving them to AUTO_INCREMENT; its tables come in rounds in which each
//! is used once.

mod op;
mod perform;
mod table;
mod text;

#[cfg(test)]
pub(super) use op::Op;
pub(super) use op::{Oltp, check};
pub(super) use table::{create_index_sql, create_table_sql, push_row_sql, quoted};
