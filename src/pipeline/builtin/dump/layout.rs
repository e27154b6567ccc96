//! Names and fixed texts of the dump folder, in dumpling's layout.
//!
//! `{schema}-schema-create.sql`, `{schema}.{table}-schema.sql`, `{schema}.{table}.{number}.sql` and,
//! written last, `metadata`. Bytes that a file name or this layout cannot hold are written as `%XX`
//! by dumpling's rule, so that a dot always separates schema, table and number.

use std::path::Path;
use std::str::FromStr;

use jiff::Timestamp;

use crate::mysql::Position;

/// First lines of every SQL file: what a session needs to read the rest as it was meant.
pub(in crate::pipeline::builtin) const HEADER: &str = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n\
     /*!40101 SET NAMES utf8mb4*/;\n/*!40103 SET TIME_ZONE='+00:00'*/;\n";

/// Name of the file that is written last.
pub(in crate::pipeline::builtin) const METADATA: &str = "metadata";

/// Files of one chunk that a file number has room for.
pub(super) const FILES_PER_CHUNK: u64 = 10_000;

/// What a file of the folder holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::pipeline::builtin) enum File {
    /// `CREATE DATABASE`.
    Schema {
        /// Schema.
        schema: String,
    },
    /// `CREATE TABLE`.
    Table {
        /// Schema.
        schema: String,
        /// Table.
        table: String,
    },
    /// Rows.
    Rows {
        /// Schema.
        schema: String,
        /// Table.
        table: String,
        /// Chunk number times 10,000 plus the file's number in the chunk.
        number: u64,
    },
}

impl File {
    /// The file's name.
    pub(in crate::pipeline::builtin) fn name(&self) -> String {
        match self {
            File::Schema { schema } => format!("{}-schema-create.sql", encode(schema)),
            File::Table { schema, table } => {
                format!("{}.{}-schema.sql", encode(schema), encode(table))
            }
            File::Rows { schema, table, number } => {
                format!("{}.{}.{number:09}.sql", encode(schema), encode(table))
            }
        }
    }

    /// Reads a name; `None` for a file that is not of this layout.
    pub(in crate::pipeline::builtin) fn from_name(name: &str) -> Option<File> {
        let stem = name.strip_suffix(".sql")?;
        if let Some(schema) = stem.strip_suffix("-schema-create") {
            return Some(File::Schema { schema: decode(schema)? });
        }
        if let Some(both) = stem.strip_suffix("-schema") {
            let (schema, table) = both.split_once('.')?;
            return Some(File::Table { schema: decode(schema)?, table: decode(table)? });
        }
        let mut parts = stem.split('.');
        let (schema, table, number) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(File::Rows {
            schema: decode(schema)?,
            table: decode(table)?,
            number: number.parse().ok()?,
        })
    }
}

/// Dumpling's rule: control bytes, `%"*./:<>?\|` and the dash of `-schema` become `%XX`.
fn encode(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, letter) in name.char_indices() {
        let dash_of_schema = letter == '-'
            && name.as_bytes()[at + 1..]
                .get(..6)
                .is_some_and(|b| b.eq_ignore_ascii_case(b"schema"));
        if letter < ' ' || dash_of_schema || "%\"*./:<>?\\|".contains(letter) {
            out.push_str(&format!("%{:02X}", u32::from(letter)));
        } else {
            out.push(letter);
        }
    }
    out
}

fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (high, low) = (char::from(bytes.next()?), char::from(bytes.next()?));
        let value = high.to_digit(16)? * 16 + low.to_digit(16)?;
        out.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(out).ok()
}

/// What the `metadata` file says: where the snapshot stands and how much was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// When the dump began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// The binlog position of all rows.
    pub position: Position,
    /// The GTID set at that position in the source's notation; empty where there is none.
    pub gtid: String,
    /// Rows written.
    pub rows: u64,
    /// Bytes of SQL text written to files of rows.
    pub bytes: u64,
}

