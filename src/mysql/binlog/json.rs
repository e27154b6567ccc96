//! MySQL's binary JSON as text.
//!
//! The layout is that of MySQL's `sql-common/json_binary.h`: a type byte, then a scalar, or a
//! container with entries that point into its own bytes. Dates and times become the strings that the
//! server prints; a DECIMAL becomes a number where a DOUBLE holds it exactly, else an error, since
//! the target would round it silently.

use std::fmt::Write as _;

use base64::Engine as _;

use crate::mysql::binlog::cursor::{Cursor, Short};
use crate::mysql::binlog::row;

/// The deepest nesting that MySQL allows is 100.
const DEEPEST: usize = 101;

/// The text of a binary JSON document; no bytes at all are `null`.
pub(super) fn text(bytes: &[u8]) -> Result<String, String> {
    let Some((&kind, data)) = bytes.split_first() else { return Ok("null".to_owned()) };
    // Entries may point at the same bytes again and again; no honest document grows this much.
    let mut writer = Writer { out: String::new(), limit: bytes.len() * 32 + 64 };
    match writer.value(kind, data, 0) {
        Ok(()) => Ok(writer.out),
        Err(Broken::Short) => Err("binary JSON that does not make sense".to_owned()),
        Err(Broken::Why(why)) => Err(why),
    }
}

enum Broken {
    Short,
    Why(String),
}

impl From<Short> for Broken {
    fn from(_: Short) -> Broken {
        Broken::Short
    }
}

struct Writer {
    out: String,
    limit: usize,
}

impl Writer {
    fn value(&mut self, kind: u8, data: &[u8], depth: usize) -> Result<(), Broken> {
        if depth > DEEPEST || self.out.len() > self.limit {
            return Err(Broken::Short);
        }
        let mut cursor = Cursor::new(data);
        match kind {
            0 | 1 => self.container(data, kind == 1, true, depth),
            2 | 3 => self.container(data, kind == 3, false, depth),
            4 => self.literal(cursor.u8()?),
            5 => self.print(cursor.le_signed(2)?),
            6 => self.print(cursor.le(2)?),
            7 => self.print(cursor.le_signed(4)?),
            8 => self.print(cursor.le(4)?),
            9 => self.print(cursor.le_signed(8)?),
            10 => self.print(cursor.le(8)?),
            11 => self.double(f64::from_bits(cursor.le(8)?)),
            12 => {
                let length = short_length(&mut cursor)?;
                self.string(cursor.take(length)?)
            }
            15 => {
                let field = cursor.u8()?;
                let length = short_length(&mut cursor)?;
                self.opaque(field, cursor.take(length)?)
            }
            _ => Err(Broken::Short),
        }
    }

    fn container(
        &mut self,
        data: &[u8],
        large: bool,
        object: bool,
        depth: usize,
    ) -> Result<(), Broken> {
        let width = if large { 4 } else { 2 };
        let mut head = Cursor::new(data);
        let count = head.le(width)? as usize;
        head.take(width)?;
        let keys = if object { count.checked_mul(width + 2).ok_or(Short)? } else { 0 };
        let mut key_entries = Cursor::new(head.take(keys)?);
        self.out.push(if object { '{' } else { '[' });
        for nth in 0..count {
            if nth > 0 {
                self.out.push_str(", ");
            }
            if object {
                let offset = key_entries.le(width)? as usize;
                let length = key_entries.le(2)? as usize;
                let mut key = Cursor::new(data.get(offset..).ok_or(Short)?);
                self.string(key.take(length)?)?;
                self.out.push_str(": ");
            }
            let kind = head.u8()?;
            let entry = head.take(width)?;
            let inlined = matches!(kind, 4..=6) || (large && matches!(kind, 7 | 8));
            if inlined {
                self.value(kind, entry, depth + 1)?;
            } else {
                let offset = Cursor::new(entry).le(width)? as usize;
                self.value(kind, data.get(offset..).ok_or(Short)?, depth + 1)?;
            }
        }
        self.out.push(if object { '}' } else { ']' });
        Ok(())
    }

    fn print(&mut self, number: impl std::fmt::Display) -> Result<(), Broken> {
        write!(self.out, "{number}").map_err(|_| Broken::Short)
    }

    fn literal(&mut self, literal: u8) -> Result<(), Broken> {
        self.out.push_str(match literal {
            0 => "null",
            1 => "true",
            2 => "false",
            _ => return Err(Broken::Short),
        });
        Ok(())
    }

    /// With a point or an exponent, so that the target reads a DOUBLE again.
    fn double(&mut self, number: f64) -> Result<(), Broken> {
        if !number.is_finite() {
            return Err(Broken::Short);
        }
        write!(self.out, "{number:?}").map_err(|_| Broken::Short)
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let text = std::str::from_utf8(bytes).map_err(|_| Broken::Short)?;
        let quoted = serde_json::to_string(text).map_err(|_| Broken::Short)?;
        self.out.push_str(&quoted);
        Ok(())
    }

    fn opaque(&mut self, field: u8, bytes: &[u8]) -> Result<(), Broken> {
        let mut cursor = Cursor::new(bytes);
        match field {
            246 => {
                let (precision, scale) = (cursor.u8()?.into(), cursor.u8()?.into());
                let text = row::decimal(&mut cursor, precision, scale)?;
                if !survives_as_double(&text) {
                    return Err(Broken::Why(format!(
                        "the DECIMAL {text} inside JSON cannot be written as JSON text exactly"
                    )));
                }
                self.out.push_str(&text);
                Ok(())
            }
            7 | 10 | 12 => {
                let packed = cursor.le(8)?;
                let moment =
                    row::unpack((packed >> 24) & 0x7f_ffff_ffff, packed as u32 & 0xff_ffff);
                let crate::mysql::value::DateTime { year, month, day, .. } = moment;
                write!(self.out, "\"{year:04}-{month:02}-{day:02}").map_err(|_| Broken::Short)?;
                if field != 10 {
                    let (hour, minute, second) = (moment.hour, moment.minute, moment.second);
                    write!(self.out, " {hour:02}:{minute:02}:{second:02}.{:06}", moment.micros)
                        .map_err(|_| Broken::Short)?;
                }
                self.out.push('"');
                Ok(())
            }
            11 => {
                let packed = cursor.le_signed(8)?;
                let number = packed.unsigned_abs();
                let (clock, micros) = (number >> 24, number & 0xff_ffff);
                let sign = if packed < 0 { "-" } else { "" };
                let (hours, minutes, seconds) = (clock >> 12 & 0x3ff, clock >> 6 & 63, clock & 63);
                write!(self.out, "\"{sign}{hours:02}:{minutes:02}:{seconds:02}.{micros:06}\"")
                    .map_err(|_| Broken::Short)
            }
            _ => {
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                write!(self.out, "\"base64:type{field}:{text}\"").map_err(|_| Broken::Short)
            }
        }
    }
}

/// A length in groups of seven bits, the lowest first.
fn short_length(cursor: &mut Cursor<'_>) -> Result<usize, Short> {
    let mut length = 0;
    for group in 0..5 {
        let byte = cursor.u8()?;
        length |= usize::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err(Short)
}

/// Whether a decimal number has so few digits that a DOUBLE tells it from its neighbours.
fn survives_as_double(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '0', '.']);
    digits.bytes().filter(u8::is_ascii_digit).count() <= 15
}
