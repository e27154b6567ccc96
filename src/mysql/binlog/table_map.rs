//! What a table map event says about a table, and how its rows are to be decoded.

use crate::mysql::binlog::cursor::{Cursor, Short};
use crate::mysql::binlog::error::Error;
use crate::mysql::schema::{Column, Table};

/// A table as the binlog names it: types of columns, but no names and, on MariaDB, no signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// Number that rows events refer to.
    pub id: u64,
    /// Schema.
    pub schema: String,
    /// Table.
    pub table: String,
    types: Vec<WireType>,
    /// Whether numeric columns are unsigned, in their order; empty where the server does not say.
    unsigned: Vec<bool>,
}

/// A column's type with its metadata, as in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WireType {
    code: u8,
    meta: [u8; 2],
}

/// Type codes of the protocol.
mod code {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const NEWDATE: u8 = 14;
    pub(super) const VARCHAR: u8 = 15;
    pub(super) const BIT: u8 = 16;
    pub(super) const TIMESTAMP2: u8 = 17;
    pub(super) const DATETIME2: u8 = 18;
    pub(super) const TIME2: u8 = 19;
    pub(super) const VECTOR: u8 = 242;
    pub(super) const JSON: u8 = 245;
    pub(super) const NEWDECIMAL: u8 = 246;
    pub(super) const ENUM: u8 = 247;
    pub(super) const SET: u8 = 248;
    pub(super) const TINY_BLOB: u8 = 249;
    pub(super) const BLOB: u8 = 252;
    pub(super) const VAR_STRING: u8 = 253;
    pub(super) const STRING: u8 = 254;
    pub(super) const GEOMETRY: u8 = 255;
}

impl TableMap {
    /// Reads the body of a table map event.
    pub(super) fn parse(body: &[u8]) -> Result<TableMap, Short> {
        let mut cursor = Cursor::new(body);
        let id = cursor.le(6)?;
        cursor.take(2)?;
        let schema = name(&mut cursor)?;
        let table = name(&mut cursor)?;
        let count = cursor.size()?;
        let codes = cursor.take(count)?;
        let meta_length = cursor.size()?;
        let mut meta = Cursor::new(cursor.take(meta_length)?);
        let mut types = Vec::with_capacity(count);
        for &code in codes {
            let length = match code {
                code::FLOAT | code::DOUBLE | code::JSON | code::VECTOR | code::GEOMETRY => 1,
                code::TIMESTAMP2..=code::TIME2 | code::TINY_BLOB..=code::BLOB => 1,
                code::VARCHAR | code::BIT | code::NEWDECIMAL | code::ENUM | code::SET => 2,
                code::VAR_STRING | code::STRING => 2,
                _ => 0,
            };
            let mut bytes = [0; 2];
            bytes[..length].copy_from_slice(meta.take(length)?);
            types.push(WireType { code, meta: bytes });
        }
        cursor.take(count.div_ceil(8))?;
        let unsigned = signs(&mut cursor, &types);
        Ok(TableMap { id, schema, table, types, unsigned })
    }

    /// Schema and table for error texts.
    pub fn name(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }

    /// How many columns there are.
    pub fn column_count(&self) -> usize {
        self.types.len()
    }
}

/// A name with its length in front and a zero byte behind.
fn name(cursor: &mut Cursor<'_>) -> Result<String, Short> {
    let length = usize::from(cursor.u8()?);
    let text = String::from_utf8_lossy(cursor.take(length)?).into_owned();
    cursor.u8()?;
    Ok(text)
}

/// The SIGNEDNESS field of the optional metadata: one bit for each numeric column, the highest
/// first. Empty where the server wrote none or something odd.
fn signs(cursor: &mut Cursor<'_>, types: &[WireType]) -> Vec<bool> {
    const SIGNEDNESS: u8 = 1;
    let numeric = types.iter().filter(|t| t.is_numeric()).count();
    while let Ok(field) = cursor.u8() {
        let Ok(bytes) = cursor.size().and_then(|length| cursor.take(length)) else { break };
        if field == SIGNEDNESS && bytes.len() == numeric.div_ceil(8) {
            return (0..numeric).map(|i| bytes[i / 8] & (0x80 >> (i % 8)) != 0).collect();
        }
    }
    Vec::new()
}

