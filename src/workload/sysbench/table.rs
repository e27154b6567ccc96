//! The tables and the rows they begin with.

use std::io::Write as _;

use super::super::draws::{Draws, Stream};
use super::super::keys::Keys;
use super::text::Text;
use crate::mysql::session::quote_name;

/// `schema`.`sbtestN` in backquotes; tables count from 1.
pub(in super::super) fn quoted(schema: &str, table: u32) -> String {
    format!("{}.`sbtest{table}`", quote_name(schema))
}

/// The table without its secondary index.
pub(in super::super) fn create_table_sql(schema: &str, table: u32) -> String {
    format!(
        "CREATE TABLE {} (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, \
         c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id)) \
         DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin",
        quoted(schema, table)
    )
}

/// The secondary index, made after the rows.
pub(in super::super) fn create_index_sql(schema: &str, table: u32) -> String {
    format!("CREATE INDEX k_{table} ON {} (k)", quoted(schema, table))
}

/// What a row holds at the start: the value of `k` and the texts, a pure function of seed, table
/// and id.
pub(super) fn seeded(seed: u64, table: u32, id: u64, keys: &Keys) -> (u64, Text) {
    // A table's ids fit 31 bits.
    let mut draws = Draws::new(seed, Stream::Seed, (u64::from(table) << 32) | id);
    (keys.draw(&mut draws), Text(draws.fork()))
}

/// Appends `(id,k,'c','pad')`. The texts hold nothing that needs escaping.
pub(in super::super) fn push_row_sql(
    out: &mut Vec<u8>,
    seed: u64,
    table: u32,
    id: u64,
    keys: &Keys,
) {
    let (k, text) = seeded(seed, table, id, keys);
    write!(out, "({id},{k},'").expect("a vector takes every write");
    out.extend_from_slice(&text.c());
    out.extend_from_slice(b"','");
    out.extend_from_slice(&text.pad());
    out.extend_from_slice(b"')");
}
