//! Rows events: row images decoded into values.

use std::sync::Arc;

use crate::mysql::binlog::cursor::{Cursor, Short};
use crate::mysql::binlog::deflated::inflate;
use crate::mysql::binlog::error::Error;
use crate::mysql::binlog::json;
use crate::mysql::binlog::packet::RowsForm;
use crate::mysql::binlog::table_map::{Codec, Layout, TableMap};
use crate::mysql::value::{DateTime, Value};

/// What happened to the rows of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Rows were inserted.
    Insert,
    /// Rows were updated.
    Update,
    /// Rows were deleted.
    Delete,
}

/// The values of a row in the order of the table's columns.
pub type Row = Vec<Value>;

/// A row before and after its change; the image that an insert or a delete lacks is `None`.
pub type RowPair = (Option<Row>, Option<Row>);

/// The rows of one event, not yet decoded.
#[derive(Debug)]
pub struct Rows {
    map: Arc<TableMap>,
    kind: Kind,
    body: Vec<u8>,
    /// Where the row images begin in the body.
    images: usize,
    /// Which columns the images hold, before and after.
    present: [Vec<u8>; 2],
    at: usize,
    /// Why these rows cannot be replicated.
    refusal: Option<&'static str>,
}

impl Rows {
    /// Reads the head of a rows event, and inflates the rest where it is deflated. The table's number
    /// is in the first six bytes; `map` must be its map.
    pub(super) fn parse(
        map: Arc<TableMap>,
        form: RowsForm,
        mut body: Vec<u8>,
    ) -> Result<Rows, Short> {
        let RowsForm { kind, extra, deflated } = form;
        let mut cursor = Cursor::new(&body);
        cursor.take(8)?;
        if extra {
            let length = cursor.le(2)? as usize;
            cursor.take(length.checked_sub(2).ok_or(Short)?)?;
        }
        let columns = cursor.size()?;
        if columns != map.column_count() {
            return Err(Short);
        }
        let bitmap = columns.div_ceil(8);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if kind != Kind::Insert {
            before = cursor.take(bitmap)?.to_vec();
        }
        if kind != Kind::Delete {
            after = cursor.take(bitmap)?.to_vec();
        }
        let images = body.len() - cursor.rest().len();
        if deflated {
            let record = body.split_off(images);
            inflate(&record, &mut body)?;
        }
        Ok(Rows { map, kind, body, images, present: [before, after], at: images, refusal: None })
    }

    /// The same rows, refused when somebody wants to decode them.
    pub(super) fn refused(self, refusal: Option<&'static str>) -> Rows {
        Rows { refusal, ..self }
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableMap> {
        &self.map
    }

    /// What happened.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of the row images.
    pub fn byte_count(&self) -> usize {
        self.body.len() - self.images
    }

    /// Decodes the next row; `None` behind the last.
    ///
    /// # Errors
    /// When an image is not full or the bytes do not make sense; the rows behind are lost then.
    pub fn next(&mut self, layout: &Layout) -> Result<Option<RowPair>, Error> {
        if let Some(why) = self.refusal {
            return Err(layout.malformed(why));
        }
        let mut cursor = Cursor::new(&self.body[self.at..]);
        if cursor.is_empty() {
            return Ok(None);
        }
        let before = match self.kind {
            Kind::Insert => None,
            _ => Some(image(&mut cursor, layout, &self.present[0])?),
        };
        let after = match self.kind {
            Kind::Delete => None,
            _ => Some(image(&mut cursor, layout, &self.present[1])?),
        };
        let at = self.body.len() - cursor.rest().len();
        if at == self.at {
            return Err(layout.malformed("a row without any byte"));
        }
        self.at = at;
        Ok(Some((before, after)))
    }
}

impl Layout {
    fn malformed(&self, why: &str) -> Error {
        Error::Shape { table: self.table.clone(), why: why.to_owned() }
    }
}

fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
}