impl WireType {
    fn is_numeric(self) -> bool {
        matches!(
            self.code,
            code::TINY
                | code::SHORT
                | code::INT24
                | code::LONG
                | code::LONGLONG
                | code::NEWDECIMAL
                | code::FLOAT
                | code::DOUBLE
        )
    }
}

/// How the bytes of one column are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Int {
        bytes: usize,
        unsigned: bool,
    },
    Float,
    Double,
    Decimal {
        precision: usize,
        scale: usize,
    },
    Year,
    Date,
    OldTime,
    OldDateTime,
    OldTimestamp,
    Timestamp {
        digits: u8,
    },
    DateTime {
        digits: u8,
    },
    Time {
        digits: u8,
    },
    /// Text or bytes behind their length; `pad` fills a BINARY column up with zero bytes.
    Bytes {
        length_bytes: usize,
        pad: usize,
    },
    Enum {
        bytes: usize,
    },
    Set {
        bytes: usize,
    },
    Bit {
        bytes: usize,
    },
    Json {
        length_bytes: usize,
    },
}

/// How the rows of a table are to be decoded: its map matched with its shape.
#[derive(Debug, Clone)]
pub struct Layout {
    pub(super) table: String,
    pub(super) codecs: Vec<Codec>,
    /// Columns that a full row image may lack: those the server computes.
    pub(super) optional: Vec<bool>,
}

impl Layout {
    /// Matches what the binlog says with the table's shape.
    ///
    /// # Errors
    /// [`Error::Shape`] when the numbers of columns differ, [`Error::Column`] for a type that cannot
    /// be replicated exactly.
    pub fn new(map: &TableMap, table: &Table) -> Result<Layout, Error> {
        if map.types.len() != table.columns.len() {
            let why = if table.columns.is_empty() {
                "the target has no such table".to_owned()
            } else {
                format!(
                    "{} columns in the binlog, {} on the target",
                    map.types.len(),
                    table.columns.len()
                )
            };
            return Err(Error::Shape { table: map.name(), why });
        }
        let mut codecs = Vec::with_capacity(map.types.len());
        let mut signs = map.unsigned.iter();
        for (wire, column) in map.types.iter().zip(&table.columns) {
            let unsigned = if wire.is_numeric() { signs.next().copied() } else { None };
            let codec = codec(*wire, unsigned, column).map_err(|why| Error::Column {
                table: map.name(),
                column: column.name.clone(),
                why,
            })?;
            codecs.push(codec);
        }
        let optional = table.columns.iter().map(|column| column.generated).collect();
        Ok(Layout { table: map.name(), codecs, optional })
    }
}

/// Data types of `code::GEOMETRY`.
const GEOMETRIES: [&str; 9] = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "geomcollection",
];

/// A column of the target that a column of the binlog is to fit.
struct Wanted<'c> {
    column: &'c Column,
    /// Type in the binlog.
    code: u8,
    /// Whether the binlog's numbers have no sign, where it says so.
    unsigned: Option<bool>,
}

impl Wanted<'_> {
    fn fits(&self, fitting: &[&str], codec: Codec) -> Result<Codec, String> {
        let Wanted { column, code, .. } = self;
        if fitting.contains(&column.data_type.as_str()) {
            Ok(codec)
        } else {
            Err(format!("the binlog has type {code} and the target {}", column.column_type))
        }
    }

    fn integer(&self, bytes: usize, data_type: &str) -> Result<Codec, String> {
        let declared = self.column.is_unsigned();
        if self.unsigned.is_some_and(|unsigned| unsigned != declared) {
            let column_type = &self.column.column_type;
            return Err(format!("the sign differs from the target's {column_type}"));
        }
        self.fits(&[data_type], Codec::Int { bytes, unsigned: declared })
    }

    fn characters(&self, length_bytes: usize, pad: usize) -> Result<Codec, String> {
        const TYPES: [&str; 12] = [
            "char",
            "varchar",
            "tinytext",
            "text",
            "mediumtext",
            "longtext",
            "binary",
            "varbinary",
            "tinyblob",
            "blob",
            "mediumblob",
            "longblob",
        ];
        self.fits(&TYPES, Codec::Bytes { length_bytes, pad })
    }
}

