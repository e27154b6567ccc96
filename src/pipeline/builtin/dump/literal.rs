//! SQL literals straight from the bytes of the text protocol.
//!
//! The server sends every value as text (or raw bytes for binary types); nothing is parsed here,
//! each column's type only decides how its bytes are dressed: bare, quoted or as hex.

use crate::mysql::schema::Column;
use crate::mysql::value::write_digits;

/// How the bytes of a column become a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dress {
    /// As they are: integers and decimals.
    Bare,
    /// As they are, but a zero with a sign keeps it (`-0` would be read as the integer 0).
    Real,
    /// In quotes, escaped: text, temporal values, JSON, enum, set.
    Quoted,
    /// `0x…`: binary strings, blobs, bits, geometry, vectors, whatever their character set says.
    Hex,
}

impl Dress {
    /// The dress of a column. Types unknown here are quoted: MariaDB's `uuid` and `inet6` arrive as
    /// text. YEAR is quoted because the bare number 0 and the text '0000' are different years.
    pub(super) fn of(column: &Column) -> Dress {
        match column.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" => Dress::Bare,
            "float" | "double" => Dress::Real,
            "bit" | "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob"
            | "geometry" | "point" | "linestring" | "polygon" | "multipoint"
            | "multilinestring" | "multipolygon" | "geomcollection" | "geometrycollection"
            | "vector" => Dress::Hex,
            _ => Dress::Quoted,
        }
    }
}

/// Appends a literal; `None` is NULL.
pub(super) fn push_literal(out: &mut Vec<u8>, dress: Dress, value: Option<&[u8]>) {
    let Some(bytes) = value else {
        out.extend_from_slice(b"NULL");
        return;
    };
    match dress {
        Dress::Bare => out.extend_from_slice(bytes),
        Dress::Real if bytes == b"-0" => out.extend_from_slice(b"-0e0"),
        Dress::Real => out.extend_from_slice(bytes),
        Dress::Quoted => {
            out.push(b'\'');
            push_escaped(out, bytes);
            out.push(b'\'');
        }
        // An empty hex literal is no SQL.
        Dress::Hex if bytes.is_empty() => out.extend_from_slice(b"''"),
        Dress::Hex => push_hex(out, bytes),
    }
}

const BLOCK: usize = 32;

/// Appends bytes with a backslash before each that a quoted text cannot hold. Most text needs none:
/// blocks of 32 are tested at once with flags folded by `|`, a shape that compilers vectorise.
fn push_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut clean = 0;
    let mut at = 0;
    while at < bytes.len() {
        let end = (at + BLOCK).min(bytes.len());
        let block = &bytes[at..end];
        let flags = block.iter().fold(0u8, |flags, &byte| flags | special(byte));
        if flags != 0 {
            out.extend_from_slice(&bytes[clean..at]);
            push_escaped_block(out, block);
            clean = end;
        }
        at = end;
    }
    out.extend_from_slice(&bytes[clean..]);
}

fn special(byte: u8) -> u8 {
    u8::from(byte == b'\'')
        | u8::from(byte == b'\\')
        | u8::from(byte == b'"')
        | u8::from(byte == 0)
        | u8::from(byte == b'\n')
        | u8::from(byte == b'\r')
        | u8::from(byte == 0x1a)
}

fn push_escaped_block(out: &mut Vec<u8>, block: &[u8]) {
    for &byte in block {
        let escaped = match byte {
            0 => b'0',
            b'\n' => b'n',
            b'\r' => b'r',
            0x1a => b'Z',
            b'\'' | b'"' | b'\\' => byte,
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escaped]);
    }
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"0x");
    write_digits(bytes, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a quoted literal as a server does, by the manual's table of escapes.
    fn unescape(literal: &[u8]) -> Vec<u8> {
        let inner = &literal[1..literal.len() - 1];
        let (mut out, mut at) = (Vec::new(), 0);
        while at < inner.len() {
            let byte = inner[at];
            assert!(byte != b'\'', "a bare quote would end the text");
            if byte == b'\\' {
                at += 1;
                out.push(match inner[at] {
                    b'0' => 0,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b'Z' => 0x1a,
                    other => other,
                });
            } else {
                out.push(byte);
            }
            at += 1;
        }
        out
    }

    fn literal(dress: Dress, value: Option<&[u8]>) -> String {
        let mut out = Vec::new();
        push_literal(&mut out, dress, value);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_dress() {
        assert_eq!(literal(Dress::Bare, Some(b"-18446744073709551615")), "-18446744073709551615");
        assert_eq!(literal(Dress::Real, Some(b"-0")), "-0e0");
        assert_eq!(literal(Dress::Real, Some(b"1e-300")), "1e-300");
        assert_eq!(literal(Dress::Quoted, Some(b"it's \\ \0\n")), r"'it\'s \\ \0\n'");
        assert_eq!(literal(Dress::Quoted, Some(b"")), "''");
        assert_eq!(literal(Dress::Hex, Some(b"\x00\xff'")), "0x00FF27");
        assert_eq!(literal(Dress::Hex, Some(b"")), "''");
        assert_eq!(literal(Dress::Hex, None), "NULL");
    }

    proptest! {
        #[test]
        fn escape_then_unescape(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), proptest::sample::select(b"'\\\"\0\n\r\x1a%_;".to_vec())],
                0..200,
            )
        ) {
            let mut out = Vec::new();
            push_literal(&mut out, Dress::Quoted, Some(&bytes));
            prop_assert_eq!(unescape(&out), bytes);
        }
    }
}
