//! Tables that a round trip could get wrong.

use dmbench::mysql::Session;
use dmbench::mysql::session::quote_name;

/// Names of the tables that [`make`] makes.
pub(super) const TABLES: [&str; 10] = [
    "sparse",
    "types",
    "texts",
    "no_key",
    "composite",
    "computed",
    "nothing",
    "odd `name`. x/y%-schema",
    "a_child",
    "maybe_null",
];

const TYPES: &str = "id BIGINT UNSIGNED PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, m DECIMAL(65,30), \
     f FLOAT, d DOUBLE, da DATE, dt DATETIME(6), ts TIMESTAMP(6) NULL, ti TIME(6), y YEAR, \
     b BIT(64), e ENUM('a','it''s','') , s SET('x','y','z'), z INT(6) ZEROFILL";

const TYPE_ROWS: [&str; 5] = [
    "(0, -9223372036854775808, 18446744073709551615, -12345678901234567890123456789012345.123456789\
     012345678901234567890, 16777217, -1.7976931348623157e308, '1000-01-01', \
     '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', '-838:59:59.000000', 1901, b'1', 'a', '', 7)",
    "(18446744073709551615, 9223372036854775807, 0, 0.000000000000000000000000000001, 1.17549435e-38, \
     2.2250738585072014e-308, '0000-00-00', '0000-00-00', '2038-01-19 03:14:07.999999', \
     '838:59:59.000000', '0000', 0xFFFFFFFFFFFFFFFF, 'it''s', 'x,z', 123456789)",
    "(9223372036854775808, 0, 1, 0, -0e0, -0e0, '2024-02-29', '2023-06-30 00:00:00.000001', \
     '2023-06-30 12:00:00.5', '00:00:00.000001', 2155, b'0', '', 'x,y,z', 0)",
    "(3, 1, 1, 1, 3.40282347e38, 0.1, '2023-02-31', '2023-01-01', NULL, '-00:00:01', 2000, 0x3132, \
     'a', 'y', 1)",
    "(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
];

/// Makes a schema with all of [`TABLES`] and rows in them.
pub(super) async fn make(session: &mut Session, schema: &str) {
    let name = quote_name(schema);
    let setup = [
        format!("CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        format!("USE {name}"),
        "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', \
         foreign_key_checks = 0"
            .to_owned(),
        "CREATE TABLE sparse (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, \
         c CHAR(120) NOT NULL DEFAULT '', KEY k_1 (k))"
            .to_owned(),
        format!("CREATE TABLE types ({TYPES})"),
        "CREATE TABLE no_key (a INT, t VARCHAR(20))".to_owned(),
        "CREATE TABLE composite (a VARCHAR(10), b SMALLINT, v INT, PRIMARY KEY (a, b))".to_owned(),
        "CREATE TABLE computed (a INT, v INT GENERATED ALWAYS AS (a + 1) VIRTUAL, b INT, \
         s INT GENERATED ALWAYS AS (a * b) STORED, PRIMARY KEY (b), UNIQUE KEY (s))"
            .to_owned(),
        "CREATE TABLE nothing (id INT PRIMARY KEY, v TEXT)".to_owned(),
        "CREATE TABLE `odd ``name``. x/y%-schema` (`a b` INT PRIMARY KEY, `c``d,(` VARCHAR(20), \
         `select` INT)"
            .to_owned(),
        "CREATE TABLE b_parent (id INT PRIMARY KEY)".to_owned(),
        "CREATE TABLE a_child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES b_parent (id))"
            .to_owned(),
        "CREATE TABLE maybe_null (u INT, v INT, UNIQUE KEY (u))".to_owned(),
        format!("INSERT INTO types VALUES {}", TYPE_ROWS.join(", ")),
        "INSERT INTO no_key VALUES (1, 'same'), (1, 'same'), (NULL, NULL), (2, '')".to_owned(),
        "INSERT INTO composite VALUES ('a', -1, 1), ('a', 2, NULL), ('b', -32768, 3), ('', 0, 4)"
            .to_owned(),
        "INSERT INTO computed (a, b) VALUES (1, 2), (NULL, 3), (-5, 4)".to_owned(),
        "INSERT INTO `odd ``name``. x/y%-schema` VALUES (1, 'x', NULL), (2, '`', 3)".to_owned(),
        "INSERT INTO b_parent VALUES (7)".to_owned(),
        "INSERT INTO a_child VALUES (1, 7), (2, NULL)".to_owned(),
    ];
    for statement in &setup {
        session.execute(statement).await.expect("made");
    }
    fill_sparse(session).await;
    fill_maybe_null(session).await;
    fill_texts(session).await;
    session.rows("ANALYZE TABLE sparse, maybe_null, texts, types").await.expect("analyzed");
}

/// 300 rows whose ids are negative, zero, dense and far apart.
async fn fill_sparse(session: &mut Session) {
    let ids =
        (-50..50).chain((0..150).map(|n| 1_000 + n * 7)).chain((0..50).map(|n| 2_000_000_000 + n));
    let rows: Vec<_> = ids.map(|id| format!("({id}, {}, 'row {id}')", id / 3)).collect();
    session.execute(&format!("INSERT INTO sparse VALUES {}", rows.join(", "))).await.expect("rows");
}

async fn fill_maybe_null(session: &mut Session) {
    let rows: Vec<_> = (0..200)
        .map(|n| if n % 4 == 0 { format!("(NULL, {n})") } else { format!("({n}, {n})") })
        .collect();
    let sql = format!("INSERT INTO maybe_null VALUES {}", rows.join(", "));
    session.execute(&sql).await.expect("rows");
}

/// Every byte value in binary columns; every text that quoting could break in text columns.
async fn fill_texts(session: &mut Session) {
    session
        .execute(
            "CREATE TABLE texts (id MEDIUMINT AUTO_INCREMENT PRIMARY KEY, t MEDIUMTEXT, \
             l VARCHAR(200) CHARACTER SET latin1 COLLATE latin1_bin, fixed BINARY(3), vb VARBINARY(300), b LONGBLOB, \
             j JSON, c CHAR(10))",
        )
        .await
        .expect("table");
    let all: Vec<u8> = (0..=255).collect();
    let insert = "INSERT INTO texts (t, l, fixed, vb, b, j, c) VALUES (?, ?, ?, ?, ?, ?, ?)";
    let json = r#"{"a\"b": [1, 2.5, null, "it's; \\ \n x"], "é": {"z": "🦀"}}"#;
    for text in [
        "plain",
        "",
        "it's \"quoted\" `and` \\ back\\\\slashed",
        "nul \0, tab\t, lines\r\n, sub\x1a",
        "ends in a backslash \\",
        "';\n-- ; /* # */;\n",
        "),\n(1, 'x'); DROP",
        "é 日本語 🦀 \u{10FFFF}",
        &"0123456789abcdef0123456789abcde'".repeat(100),
    ] {
        let latin = text.chars().filter(char::is_ascii).take(150).collect::<String>() + "é";
        let params = (text, latin, b"\0'".to_vec(), all.clone(), text.as_bytes(), json, "pad  ");
        session.rows_with(insert, params).await.expect("row");
    }
    session
        .execute("INSERT INTO texts VALUES (100000, NULL, NULL, NULL, '', '', NULL, '')")
        .await
        .expect("row");
}
