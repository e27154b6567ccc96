//! One text per value, the same on MySQL, MariaDB and TiDB, as SQL that the server hashes itself.
//!
//! A row's text is the concatenation of its columns' texts in a prefix code: NULL is the lone letter
//! `N`, a number, time or hexadecimal text ends in `#`, a string begins with its length in bytes and
//! a colon, a large value is 64 digits of its SHA-256. So NULL is not `''` (`N` against `0:`), and
//! `('ab','c')` is `2:ab1:c` while `('a','bc')` is `1:a2:bc`.
//!
//! FLOAT, DOUBLE and JSON have no such text: MySQL and MariaDB print six digits of a FLOAT, TiDB
//! prints doubles without exponent inside CONCAT, and each server orders JSON keys its own way.
//! Those columns are [`Kind::Float`] and [`Kind::Json`] and are compared by [`super::exact`].

use crate::mysql::schema::Column;
use crate::mysql::session::quote_name;

/// How values of a column are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Integers and DECIMAL: the server's text, without zero fill.
    Number,
    /// DATE, TIME, DATETIME, TIMESTAMP, YEAR: the server's text in UTC.
    Time,
    /// Text in any character set, ENUM and SET: as UTF-8.
    Text,
    /// BINARY, BLOB, BIT, spatial types: in hexadecimal.
    Bytes,
    /// FLOAT and DOUBLE: bits, compared on the client.
    Float,
    /// JSON: the parsed value, compared on the client.
    Json,
}

impl Kind {
    /// The kind of one end's column; `None` for a type whose values cannot be compared.
    fn of(column: &Column) -> Option<Kind> {
        Some(match column.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" => Kind::Number,
            "date" | "time" | "datetime" | "timestamp" | "year" => Kind::Time,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum"
            | "set" | "uuid" | "inet4" | "inet6" => Kind::Text,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "bit" => {
                Kind::Bytes
            }
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
            | "multipolygon" | "geometrycollection" | "geomcollection" => Kind::Bytes,
            "float" | "double" => Kind::Float,
            "json" => Kind::Json,
            _ => return None,
        })
    }
}

/// How one column is compared at both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Name, the same at both ends.
    pub(super) name: String,
    /// Kind at both ends.
    pub(super) kind: Kind,
    /// Whether a value may be so large that its own hash stands for it: the text of a row must stay
    /// below `max_allowed_packet`, or the server makes it NULL.
    long: bool,
}

/// Why two columns of one name cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Types of different kinds: the tables differ.
    Kinds,
    /// A type that this build cannot compare.
    Unknown(String),
}

impl Shape {
    /// The shape of a column from both ends' definitions.
    pub(super) fn of(source: &Column, target: &Column) -> Result<Shape, Mismatch> {
        let kind = |column: &Column| {
            Kind::of(column).ok_or_else(|| Mismatch::Unknown(column.data_type.clone()))
        };
        let kind = match (kind(source)?, kind(target)?) {
            (s, t) if s == t => s,
            // MariaDB's JSON is a LONGTEXT.
            (Kind::Json, Kind::Text) | (Kind::Text, Kind::Json) => Kind::Json,
            _ => return Err(Mismatch::Kinds),
        };
        Ok(Shape { name: source.name.clone(), kind, long: is_long(source) || is_long(target) })
    }

    /// Whether values are compared on the client.
    pub(super) fn is_exact(&self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Json)
    }

    /// The argument or arguments of CONCAT that stand for the column in a row's text at the end
    /// whose definition is given. Not for columns that are compared on the client.
    pub(super) fn row_text(&self, column: &Column) -> String {
        let value = value_text(column);
        let null = column.nullable;
        match (self.kind, self.long) {
            (_, true) if null => format!("IF({} IS NULL,'N',SHA2({value},256))", name(column)),
            (_, true) => format!("SHA2({value},256)"),
            (Kind::Text, false) if null => {
                format!("IFNULL(CONCAT(LENGTH({value}),':',{value}),'N')")
            }
            (Kind::Text, false) => format!("LENGTH({value}),':',{value}"),
            (Kind::Bytes, false) if null => format!("IFNULL(CONCAT(HEX({value}),'#'),'N')"),
            (Kind::Bytes, false) => format!("HEX({value}),'#'"),
            _ if null => format!("IFNULL(CONCAT({value},'#'),'N')"),
            _ => format!("{value},'#'"),
        }
    }

    /// The expression that shows the column as a key or in an example, never longer than the value.
    pub(super) fn shown(&self, column: &Column) -> String {
        let value = value_text(column);
        if self.kind == Kind::Bytes { format!("HEX({value})") } else { value }
    }
}