/// The codec for a column, or why there is none.
fn codec(wire: WireType, unsigned: Option<bool>, column: &Column) -> Result<Codec, String> {
    let [low, high] = wire.meta;
    let length = usize::from(u16::from_le_bytes(wire.meta));
    let data_type = column.data_type.as_str();
    let wanted = Wanted { column, code: wire.code, unsigned };
    match wire.code {
        code::TINY => wanted.integer(1, "tinyint"),
        code::SHORT => wanted.integer(2, "smallint"),
        code::INT24 => wanted.integer(3, "mediumint"),
        code::LONG => wanted.integer(4, "int"),
        code::LONGLONG => wanted.integer(8, "bigint"),
        code::FLOAT => wanted.fits(&["float"], Codec::Float),
        code::DOUBLE => wanted.fits(&["double"], Codec::Double),
        code::NEWDECIMAL => {
            wanted.fits(&["decimal"], Codec::Decimal { precision: low.into(), scale: high.into() })
        }
        code::YEAR => wanted.fits(&["year"], Codec::Year),
        code::DATE | code::NEWDATE => wanted.fits(&["date"], Codec::Date),
        code::TIME | code::DATETIME | code::TIMESTAMP if column.column_type.contains('(') => {
            Err("fractions of seconds in MariaDB's own old format".to_owned())
        }
        code::TIME => wanted.fits(&["time"], Codec::OldTime),
        code::DATETIME => wanted.fits(&["datetime"], Codec::OldDateTime),
        code::TIMESTAMP => wanted.fits(&["timestamp"], Codec::OldTimestamp),
        code::TIME2 => wanted.fits(&["time"], Codec::Time { digits: low }),
        code::DATETIME2 => wanted.fits(&["datetime"], Codec::DateTime { digits: low }),
        code::TIMESTAMP2 => wanted.fits(&["timestamp"], Codec::Timestamp { digits: low }),
        code::VARCHAR | code::VAR_STRING => wanted.characters(if length < 256 { 1 } else { 2 }, 0),
        code::TINY_BLOB..=code::BLOB if data_type == "json" => {
            Err("the source keeps this JSON as text and the target as JSON".to_owned())
        }
        code::TINY_BLOB..=code::BLOB => wanted.characters(low.into(), 0),
        code::STRING => match low {
            code::ENUM => wanted.fits(&["enum"], Codec::Enum { bytes: high.into() }),
            code::SET => wanted.fits(&["set"], Codec::Set { bytes: high.into() }),
            _ => {
                // Lengths above 255 hide two bits in the type byte, inverted (MySQL bug 37426).
                let length = usize::from(high) | (usize::from((low & 0x30) ^ 0x30) << 4);
                let pad = if data_type == "binary" { length } else { 0 };
                wanted.characters(if length < 256 { 1 } else { 2 }, pad)
            }
        },
        code::ENUM => wanted.fits(&["enum"], Codec::Enum { bytes: high.into() }),
        code::SET => wanted.fits(&["set"], Codec::Set { bytes: high.into() }),
        code::BIT => wanted.fits(
            &["bit"],
            Codec::Bit { bytes: (usize::from(high) * 8 + usize::from(low)).div_ceil(8) },
        ),
        code::JSON => wanted.fits(&["json", "longtext"], Codec::Json { length_bytes: low.into() }),
        code::VECTOR => wanted.fits(&["vector"], Codec::Bytes { length_bytes: low.into(), pad: 0 }),
        code::GEOMETRY => {
            wanted.fits(&GEOMETRIES, Codec::Bytes { length_bytes: low.into(), pad: 0 })
        }
        unknown => Err(format!("type {unknown} of the binlog is not known")),
    }
}
