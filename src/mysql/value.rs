//! Values as the binlog carries them, and how they are written into SQL text.
//!
//! A literal written here gives exactly the value it came from when a session with
//! `character_set_client = utf8mb4`, `time_zone = '+00:00'` and a `sql_mode` without
//! `NO_BACKSLASH_ESCAPES` and `ANSI_QUOTES` executes it. What a column cannot hold is for the server
//! to refuse; this module guesses nothing.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::mysql::schema::Column;

/// A calendar date and a time of day, either of which may be zero in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 0 to 12.
    pub month: u8,
    /// Day, 0 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute.
    pub minute: u8,
    /// Second.
    pub second: u8,
    /// Microseconds.
    pub micros: u32,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A FLOAT.
    Float(f32),
    /// A DOUBLE.
    Double(f64),
    /// Text in the column's character set, or bytes of a column without one.
    Bytes(Box<[u8]>),
    /// A DECIMAL as text such as `-12.50`.
    Decimal(Box<str>),
    /// A DATE.
    Date {
        /// Year, 0 to 9999.
        year: u16,
        /// Month, 0 to 12.
        month: u8,
        /// Day, 0 to 31.
        day: u8,
    },
    /// A DATETIME.
    DateTime(DateTime),
    /// A TIMESTAMP: time since 1970 in UTC; 0 seconds is the zero date.
    Timestamp {
        /// Seconds.
        seconds: u32,
        /// Microseconds.
        micros: u32,
    },
    /// A TIME.
    Time {
        /// Whether it is before zero.
        negative: bool,
        /// Hours, up to 838.
        hours: u16,
        /// Minutes.
        minutes: u8,
        /// Seconds.
        seconds: u8,
        /// Microseconds.
        micros: u32,
    },
    /// A YEAR, 0 or 1901 to 2155.
    Year(u16),
    /// A BIT of up to 64 bits.
    Bit(u64),
    /// An ENUM's member by its number from 1; 0 is the empty error value.
    Enum(u16),
    /// A SET's members as bits.
    Set(u64),
    /// JSON as text.
    Json(Box<str>),
}

impl Value {
    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Bytes in memory, for bounding queues.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Value::Bytes(bytes) => bytes.len(),
            Value::Decimal(text) | Value::Json(text) => text.len(),
            _ => 0,
        }
    }

    /// Appends the value as an SQL literal for this column.
    pub fn write_literal(&self, column: &Column, out: &mut Vec<u8>) {
        const INFALLIBLE: &str = "writing to memory cannot fail";
        match self {
            Value::Null => out.extend_from_slice(b"NULL"),
            Value::Int(number) => write!(out, "{number}").expect(INFALLIBLE),
            Value::UInt(number) | Value::Bit(number) | Value::Set(number) => {
                write!(out, "{number}").expect(INFALLIBLE);
            }
            // As the shortest DOUBLE: the server reads that exactly and rounding it to FLOAT gives
            // the same FLOAT, while the shortest FLOAT could be rounded twice.
            Value::Float(number) => write!(out, "{:e}", f64::from(*number)).expect(INFALLIBLE),
            Value::Double(number) => write!(out, "{number:e}").expect(INFALLIBLE),
            Value::Bytes(bytes) => match &column.charset {
                None => write_hex(bytes, out),
                Some(charset) => write_text(bytes, charset, out),
            },
            Value::Decimal(text) => out.extend_from_slice(text.as_bytes()),
            Value::Date { year, month, day } => {
                write!(out, "'{year:04}-{month:02}-{day:02}'").expect(INFALLIBLE);
            }
            Value::DateTime(moment) => moment.write(out),
            Value::Timestamp { seconds, micros } => {
                DateTime::from_unix(*seconds, *micros).write(out);
            }
            Value::Time { negative, hours, minutes, seconds, micros } => {
                let sign = if *negative { "-" } else { "" };
                write!(out, "'{sign}{hours:02}:{minutes:02}:{seconds:02}").expect(INFALLIBLE);
                write_micros(*micros, out);
                out.push(b'\'');
            }
            // As text of four digits: the number 0 would be compared as the year 2000.
            Value::Year(year) => write!(out, "'{year:04}'").expect(INFALLIBLE),
            Value::Enum(number) => write!(out, "{number}").expect(INFALLIBLE),
            Value::Json(text) => write_quoted(text.as_bytes(), out),
        }
    }
}