/// One row image. Only columns that are present have a bit in the image's NULL bitmap.
fn image(cursor: &mut Cursor<'_>, layout: &Layout, present: &[u8]) -> Result<Row, Error> {
    let columns = layout.codecs.len();
    let mut count = 0;
    for index in 0..columns {
        if bit(present, index) {
            count += 1;
        } else if !layout.optional[index] {
            return Err(layout.malformed(
                "a row image is not full: the source's binlog_row_image must be FULL in every session",
            ));
        }
    }
    let short = |_| layout.malformed("a row ends too early");
    let nulls = cursor.take(usize::div_ceil(count, 8)).map_err(short)?;
    let mut row = Vec::with_capacity(columns);
    let mut nth = 0;
    for index in 0..columns {
        if !bit(present, index) {
            row.push(Value::Null);
            continue;
        }
        let value = if bit(nulls, nth) {
            Value::Null
        } else {
            value(cursor, layout.codecs[index]).map_err(|broken| match broken {
                Broken::Short => layout.malformed("a row ends too early"),
                Broken::Value(why) => layout.malformed(&format!("column {}: {why}", index + 1)),
            })?
        };
        row.push(value);
        nth += 1;
    }
    Ok(row)
}

/// Why a value cannot be decoded.
enum Broken {
    Short,
    Value(String),
}

impl From<Short> for Broken {
    fn from(_: Short) -> Broken {
        Broken::Short
    }
}

fn value(cursor: &mut Cursor<'_>, codec: Codec) -> Result<Value, Broken> {
    Ok(match codec {
        Codec::Int { bytes, unsigned: true } => Value::UInt(cursor.le(bytes)?),
        Codec::Int { bytes, unsigned: false } => Value::Int(cursor.le_signed(bytes)?),
        Codec::Float => Value::Float(f32::from_bits(cursor.le(4)? as u32)),
        Codec::Double => Value::Double(f64::from_bits(cursor.le(8)?)),
        Codec::Decimal { precision, scale } => {
            Value::Decimal(decimal(cursor, precision, scale)?.into())
        }
        Codec::Year => Value::Year(match cursor.u8()? {
            0 => 0,
            year => 1900 + u16::from(year),
        }),
        Codec::Date => {
            let packed = cursor.le(3)?;
            Value::Date {
                year: (packed >> 9) as u16,
                month: (packed >> 5 & 15) as u8,
                day: (packed & 31) as u8,
            }
        }
        Codec::OldTime => {
            let packed = cursor.le_signed(3)?;
            let number = packed.unsigned_abs();
            Value::Time {
                negative: packed < 0,
                hours: (number / 10_000) as u16,
                minutes: (number / 100 % 100) as u8,
                seconds: (number % 100) as u8,
                micros: 0,
            }
        }
        Codec::OldDateTime => {
            let number = cursor.le(8)?;
            Value::DateTime(DateTime {
                year: (number / 10_000_000_000) as u16,
                month: (number / 100_000_000 % 100) as u8,
                day: (number / 1_000_000 % 100) as u8,
                hour: (number / 10_000 % 100) as u8,
                minute: (number / 100 % 100) as u8,
                second: (number % 100) as u8,
                micros: 0,
            })
        }
        Codec::OldTimestamp => Value::Timestamp { seconds: cursor.le(4)? as u32, micros: 0 },
        Codec::Timestamp { digits } => {
            let seconds = cursor.be(4)? as u32;
            Value::Timestamp { seconds, micros: fraction(cursor, digits)? }
        }
        Codec::DateTime { digits } => date_time(cursor, digits)?,
        Codec::Time { digits } => time(cursor, digits)?,
        Codec::Bytes { length_bytes, pad } => {
            let length = cursor.le(length_bytes)? as usize;
            let bytes = cursor.take(length)?;
            if length < pad {
                // A BINARY column's trailing zero bytes are not in the binlog.
                let mut padded = bytes.to_vec();
                padded.resize(pad, 0);
                Value::Bytes(padded.into())
            } else {
                Value::Bytes(bytes.into())
            }
        }
        Codec::Enum { bytes } => Value::Enum(cursor.le(bytes)? as u16),
        Codec::Set { bytes } => Value::Set(cursor.le(bytes)?),
        Codec::Bit { bytes } if bytes <= 8 => Value::Bit(cursor.be(bytes)?),
        Codec::Bit { bytes } => return Err(Broken::Value(format!("a BIT of {bytes} bytes"))),
        Codec::Json { length_bytes } => {
            let length = cursor.le(length_bytes)? as usize;
            let text = json::text(cursor.take(length)?).map_err(Broken::Value)?;
            Value::Json(text.into())
        }
    })
}

