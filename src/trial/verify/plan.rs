//! Which columns, which key and which SQL compare one table.
//!
//! A plan is made from both ends' definitions; it holds no session and reads no row.

use crate::mysql::schema::{Column, Table};
use crate::mysql::session::quote_name;
use crate::trial::verify::canonical::{Kind, Mismatch, Shape};
use crate::trial::verify::exact::Zero;

/// The SQL of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Side {
    /// Table in backquotes.
    pub(super) table: String,
    /// Arguments of CONCAT that make a row's text, without the columns in [`Side::exact`].
    pub(super) row_text: String,
    /// Expressions that show the key's columns; for a table without a key one expression that
    /// shows the row's beginning.
    pub(super) key: Vec<String>,
    /// Columns that the client compares.
    pub(super) exact: Vec<String>,
}

/// How a table is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// `schema.table`.
    pub(super) name: String,
    /// Names of the key's columns; empty for a table without a key, whose rows are compared as a
    /// multiset.
    pub(super) key: Vec<String>,
    /// Integer column that leads the key, in backquotes: ranges of it are the chunks. Integers sort
    /// alike on every server; text does not.
    pub(super) chunk_by: Option<String>,
    /// Kinds of the columns that the client compares.
    pub(super) exact: Vec<Kind>,
    /// Whether those of them that are zero are told apart by their sign.
    pub(super) zero: Zero,
    /// SQL of the source.
    pub(super) source: Side,
    /// SQL of the target.
    pub(super) target: Side,
}

/// What two definitions of one table come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pairing {
    /// Rows can be compared.
    Comparable(Box<Plan>),
    /// The definitions alone differ: why.
    Differs(String),
    /// This build cannot compare a column's type: why.
    Incomparable(String),
}

/// Makes the plan for a table that both ends have.
pub(super) fn pair(source: &Table, target: &Table, zero: Zero) -> Pairing {
    let only_in = |one: &Table, other: &Table| -> Vec<String> {
        let has = |name: &str| other.columns.iter().any(|column| column.name == name);
        one.columns.iter().filter(|c| !has(&c.name)).map(|c| c.name.clone()).collect()
    };
    let (ours, theirs) = (only_in(source, target), only_in(target, source));
    if !ours.is_empty() || !theirs.is_empty() {
        return Pairing::Differs(format!(
            "columns differ: only in the source [{}], only in the target [{}]",
            ours.join(", "),
            theirs.join(", ")
        ));
    }
    let mut columns = Vec::new();
    for (index, column) in source.columns.iter().enumerate() {
        let Some(other) = target.columns.iter().find(|c| c.name == column.name) else { continue };
        match Shape::of(column, other) {
            Ok(shape) => columns.push(Paired { index, shape, source: column, target: other }),
            Err(Mismatch::Kinds) => {
                return Pairing::Differs(format!(
                    "column {} is {} in the source and {} in the target",
                    column.name, column.column_type, other.column_type
                ));
            }
            Err(Mismatch::Unknown(data_type)) => {
                return Pairing::Incomparable(format!(
                    "column {} of type {data_type} cannot be compared",
                    column.name
                ));
            }
        }
    }
    Pairing::Comparable(Box::new(plan(source, target, &columns, zero)))
}

/// A column of both ends.
struct Paired<'a> {
    index: usize,
    shape: Shape,
    source: &'a Column,
    target: &'a Column,
}

fn plan(source: &Table, target: &Table, columns: &[Paired<'_>], zero: Zero) -> Plan {
    let key = key_columns(source, columns);
    let chunk_by = key
        .first()
        .filter(|c| c.source.is_integer() && c.target.is_integer() && !c.target.nullable)
        .map(|c| quote_name(&c.shape.name));
    let side = |table: &Table, of: fn(&Paired<'_>) -> Column| {
        let texts: Vec<String> = std::iter::once("''".to_owned())
            .chain(columns.iter().filter(|c| !c.shape.is_exact()).map(|c| c.shape.row_text(&of(c))))
            .collect();
        let shown = |c: &&Paired<'_>| format!("CONCAT({})", c.shape.shown(&of(c)));
        Side {
            table: table.quoted(),
            row_text: texts.join(","),
            key: if key.is_empty() {
                vec![beginning(columns, of)]
            } else {
                key.iter().map(shown).collect()
            },
            exact: columns
                .iter()
                .filter(|c| c.shape.is_exact())
                .map(|c| quote_name(&c.shape.name))
                .collect(),
        }
    };
    Plan {
        name: format!("{}.{}", source.schema, source.name),
        key: key.iter().map(|c| c.shape.name.clone()).collect(),
        chunk_by,
        exact: columns.iter().filter(|c| c.shape.is_exact()).map(|c| c.shape.kind).collect(),
        zero,
        source: side(source, |c| c.source.clone()),
        target: side(target, |c| c.target.clone()),
    }
}

/// The columns of the source's row key; none where the client has to compare one of them.
fn key_columns<'a, 'b>(source: &Table, columns: &'b [Paired<'a>]) -> Vec<&'b Paired<'a>> {
    let Some(key) = source.row_key() else { return Vec::new() };
    let key: Vec<&Paired<'_>> = key
        .parts
        .iter()
        .filter_map(|part| columns.iter().find(|column| column.index == part.column))
        .collect();
    if key.iter().any(|column| column.shape.is_exact()) { Vec::new() } else { key }
}

/// The first 60 characters of a row, for the examples of a table without a key.
fn beginning(columns: &[Paired<'_>], of: fn(&Paired<'_>) -> Column) -> String {
    let values: Vec<String> = columns
        .iter()
        .filter(|c| !c.shape.is_exact())
        .map(|c| format!("IFNULL(LEFT({},20),'NULL')", c.shape.shown(&of(c))))
        .collect();
    if values.is_empty() {
        return "''".to_owned();
    }
    format!("LEFT(CONCAT_WS(', ',{}),60)", values.join(","))
}