impl DateTime {
    /// The moment so many seconds after 1970 in UTC; for 0 and 0 the zero date, as TIMESTAMP has it.
    pub fn from_unix(seconds: u32, micros: u32) -> DateTime {
        if seconds == 0 && micros == 0 {
            return DateTime {
                year: 0,
                month: 0,
                day: 0,
                hour: 0,
                minute: 0,
                second: 0,
                micros: 0,
            };
        }
        let (days, rest) = (i64::from(seconds / 86_400), seconds % 86_400);
        // Days to civil date, after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        DateTime {
            year: year as u16,
            month: month as u8,
            day: (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u8,
            hour: (rest / 3_600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
            micros,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let DateTime { year, month, day, hour, minute, second, micros } = self;
        write!(out, "'{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
            .expect("writing to memory cannot fail");
        write_micros(*micros, out);
        out.push(b'\'');
    }
}

fn write_micros(micros: u32, out: &mut Vec<u8>) {
    if micros > 0 {
        write!(out, ".{micros:06}").expect("writing to memory cannot fail");
    }
}

/// Text of a column with this character set: as a quoted string where it can be told in UTF-8, else
/// as hex with an introducer, which the server converts by its own tables.
fn write_text(bytes: &[u8], charset: &str, out: &mut Vec<u8>) {
    if bytes.is_ascii() && !matches!(charset, "ucs2" | "utf16" | "utf16le" | "utf32") {
        return write_quoted(bytes, out);
    }
    match charset {
        "utf8mb4" | "utf8mb3" | "utf8" if std::str::from_utf8(bytes).is_ok() => {
            write_quoted(bytes, out);
        }
        "latin1" => write_quoted(latin1_to_utf8(bytes).as_bytes(), out),
        // TiDB has the character set but not its introducer (error 1115).
        "gbk" => {
            out.extend_from_slice(b"CONVERT(");
            write_hex(bytes, out);
            out.extend_from_slice(b" USING gbk)");
        }
        _ => {
            out.push(b'_');
            out.extend_from_slice(charset.as_bytes());
            out.push(b' ');
            write_hex(bytes, out);
        }
    }
}

/// MySQL's latin1 is Windows-1252 with the five holes filled by control characters of the same
/// number, so every byte has a character and comes back as the same byte.
pub(crate) fn latin1_to_utf8(bytes: &[u8]) -> String {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    let mut text = String::with_capacity(bytes.len() * 2);
    for &byte in bytes {
        text.push(match byte {
            0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
            _ => char::from(byte),
        });
    }
    text
}

/// Bytes as `x'…'`.
pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"x'");
    write_digits(bytes, out);
    out.push(b'\'');
}

/// Bytes as pairs of hexadecimal digits.
pub(crate) fn write_digits(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(bytes.len() * 2 + 1);
    for &byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Text as `'…'` with the characters escaped that MySQL's lexer treats specially.
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'\'');
    let mut plain = 0;
    for (at, &byte) in text.iter().enumerate() {
        let escaped = match byte {
            b'\'' => b'\'',
            b'\\' => b'\\',
            0 => b'0',
            b'\n' => b'n',
            b'\r' => b'r',
            0x1a => b'Z',
            _ => continue,
        };
        out.extend_from_slice(&text[plain..at]);
        out.extend_from_slice(&[b'\\', escaped]);
        plain = at + 1;
    }
    out.extend_from_slice(&text[plain..]);
    out.push(b'\'');
}

