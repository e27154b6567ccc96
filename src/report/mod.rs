//! How results look: one document, several renderers.
//!
//! [`Document::of`] puts records and advice into sections of paragraphs, facts, tables, charts,
//! findings and code; [`terminal`] and [`markdown`] render the same document, [`json`] writes what it
//! was made of for programs. Nothing here measures or decides, and nothing needs a server.

mod answer;
mod document;
mod grid;
pub mod json;
#[cfg(test)]
mod looks;
pub mod markdown;
mod measured;
pub mod quantity;
mod sections;
mod table;
pub mod terminal;

pub use document::{Bar, Block, Chart, Column, Document, Row, Section, Span, Style, Table};
