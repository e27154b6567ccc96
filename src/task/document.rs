//! The text of a task as a tree of values that remember where they stand.
//!
//! Overrides are appended to the text as lines of their own, so that one kind of span serves both:
//! an offset behind the file's end belongs to an override. Nothing here knows what a key means.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Place, complaint};
use crate::task::error::Error;

/// Where it stands, its key, its value.
type Override<'a> = (Range<usize>, &'a str, Value<'a>);

/// A value with its place.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// A task's text with the overrides behind it.
#[derive(Debug)]
pub(super) struct Text {
    /// File to name in errors.
    name: String,
    whole: String,
    file_length: usize,
}

impl Text {
    pub(super) fn new(name: &str, file: &str, overrides: &[String]) -> Text {
        let mut whole = file.to_owned();
        for text in overrides {
            whole.push('\n');
            // A line break inside an override would look like the next override.
            whole.push_str(&text.replace(['\n', '\r'], " "));
        }
        Text { name: name.to_owned(), whole, file_length: file.len() }
    }

    /// The file's part.
    fn file(&self) -> &str {
        &self.whole[..self.file_length]
    }

    /// Parses the file's part.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'_>>, Error> {
        DeTable::parse(self.file()).map_err(|e| {
            let help = "a task is written in TOML; tasks/README.md explains every key";
            self.invalid(e.span().unwrap_or(0..0), e.message().replace('\n', " "), help)
        })
    }

    /// Overrides as (place, key, value): the value parsed as TOML, or taken as text where it is none.
    pub(super) fn overrides(&self) -> Result<Vec<Override<'_>>, Error> {
        let mut found = Vec::new();
        let mut start = self.file_length;
        if start == self.whole.len() {
            return Ok(found);
        }
        for line in self.whole[start..].split('\n').skip(1) {
            start += 1;
            let end = start + line.len();
            let Some((key, text)) = line.split_once('=') else {
                return Err(Error::Override {
                    text: line.to_owned(),
                    what: "it is not KEY=VALUE".to_owned(),
                    help: "for example --set sync.worker-count=8".to_owned(),
                });
            };
            found.push((
                start..start + key.len(),
                key.trim(),
                value_at(text, start + key.len() + 1),
            ));
            start = end;
        }
        Ok(found)
    }

    /// An error at a span.
    pub(super) fn invalid(
        &self,
        span: Range<usize>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Error {
        Error::Invalid { place: Box::new(self.place(span)), what: what.into(), help: help.into() }
    }

    /// An error about an override, which has no line of a file.
    pub(super) fn override_error(&self, span: &Range<usize>, what: String, help: &str) -> Error {
        Error::Override { text: self.place(span.clone()).text, what, help: help.to_owned() }
    }

    /// An error of TOML's deserializer, with words a reader of the file understands; `fallback` is
    /// the place to show where it names none.
    pub(super) fn mistyped(&self, error: &toml::de::Error, fallback: Range<usize>) -> Error {
        let span = error.span().filter(|span| !span.is_empty()).unwrap_or(fallback);
        let (what, help) = complaint(error);
        self.invalid(span, what, help)
    }

    fn place(&self, span: Range<usize>) -> Place {
        let is_override = span.start > self.file_length;
        let place = Place::of(&self.name, &self.whole, span);
        match is_override {
            true => Place { source: place.text.clone(), line: None, ..place },
            false => place,
        }
    }
}

/// A value from a text that stands at `offset`: TOML where it is TOML, else a string.
pub(super) fn value_at(text: &str, offset: usize) -> Value<'_> {
    let offset = offset + text.len() - text.trim_start().len();
    let text = text.trim();
    match DeValue::parse(text) {
        Ok(value) => shifted(value, offset),
        Err(_) => Spanned::new(offset..offset + text.len(), DeValue::String(Cow::Borrowed(text))),
    }
}

fn shifted(value: Value<'_>, by: usize) -> Value<'_> {
    let span = value.span();
    let inner = match value.into_inner() {
        DeValue::Array(array) => {
            DeValue::Array(array.into_iter().map(|value| shifted(value, by)).collect())
        }
        DeValue::Table(table) => {
            let shift = |(key, value): (Spanned<_>, _)| {
                let span = key.span();
                let key = Spanned::new(span.start + by..span.end + by, key.into_inner());
                (key, shifted(value, by))
            };
            DeValue::Table(table.into_iter().map(shift).collect())
        }
        plain => plain,
    };
    Spanned::new(span.start + by..span.end + by, inner)
}

/// The value at a dotted path.
pub(super) fn get<'a, 't>(root: &'a DeTable<'t>, path: &str) -> Option<&'a Value<'t>> {
    let mut names = path.split('.');
    let mut value = root.get(names.next()?)?;
    for name in names {
        value = value.get_ref().as_table()?.get(name)?;
    }
    Some(value)
}

/// Puts a value at a dotted path, with the tables above it; what stood there is replaced.
pub(super) fn put<'t>(root: &mut DeTable<'t>, path: &str, value: Value<'t>) {
    let span = value.span();
    let key = |name: &str| Spanned::new(span.clone(), Cow::Owned(name.to_owned()));
    let Some((name, rest)) = path.split_once('.') else {
        root.remove(path);
        root.insert(key(path), value);
        return;
    };
    let below = root
        .entry(key(name))
        .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
    if !below.get_ref().is_table() {
        *below = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
    }
    if let DeValue::Table(table) = below.get_mut() {
        put(table, rest, value);
    }
}

/// Takes a value at a dotted path away.
pub(super) fn remove(root: &mut DeTable<'_>, path: &str) {
    match path.split_once('.') {
        None => {
            root.remove(path);
        }
        Some((name, rest)) => {
            if let Some(DeValue::Table(table)) = root.get_mut(name).map(Spanned::get_mut) {
                remove(table, rest);
            }
        }
    }
}

/// The span of a key or, where there is none, of the nearest table above it; the start of the file
/// where there is not even that.
pub(super) fn span_of(root: &DeTable<'_>, path: &str) -> Range<usize> {
    let mut path = path;
    loop {
        if let Some(value) = get(root, path) {
            return value.span();
        }
        match path.rsplit_once('.') {
            Some((above, _)) => path = above,
            None => return 0..0,
        }
    }
}
