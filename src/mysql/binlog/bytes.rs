//! Tests of the decoder on bytes written here, and on bytes that are nothing.

use std::sync::Arc;

use proptest::prelude::*;

use crate::mysql::binlog::cursor::Cursor;
use crate::mysql::binlog::packet::RowsForm;
use crate::mysql::binlog::row::{Kind, Rows, decimal};
use crate::mysql::binlog::table_map::{Layout, TableMap};
use crate::mysql::binlog::{json, packet};
use crate::mysql::schema::{Column, Table};
use crate::mysql::value::{DateTime, Value};

fn table(columns: &[(&str, &str)]) -> Table {
    let column = |&(data_type, column_type): &(&str, &str)| Column {
        name: format!("c_{data_type}"),
        data_type: data_type.to_owned(),
        column_type: column_type.to_owned(),
        charset: data_type.contains("char").then(|| "utf8mb4".to_owned()),
        collation: None,
        nullable: true,
        generated: false,
    };
    Table {
        schema: "s".to_owned(),
        name: "t".to_owned(),
        columns: columns.iter().map(column).collect(),
        unique_keys: Vec::new(),
        expression_keys: Vec::new(),
    }
}

/// A table map event's body with these types and their metadata.
fn map(types: &[(u8, &[u8])], optional: &[u8]) -> Vec<u8> {
    let meta: Vec<u8> = types.iter().flat_map(|(_, meta)| meta.iter().copied()).collect();
    let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0, 1, b's', 0, 1, b't', 0, types.len() as u8];
    body.extend(types.iter().map(|(code, _)| code));
    body.push(meta.len() as u8);
    body.extend(meta);
    body.extend(vec![0; types.len().div_ceil(8)]);
    body.extend(optional);
    body
}

/// The only row of an insert with this image behind its NULL bitmap.
fn decode(types: &[(u8, &[u8])], table: &Table, image: &[u8]) -> Vec<Value> {
    let map = Arc::new(TableMap::parse(&map(types, &[])).expect("a table map"));
    let layout = Layout::new(&map, table).expect("a layout");
    let bitmap = types.len().div_ceil(8);
    let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0, 2, 0, types.len() as u8];
    body.extend(vec![0xff; bitmap]);
    body.extend(vec![0; bitmap]);
    body.extend(image);
    let form = RowsForm { kind: Kind::Insert, extra: true, deflated: false };
    let mut rows = Rows::parse(map, form, body).expect("rows");
    let (before, after) = rows.next(&layout).expect("decoded").expect("a row");
    assert_eq!(before, None);
    assert_eq!(rows.next(&layout).expect("decoded"), None);
    after.expect("an insert has its row")
}

/// A statement's head as MySQL 9.7 writes it, with a variable at its end that nobody knows.
#[test]
fn a_statement_says_what_was_set_where_it_was_executed() {
    let mut variables = vec![0, 0, 0, 0, 0, 1, 4, 0, 0x20, 0, 0, 0, 0, 0, 6, 3, b's', b't', b'd'];
    variables.extend([4, 255, 0, 255, 0, 255, 0, 5, 6, b'+', b'0', b'2', b':', b'0', b'0', 200, 1]);
    let mut body = vec![0; 8];
    body.extend([2, 0, 0, variables.len() as u8, 0]);
    body.extend(&variables);
    body.extend(b"sb\0DROP TABLE t");
    let query = packet::query(&body).expect("a statement");
    assert_eq!((query.schema.as_str(), &query.sql[..]), ("sb", &b"DROP TABLE t"[..]));
    let origin = packet::Origin { sql_mode: Some(0x20_0004), time_zone: Some("+02:00".to_owned()) };
    assert_eq!(query.origin, origin);
}

