//! A report before it has a look: sections of blocks. Numbers are text already (`quantity`).

use crate::record::Finding;

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    Plain,
    /// The answer itself.
    Strong,
    /// A reservation, such as *indicative*.
    Mark,
    /// The name of a file, knob or command.
    Name,
}

/// Text of one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The text.
    pub text: String,
    /// Its style.
    pub style: Style,
}

impl Span {
    /// A piece of text.
    pub fn new(style: Style, text: impl Into<String>) -> Span {
        Span { text: text.into(), style }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Group that neighbouring columns share, such as `lag by markers`; empty for none.
    pub group: String,
    /// What it shows.
    pub head: String,
    /// Its unit; empty for words.
    pub unit: String,
    /// Numbers stand to the right.
    pub numeric: bool,
}

impl Column {
    /// A column of no group.
    pub fn plain(head: &str, unit: &str, numeric: bool) -> Column {
        Column { group: String::new(), head: head.to_owned(), unit: unit.to_owned(), numeric }
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// One text for each column.
    pub cells: Vec<String>,
    /// The row of the pick.
    pub picked: bool,
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows, in a line.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// How many of the first columns say which row it is; a renderer that must split the table
    /// repeats them.
    pub keys: usize,
    /// Rows.
    pub rows: Vec<Row>,
    /// Remarks below it.
    pub notes: Vec<String>,
}

/// One bar of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Length, from 0 to 1.
    pub share: f64,
    /// The number at its end.
    pub text: String,
    /// The bar of the pick.
    pub picked: bool,
}

/// Horizontal bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub caption: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Sentences.
    Paragraph(Vec<Span>),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// Bars.
    Chart(Chart),
    /// A remark with its level and code.
    Finding(Finding),
    /// Text to be copied as it is.
    Code {
        /// Such as `yaml`.
        language: &'static str,
        /// The text, ending with a line feed.
        text: String,
    },
}

impl Block {
    /// A paragraph of plain text.
    pub fn text(text: impl Into<String>) -> Block {
        Block::Paragraph(vec![Span::new(Style::Plain, text)])
    }
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// 1 for a task, 2 for a part of it.
    pub level: u8,
    /// Its heading.
    pub heading: String,
    /// What it holds.
    pub blocks: Vec<Block>,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Title.
    pub title: String,
    /// What stands before the first section.
    pub lead: Vec<Block>,
    /// Sections in order.
    pub sections: Vec<Section>,
}
