//! Where in a source's binlog something stands.
//!
//! Positions of one source compare as (numeric file index, offset); positions of different file
//! families do not compare at all. GTID sets are not positions.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A binlog file name such as `mysql-bin.000007`: a base name and a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BinlogFile {
    base: String,
    index: u64,
    digits: usize,
}

impl BinlogFile {
    /// The number behind the last dot.
    pub fn index(&self) -> u64 {
        self.index
    }
}

impl fmt::Display for BinlogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:0width$}", self.base, self.index, width = self.digits)
    }
}

/// A place in a binlog: a file and the byte offset at which the next event begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position {
    /// File.
    pub file: BinlogFile,
    /// Byte offset in the file.
    pub offset: u64,
}

/// A text that is no binlog position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read {text:?} as a binlog position such as mysql-bin.000001:4")]
pub struct ParsePositionError {
    text: String,
}

impl Position {
    /// A position from a file name as the server gives it.
    ///
    /// # Errors
    /// When the name does not end in a dot and digits.
    pub fn new(file: &str, offset: u64) -> Result<Position, ParsePositionError> {
        let error = || ParsePositionError { text: file.to_owned() };
        let (base, digits) = file.rsplit_once('.').ok_or_else(error)?;
        if base.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        let index = digits.parse().map_err(|_| error())?;
        Ok(Position {
            file: BinlogFile { base: base.to_owned(), index, digits: digits.len() },
            offset,
        })
    }

    /// Bytes from `earlier` to `self` when both are in one file, else `None`.
    pub fn bytes_since(&self, earlier: &Position) -> Option<u64> {
        (self.file == earlier.file).then(|| self.offset.checked_sub(earlier.offset))?
    }

    /// Whether `self` is at or behind `other`; `false` where they do not compare.
    pub fn reached(&self, other: &Position) -> bool {
        matches!(self.partial_cmp(other), Some(Ordering::Greater | Ordering::Equal))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Position) -> Option<Ordering> {
        (self.file.base == other.file.base)
            .then(|| (self.file.index, self.offset).cmp(&(other.file.index, other.offset)))
    }
}

/// As `mysql-bin.000001:1979`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

impl FromStr for Position {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Position, ParsePositionError> {
        let error = || ParsePositionError { text: text.to_owned() };
        let (file, offset) = text.rsplit_once(':').ok_or_else(error)?;
        Position::new(file, offset.parse().map_err(|_| error())?)
    }
}

impl TryFrom<String> for Position {
    type Error = ParsePositionError;

    fn try_from(text: String) -> Result<Position, ParsePositionError> {
        text.parse()
    }
}

impl From<Position> for String {
    fn from(position: Position) -> String {
        position.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn file_numbers_compare_as_numbers() {
        let before = Position::new("bin.999999", 900).expect("position");
        let after = Position::new("bin.1000000", 4).expect("position");
        assert!(after > before && after.reached(&before) && !before.reached(&after));
        let other = Position::new("relay.000001", 4).expect("position");
        assert_eq!(other.partial_cmp(&before), None);
        assert!(!other.reached(&before));
    }

    proptest! {
        #[test]
        fn text_and_back(base in "[a-z][a-z.-]{0,12}", index in 0u64..2_000_000, offset: u64) {
            let position = Position::new(&format!("{base}.{index:06}"), offset).expect("position");
            prop_assert_eq!(position.to_string().parse::<Position>(), Ok(position));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Position>();
        }
    }
}