fn name(column: &Column) -> String {
    quote_name(&column.name)
}

/// Whether a value may be larger than a row (64 kB).
fn is_long(column: &Column) -> bool {
    let data_type = column.data_type.as_str();
    ["text", "mediumtext", "longtext", "blob", "mediumblob", "longblob"].contains(&data_type)
        || (Kind::of(column) == Some(Kind::Bytes) && is_spatial(data_type))
}

fn is_spatial(data_type: &str) -> bool {
    !matches!(data_type, "bit" | "binary" | "varbinary") && !data_type.ends_with("blob")
}

/// The column's value as text of one meaning everywhere; bytes stay bytes.
fn value_text(column: &Column) -> String {
    let name = name(column);
    if column.column_type.contains("zerofill") {
        return format!("({name}+0)");
    }
    match Kind::of(column) {
        // These character sets have the bytes of utf8mb4; the rest is converted.
        Some(Kind::Text) => match column.charset.as_deref() {
            Some("utf8mb4" | "utf8mb3" | "utf8" | "ascii") => name,
            _ => format!("CONVERT({name} USING utf8mb4)"),
        },
        Some(Kind::Bytes) if is_spatial(&column.data_type) => format!("HEX({name})"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(column_type: &str, nullable: bool) -> Column {
        let data_type = column_type.split(['(', ' ']).next().unwrap_or_default().to_owned();
        Column {
            name: "v".into(),
            data_type,
            column_type: column_type.into(),
            charset: None,
            collation: None,
            nullable,
            generated: false,
        }
    }

    fn text(source: &Column, target: &Column) -> (String, String) {
        let shape = Shape::of(source, target).expect("comparable");
        (shape.row_text(source), shape.row_text(target))
    }

    #[test]
    fn numbers_lose_their_zero_fill_and_null_has_no_terminator() {
        let (source, target) = text(&column("int(9) zerofill", false), &column("int", true));
        assert_eq!(source, "(`v`+0),'#'");
        assert_eq!(target, "IFNULL(CONCAT(`v`,'#'),'N')");
    }

    #[test]
    fn text_carries_its_length_and_is_converted_only_where_bytes_differ() {
        let utf8 = Column { charset: Some("utf8mb4".into()), ..column("varchar(20)", false) };
        let latin1 = Column { charset: Some("latin1".into()), ..column("varchar(20)", false) };
        let (source, target) = text(&utf8, &latin1);
        assert_eq!(source, "LENGTH(`v`),':',`v`");
        assert_eq!(target, "LENGTH(CONVERT(`v` USING utf8mb4)),':',CONVERT(`v` USING utf8mb4)");
    }

    #[test]
    fn a_large_value_at_one_end_is_hashed_at_both() {
        let (source, target) = text(&column("longblob", true), &column("varbinary(90)", false));
        assert_eq!(source, "IF(`v` IS NULL,'N',SHA2(`v`,256))");
        assert_eq!(target, "SHA2(`v`,256)");
    }

    #[test]
    fn json_meets_the_text_that_mariadb_keeps_it_in() {
        let shape = Shape::of(&column("json", true), &column("longtext", true)).expect("shape");
        assert!(shape.is_exact() && shape.kind == Kind::Json);
        assert!(Shape::of(&column("float", true), &column("double", true)).expect("f").is_exact());
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let number = column("int", false);
        assert_eq!(Shape::of(&number, &column("varchar(9)", false)), Err(Mismatch::Kinds));
        assert_eq!(
            Shape::of(&column("vector(3)", false), &column("vector(3)", false)),
            Err(Mismatch::Unknown("vector".into()))
        );
    }
}
