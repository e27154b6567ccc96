//! The one writer to stdout, and what it knows of the terminal.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use serde::Serialize;

use crate::error::ErrorClass;
use crate::record::SCHEMA;

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("write to standard output: {source}")]
pub(super) struct Unwritten {
    source: io::Error,
}

impl Unwritten {
    /// What may be done about it.
    pub(super) const HELP: &str = "let standard output go elsewhere; what a run measured is in its \
                                   folder, and dmbench report prints it again";

    /// The machine does not allow what was asked.
    pub(super) fn class(&self) -> ErrorClass {
        ErrorClass::Lab
    }
}

/// Writes a result to stdout.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// What became of writing to stdout. A reader that has gone away (`| head`) is no failure.
pub(super) fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(Unwritten { source }.into())
        }
        _ => Ok(()),
    }
}

/// What begins with the version of its shape.
#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    result: &'a T,
}

/// Writes a result as JSON that begins with `"schema"`, with a line break behind it.
pub(super) fn print_json(result: &impl Serialize) -> anyhow::Result<()> {
    let versioned = Versioned { schema: SCHEMA, result };
    let mut text = serde_json::to_string_pretty(&versioned).context("write JSON")?;
    text.push('\n');
    print(&text)
}

/// Columns to lay a result out for: those of the terminal, 100 where there is none.
pub(super) fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| size.ws_col).filter(|columns| *columns >= 40).unwrap_or(100)
}

/// Whether a result may be coloured: stdout is a terminal and `NO_COLOR` is not set.
pub(super) fn color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Rows as columns that stand under each other, two spaces apart; numbers are the caller's to align.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let width = |text: &str| unicode_width::UnicodeWidthStr::width(text);
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest: Vec<usize> = (0..count)
        .map(|i| rows.iter().filter_map(|row| row.get(i)).map(|t| width(t)).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(&widest) {
            line.push_str(cell);
            line.push_str(&" ".repeat(widest - width(cell) + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A length of time for people: `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(super) fn lasting(time: std::time::Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds.round() as u64 {
        0 => format!("{} ms", time.as_millis()),
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lengths_read_well() {
        let shown = [0.4, 0.85, 59.4, 200.0, 7500.0].map(|s| lasting(Duration::from_secs_f64(s)));
        assert_eq!(shown, ["400 ms", "1 s", "59 s", "3 min 20 s", "2 h 5 min"]);
    }

    #[test]
    fn columns_stand_under_each_other() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(columns(&[row("a", "b"), row("4 × 2", "c")]), "a      b\n4 × 2  c\n");
    }
}