#[test]
fn values_of_each_shape() {
    let types: [(u8, &[u8]); 12] = [
        (3, &[]),
        (9, &[]),
        (246, &[5, 2]),
        (10, &[]),
        (18, &[3]),
        (19, &[2]),
        (17, &[0]),
        (13, &[]),
        (15, &[80, 0]),
        (254, &[254, 4]),
        (254, &[247, 1]),
        (16, &[1, 1]),
    ];
    let table = table(&[
        ("int", "int unsigned"),
        ("mediumint", "mediumint"),
        ("decimal", "decimal(5,2)"),
        ("date", "date"),
        ("datetime", "datetime(3)"),
        ("time", "time(2)"),
        ("timestamp", "timestamp"),
        ("year", "year"),
        ("varchar", "varchar(20)"),
        ("binary", "binary(4)"),
        ("enum", "enum('a')"),
        ("bit", "bit(9)"),
    ]);
    let mut image = vec![0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff];
    // -123.45: 0x80 0x7b 0x2d with all bits inverted.
    image.extend([0x7f, 0x84, 0xd2]);
    image.extend(((2024u32 << 9) | (2 << 5) | 29).to_le_bytes()[..3].iter());
    let clock = ((2024u64 * 13 + 2) << 22) | (29 << 17) | (23 << 12) | (59 << 6) | 58;
    image.extend(&(clock | 0x80_0000_0000).to_be_bytes()[3..]);
    image.extend([0x26, 0xfc]); // 9980: fraction .998
    image.extend([0x7f, 0xff, 0xff, 0xff]); // TIME(2): one hundredth before zero
    image.extend(1_700_000_000u32.to_be_bytes());
    image.extend([0, 3, b'a', b'b', b'c', 2, 1, 2, 1, 0x01, 0x02]);
    let text = |text: &[u8]| Value::Bytes(text.into());
    assert_eq!(
        decode(&types, &table, &image),
        [
            Value::UInt(u64::from(u32::MAX)),
            Value::Int(-2),
            Value::Decimal("-123.45".into()),
            Value::Date { year: 2024, month: 2, day: 29 },
            Value::DateTime(DateTime {
                year: 2024,
                month: 2,
                day: 29,
                hour: 23,
                minute: 59,
                second: 58,
                micros: 998_000,
            }),
            Value::Time { negative: true, hours: 0, minutes: 0, seconds: 0, micros: 10_000 },
            Value::Timestamp { seconds: 1_700_000_000, micros: 0 },
            Value::Year(0),
            text(b"abc"),
            text(&[1, 2, 0, 0]),
            Value::Enum(1),
            Value::Bit(0x102),
        ]
    );
}

#[test]
fn a_sign_that_differs_from_the_table_is_refused() {
    let signed = [1, 1, 0x00];
    let map = TableMap::parse(&map(&[(3, &[])], &signed)).expect("a table map");
    assert!(Layout::new(&map, &table(&[("int", "int")])).is_ok());
    let error = Layout::new(&map, &table(&[("int", "int unsigned")])).expect_err("refused");
    assert!(error.to_string().contains("column c_int of table s.t"), "{error}");
}

#[test]
fn types_without_an_exact_way_are_refused_by_name() {
    for (code, meta, data_type) in
        [(254u8, [254u8, 16].as_slice(), "inet6"), (140, &[], "blob"), (3, &[], "varchar")]
    {
        let map = TableMap::parse(&map(&[(code, meta)], &[])).expect("a table map");
        let error = Layout::new(&map, &table(&[(data_type, data_type)])).expect_err("refused");
        assert!(error.to_string().contains(&format!("column c_{data_type}")), "{error}");
    }
}

#[test]
fn json_as_the_server_prints_it() {
    // {"a": 1, "b": [true, "x"]} in the small format.
    let mut document = vec![0];
    document.extend([2, 0, 0x21, 0, 18, 0, 1, 0, 19, 0, 1, 0, 5, 1, 0, 2, 20, 0]);
    document.extend(*b"ab");
    document.extend([2, 0, 12, 0, 4, 1, 0, 12, 10, 0, 1, b'x']);
    assert_eq!(json::text(&document).as_deref(), Ok(r#"{"a": 1, "b": [true, "x"]}"#));
    assert_eq!(json::text(&[]).as_deref(), Ok("null"));
    let exact = [15, 246, 4, 3, 2, 0x82, 50];
    let text = json::text(&exact);
    assert_eq!(text.as_deref(), Ok("2.50"), "{text:?}");
}

#[test]
fn a_decimal_inside_json_that_would_be_rounded_is_refused() {
    // 20 digits: two groups of nine and two digits more.
    let mut document = vec![15, 246, 11, 20, 0, 0x80 | 12];
    document.extend(123_456_789u32.to_be_bytes());
    document.extend(123_456_789u32.to_be_bytes());
    let refused = json::text(&document).expect_err("it would be rounded");
    assert!(refused.contains("12123456789123456789"), "{refused}");
}

/// The binary form of a decimal, after the description in MySQL's decimal.c.
fn encode(digits: &str, scale: usize, negative: bool) -> Vec<u8> {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let (whole, behind) = digits.split_at(digits.len() - scale);
    let mut groups: Vec<&str> = Vec::new();
    let (first, rest) = whole.split_at(whole.len() % 9);
    groups.push(first);
    groups.extend((0..rest.len() / 9).map(|n| &rest[n * 9..n * 9 + 9]));
    groups.extend((0..behind.len() / 9).map(|n| &behind[n * 9..n * 9 + 9]));
    groups.push(&behind[behind.len() / 9 * 9..]);
    let mut bytes = Vec::<u8>::new();
    for group in groups {
        let number: u32 = group.parse().unwrap_or(0);
        bytes.extend(&number.to_be_bytes()[4 - BYTES[group.len()]..]);
    }
    bytes[0] ^= 0x80;
    if negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    bytes
}

const CODES: [(u8, usize); 24] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 1),
    (5, 1),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 0),
    (12, 0),
    (13, 0),
    (15, 2),
    (16, 2),
    (17, 1),
    (18, 1),
    (19, 1),
    (245, 1),
    (246, 2),
    (252, 1),
    (254, 2),
    (255, 1),
    (7, 0),
    (14, 0),
    (253, 2),
];