/// Microseconds from the bytes that so many digits take, big-endian.
fn fraction(cursor: &mut Cursor<'_>, digits: u8) -> Result<u32, Short> {
    Ok(match digits {
        0 => 0,
        1 | 2 => cursor.be(1)? as u32 * 10_000,
        3 | 4 => cursor.be(2)? as u32 * 100,
        _ => cursor.be(3)? as u32,
    })
}

fn date_time(cursor: &mut Cursor<'_>, digits: u8) -> Result<Value, Short> {
    // The sign bit is set for all moments that exist.
    let packed = cursor.be(5)? & 0x7f_ffff_ffff;
    let micros = fraction(cursor, digits)?;
    Ok(Value::DateTime(unpack(packed, micros)))
}

/// Year and month as year * 13 + month, then 5 bits of day, 5 of hour, 6 of minute, 6 of second.
pub(super) fn unpack(packed: u64, micros: u32) -> DateTime {
    let (days, clock) = (packed >> 17, packed & 0x1_ffff);
    let months = days >> 5;
    DateTime {
        year: (months / 13) as u16,
        month: (months % 13) as u8,
        day: (days & 31) as u8,
        hour: (clock >> 12) as u8,
        minute: (clock >> 6 & 63) as u8,
        second: (clock & 63) as u8,
        micros,
    }
}

/// A TIME is one signed number: 24 bits of clock, then the fraction, shifted to be positive. With
/// the fraction's bytes read along, one negation undoes the sign of both.
fn time(cursor: &mut Cursor<'_>, digits: u8) -> Result<Value, Short> {
    let (bytes, scale) = match digits {
        0 => (0, 0),
        1 | 2 => (1, 10_000),
        3 | 4 => (2, 100),
        _ => (3, 1),
    };
    let shifted = cursor.be(3 + bytes)? as i64;
    let packed = shifted - (0x80_0000 << (8 * bytes));
    let number = packed.unsigned_abs();
    let clock = number >> (8 * bytes);
    let fraction = (number & ((1 << (8 * bytes)) - 1)) as u32;
    Ok(Value::Time {
        negative: packed < 0,
        hours: (clock >> 12 & 0x3ff) as u16,
        minutes: (clock >> 6 & 63) as u8,
        seconds: (clock & 63) as u8,
        micros: fraction * scale,
    })
}

/// A DECIMAL in MySQL's binary form: groups of nine digits in four bytes, shorter groups in fewer,
/// the first bit inverted, all bits inverted for negative numbers.
pub(super) fn decimal(
    cursor: &mut Cursor<'_>,
    precision: usize,
    scale: usize,
) -> Result<String, Short> {
    const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let whole = precision.checked_sub(scale).ok_or(Short)?;
    let groups = [(whole % 9, 1), (9, whole / 9), (9, scale / 9), (scale % 9, 1)];
    let size: usize = groups.iter().map(|(digits, count)| GROUP_BYTES[*digits] * count).sum();
    let mut bytes = cursor.take(size)?.to_vec();
    let first = bytes.first_mut().ok_or(Short)?;
    let negative = *first & 0x80 == 0;
    *first ^= 0x80;
    if negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut groups_of = Cursor::new(&bytes);
    let mut parts = [String::new(), String::new()];
    for (nth, (digits, count)) in groups.into_iter().enumerate() {
        for _ in 0..if digits == 0 { 0 } else { count } {
            let group = groups_of.be(GROUP_BYTES[digits])?;
            let text = format!("{group:0digits$}");
            parts[nth / 2].push_str(&text);
        }
    }
    let [whole, behind] = parts;
    let whole = whole.trim_start_matches('0');
    let sign = if negative { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(if scale > 0 { format!("{sign}{whole}.{behind}") } else { format!("{sign}{whole}") })
}