/// The value for people, in error texts: shortened, never whole blobs.
pub(crate) fn describe(value: &Value, column: &Column) -> String {
    let mut out = Vec::new();
    value.write_literal(column, &mut out);
    let text = String::from_utf8_lossy(&out);
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        let _ = write!(short, "… ({} bytes)", text.len());
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column(data_type: &str, charset: Option<&str>) -> Column {
        Column {
            name: "c".to_owned(),
            data_type: data_type.to_owned(),
            column_type: data_type.to_owned(),
            charset: charset.map(str::to_owned),
            collation: None,
            nullable: true,
            generated: false,
        }
    }

    fn literal(value: &Value, charset: Option<&str>) -> String {
        let mut out = Vec::new();
        value.write_literal(&column("any", charset), &mut out);
        String::from_utf8(out).expect("literals are UTF-8")
    }

    /// What MySQL's lexer makes of a quoted string.
    fn unquoted(literal: &str) -> Vec<u8> {
        let inner = literal.strip_prefix('\'').and_then(|l| l.strip_suffix('\'')).expect("quoted");
        let mut text = Vec::new();
        let mut bytes = inner.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => text.push(match bytes.next().expect("something is escaped") {
                    b'0' => 0,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b'Z' => 0x1a,
                    other => other,
                }),
                b'\'' => panic!("the string ends too early"),
                other => text.push(other),
            }
        }
        text
    }

    #[test]
    fn literals_are_what_mysql_reads() {
        let moment =
            DateTime { year: 2024, month: 2, day: 30, hour: 1, minute: 2, second: 3, micros: 40 };
        let time =
            Value::Time { negative: true, hours: 838, minutes: 59, seconds: 9, micros: 10_000 };
        for (value, text) in [
            (Value::Null, "NULL"),
            (Value::Int(i64::MIN), "-9223372036854775808"),
            (Value::UInt(u64::MAX), "18446744073709551615"),
            (Value::Decimal("-0.50".into()), "-0.50"),
            (Value::Date { year: 0, month: 0, day: 0 }, "'0000-00-00'"),
            (Value::DateTime(moment), "'2024-02-30 01:02:03.000040'"),
            (Value::Timestamp { seconds: 0, micros: 0 }, "'0000-00-00 00:00:00'"),
            (Value::Timestamp { seconds: 0, micros: 1 }, "'1970-01-01 00:00:00.000001'"),
            (Value::Timestamp { seconds: u32::MAX, micros: 0 }, "'2106-02-07 06:28:15'"),
            (time, "'-838:59:09.010000'"),
            (Value::Year(0), "'0000'"),
            (Value::Enum(3), "3"),
            (Value::Set(u64::MAX), "18446744073709551615"),
            (Value::Bytes(b"\x00\xffa".as_slice().into()), "x'00FF61'"),
            (Value::Bytes(b"".as_slice().into()), "x''"),
        ] {
            assert_eq!(literal(&value, None), text);
        }
    }

    #[test]
    fn text_is_told_in_utf8_or_by_its_own_character_set() {
        let text = |bytes: &[u8], charset| literal(&Value::Bytes(bytes.into()), Some(charset));
        assert_eq!(text("Grüße".as_bytes(), "utf8mb4"), "'Grüße'");
        assert_eq!(text(b"Gr\xfc\x80\x81", "latin1"), "'Grü€\u{81}'");
        assert_eq!(text(b"plain", "gbk"), "'plain'");
        assert_eq!(text(b"\xba\xba\x5c", "gbk"), "CONVERT(x'BABA5C' USING gbk)");
        assert_eq!(text(b"\x00A", "utf16"), "_utf16 x'0041'");
        assert_eq!(text(b"\xff", "utf8mb4"), "_utf8mb4 x'FF'");
    }

    proptest! {
        #[test]
        fn quoted_text_reads_back(text in any::<String>()) {
            let value = Value::Bytes(text.as_bytes().into());
            prop_assert_eq!(unquoted(&literal(&value, Some("utf8mb4"))), text.as_bytes());
        }

        #[test]
        fn hex_reads_back(bytes in any::<Vec<u8>>()) {
            let text = literal(&Value::Bytes(bytes.as_slice().into()), None);
            let digits = text.strip_prefix("x'").and_then(|t| t.strip_suffix('\'')).expect("hex");
            let back: Vec<u8> = (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits"))
                .collect();
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn every_latin1_byte_has_a_character_of_its_own(bytes in any::<Vec<u8>>()) {
            let text = latin1_to_utf8(&bytes);
            prop_assert_eq!(text.chars().count(), bytes.len());
            for (character, byte) in text.chars().zip(&bytes) {
                prop_assert_eq!(character.is_ascii(), byte.is_ascii());
            }
        }

        #[test]
        fn doubles_read_back_to_the_bit(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            let text = literal(&Value::Double(number), None);
            prop_assert!(text.contains('e'), "{} would be read as DECIMAL", text);
            prop_assert_eq!(text.parse::<f64>().expect("a number").to_bits(), bits);
        }

        #[test]
        fn floats_read_back_to_the_bit(bits in any::<u32>()) {
            let number = f32::from_bits(bits);
            prop_assume!(number.is_finite());
            // The server reads a DOUBLE and rounds it.
            let text = literal(&Value::Float(number), None);
            prop_assert_eq!((text.parse::<f64>().expect("a number") as f32).to_bits(), bits);
        }

        #[test]
        fn timestamps_agree_with_a_calendar_library(seconds in 1..u32::MAX, micros in 0..1_000_000u32) {
            let text = literal(&Value::Timestamp { seconds, micros }, None);
            let moment = jiff::Timestamp::new(i64::from(seconds), micros as i32 * 1_000)
                .expect("in range")
                .to_zoned(jiff::tz::TimeZone::UTC);
            let expected = if micros == 0 {
                moment.strftime("'%Y-%m-%d %H:%M:%S'").to_string()
            } else {
                moment.strftime("'%Y-%m-%d %H:%M:%S.%6f'").to_string()
            };
            prop_assert_eq!(text, expected);
        }
    }
}