const DATA_TYPES: [&str; 24] = [
    "tinyint",
    "smallint",
    "int",
    "float",
    "double",
    "bigint",
    "mediumint",
    "date",
    "time",
    "datetime",
    "year",
    "varchar",
    "bit",
    "timestamp",
    "datetime",
    "time",
    "json",
    "decimal",
    "blob",
    "binary",
    "geometry",
    "timestamp",
    "date",
    "char",
];

proptest! {
    #[test]
    fn decimals_read_back(digits in "[0-9]{1,65}", scale in 0..=30usize, negative: bool) {
        prop_assume!(scale <= digits.len());
        let bytes = encode(&digits, scale, negative);
        let text = decimal(&mut Cursor::new(&bytes), digits.len(), scale);
        let (whole, behind) = digits.split_at(digits.len() - scale);
        let whole = whole.trim_start_matches('0');
        let point = if scale > 0 { "." } else { "" };
        let (sign, zero) = (if negative { "-" } else { "" }, if whole.is_empty() { "0" } else { "" });
        prop_assert_eq!(text, Ok(format!("{sign}{zero}{whole}{point}{behind}")));
    }

    #[test]
    fn no_bytes_make_the_parsers_panic(bytes in any::<Vec<u8>>()) {
        let _ = TableMap::parse(&bytes);
        let _ = packet::query(&bytes);
        let _ = packet::deflated_query(&bytes);
        let _ = packet::load_query(&bytes);
        let _ = packet::rotate(&bytes);
        let _ = packet::commit_time(&bytes);
        let _ = packet::mariadb_gtid(&bytes);
        let _ = json::text(&bytes);
    }

    #[test]
    fn no_row_makes_the_decoder_panic(
        columns in proptest::collection::vec((0..24usize, any::<[u8; 2]>()), 1..12),
        kind in 0..3u8,
        extra: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let types: Vec<(u8, &[u8])> =
            columns.iter().map(|(n, meta)| (CODES[*n].0, &meta[..CODES[*n].1])).collect();
        let shape: Vec<(&str, &str)> =
            columns.iter().map(|(n, _)| (DATA_TYPES[*n], DATA_TYPES[*n])).collect();
        let map = Arc::new(TableMap::parse(&map(&types, &[])).expect("a table map"));
        let Ok(layout) = Layout::new(&map, &table(&shape)) else { return Ok(()) };
        let kind = [Kind::Insert, Kind::Update, Kind::Delete][usize::from(kind)];
        let bitmap = types.len().div_ceil(8);
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
        if extra {
            body.extend([2, 0]);
        }
        body.push(types.len() as u8);
        body.extend(vec![0xff; if kind == Kind::Update { 2 * bitmap } else { bitmap }]);
        body.extend(&bytes);
        let form = RowsForm { kind, extra, deflated: false };
        let mut rows = Rows::parse(Arc::clone(&map), form, body).expect("a head");
        while let Ok(Some(_)) = rows.next(&layout) {}
        for deflated in [false, true] {
            let _ = Rows::parse(Arc::clone(&map), RowsForm { deflated, ..form }, bytes.clone());
        }
    }

    #[test]
    fn binary_json_of_any_bytes_ends(kind in 0..16u8, bytes in proptest::collection::vec(0..40u8, 0..200)) {
        let mut document = vec![kind];
        document.extend(bytes);
        let _ = json::text(&document);
    }
}
