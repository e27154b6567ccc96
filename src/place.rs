//! A place in a text that a person wrote, shown with line and caret, and what TOML says of it in
//! words that such a person understands.
//!
//! Task files and lab files share it. It knows no key of either.

use std::ops::Range;

/// A place in a file's text, or in a setting of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File, or `--set KEY=VALUE`.
    pub source: String,
    /// Line from 1 with its text; `None` where the text is an override.
    pub line: Option<usize>,
    /// Text of the line.
    pub text: String,
    /// Column of the first character meant, from 1, in characters.
    pub column: usize,
    /// How many characters are meant; at least one.
    pub length: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}:{}", self.source, self.column),
            None => write!(f, "--set {}", self.source),
        }
    }
}

impl Place {
    /// The place of a span in a file's text.
    pub fn of(source: &str, whole: &str, span: Range<usize>) -> Place {
        let floor = |mut at: usize| {
            at = at.min(whole.len());
            while !whole.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(span.start), floor(span.end.max(span.start)));
        let before = &whole[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = &whole[line_start..];
        let text = rest[..rest.find('\n').unwrap_or(rest.len())].trim_end_matches('\r');
        let column = whole[line_start..start].chars().count() + 1;
        let line_end = line_start + text.len();
        let length = whole[start.min(line_end)..end.min(line_end).max(start.min(line_end))]
            .chars()
            .count()
            .max(1);
        Place {
            source: source.to_owned(),
            line: Some(before.matches('\n').count() + 1),
            text: text.to_owned(),
            column,
            length,
        }
    }

    /// The line with a caret under what is meant, ready to print; ends without a line break.
    pub fn excerpt(&self) -> String {
        let number = self.line.map_or(String::new(), |line| line.to_string());
        let gutter = " ".repeat(number.len());
        // Tabs stay tabs, so that the caret stands right whatever their width.
        let indent: String = self
            .text
            .chars()
            .take(self.column.saturating_sub(1))
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let carets = "^".repeat(self.length.max(1));
        format!("{gutter} |\n{number} | {}\n{gutter} | {indent}{carets}", self.text)
    }
}

/// What TOML's reader says, as what is wrong and what to do; the latter may be empty.
pub fn complaint(error: &toml::de::Error) -> (String, String) {
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((word, expected)) if message.starts_with("unknown variant") => {
            (format!("unknown word \"{word}\""), alternatives(word, expected))
        }
        Some((word, allowed)) if message.starts_with("unknown field") => {
            (format!("unknown key \"{word}\""), alternatives(word, allowed))
        }
        Some((word, _)) if message.starts_with("missing field") => {
            (format!("key \"{word}\" is missing"), String::new())
        }
        _ if message.contains("\"friendly\" duration format") => {
            ("this is no duration".to_owned(), DURATION_HELP.to_owned())
        }
        _ => (in_words(message), String::new()),
    }
}

const DURATION_HELP: &str = "write it as \"500ms\", \"20s\" or \"5m\"";

/// A message of serde's without the names of Rust's types.
fn in_words(message: &str) -> String {
    let mut message = message.replace('\n', " ");
    for (from, to) in [
        ("expected u32", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("an unsigned duration string", "a duration such as \"500ms\", \"20s\" or \"5m\""),
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
    ] {
        message = message.replace(from, to);
    }
    message
}

/// `did you mean X? allowed: …`.
pub fn alternatives(word: &str, allowed: &[&str]) -> String {
    let list = allowed.join(", ");
    match nearest(word, allowed) {
        Some(near) => format!("did you mean \"{near}\"? allowed here: {list}"),
        None => format!("allowed here: {list}"),
    }
}

/// The name among `candidates` that `name` was most likely meant to be; `None` where none is near.
pub fn nearest<'c>(name: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let (far, nearest) =
        candidates.iter().map(|c| (distance(name, c), *c)).min_by_key(|(far, _)| *far)?;
    (far <= 1.max(name.chars().count() / 3)).then_some(nearest)
}

/// Levenshtein's distance in characters, of at most the first 64 of each.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let change = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