impl Metadata {
    /// Dumpling's text with two lines more, `Rows` and `Bytes`, which DM passes over.
    pub(super) fn to_text(&self) -> String {
        let time = |t: Timestamp| t.strftime("%Y-%m-%d %H:%M:%S").to_string();
        format!(
            "Started dump at: {}\nSHOW MASTER STATUS:\n\tLog: {}\n\tPos: {}\n\tGTID:{}\n\n\
             Rows: {}\nBytes: {}\nFinished dump at: {}\n",
            time(self.began),
            self.position.file,
            self.position.offset,
            self.gtid,
            self.rows,
            self.bytes,
            time(self.ended),
        )
    }

    /// Reads a `metadata` file of a finished dump.
    ///
    /// # Errors
    /// When there is none or it lacks a line, as after a dump that was interrupted.
    pub async fn read(folder: &Path) -> std::io::Result<Metadata> {
        let text = tokio::fs::read_to_string(folder.join(METADATA)).await?;
        Metadata::from_text(&text).ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidData, "the metadata file is incomplete")
        })
    }

    fn from_text(text: &str) -> Option<Metadata> {
        fn number<T: FromStr>(text: Option<&str>) -> Option<T> {
            text?.parse().ok()
        }
        let line = |label: &str| {
            text.lines().find_map(|l| l.trim_start().strip_prefix(label)).map(str::trim)
        };
        let time = |label: &str| -> Option<Timestamp> {
            let civil: jiff::civil::DateTime = line(label)?.parse().ok()?;
            Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
        };
        Some(Metadata {
            began: time("Started dump at:")?,
            ended: time("Finished dump at:")?,
            position: Position::new(line("Log:")?, number(line("Pos:"))?).ok()?,
            gtid: line("GTID:").unwrap_or_default().to_owned(),
            rows: number(line("Rows:")).unwrap_or(0),
            bytes: number(line("Bytes:")).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_as_dumpling_writes_them() {
        let rows = |schema: &str, table: &str, number| {
            File::Rows { schema: schema.into(), table: table.into(), number }.name()
        };
        assert_eq!(rows("sbtest", "sbtest1", 20_000), "sbtest.sbtest1.000020000.sql");
        assert_eq!(rows("a.b", "x/y z`", 0), "a%2Eb.x%2Fy z`.000000000.sql");
        let table = File::Table { schema: "d".into(), table: "t-schema".into() };
        assert_eq!(table.name(), "d.t%2Dschema-schema.sql");
        assert_eq!(File::from_name("metadata"), None);
        assert_eq!(File::from_name("a.b.c.sql"), None);
        assert_eq!(File::from_name("a.b.1.2.sql"), None);
    }

    #[test]
    fn metadata_reads_back() {
        let time = |text: &str| text.parse::<Timestamp>().expect("time");
        let metadata = Metadata {
            began: time("2026-11-30T21:04:05Z"),
            ended: time("2026-11-30T21:05:00Z"),
            position: Position::new("binlog.000003", 1979).expect("position"),
            gtid: "0-1-22".into(),
            rows: 7,
            bytes: 99,
        };
        assert_eq!(Metadata::from_text(&metadata.to_text()), Some(metadata.clone()));
        let cut = metadata.to_text().replace("Finished dump at", "Fini");
        assert_eq!(Metadata::from_text(&cut), None);
    }

    proptest! {
        #[test]
        fn names_read_back(schema in "\\PC{1,20}", table in ".{1,20}", number in 0u64..99_999_999) {
            for file in [
                File::Schema { schema: schema.clone() },
                File::Table { schema: schema.clone(), table: table.clone() },
                File::Rows { schema: schema.clone(), table: table.clone(), number },
            ] {
                let name = file.name();
                prop_assert!(!name.contains('/'));
                prop_assert_eq!(File::from_name(&name), Some(file));
            }
        }
    }
}
