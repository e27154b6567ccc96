//! The shape of a table as both ends need it: columns in order, and the keys that identify rows.

use serde::{Deserialize, Serialize};

use crate::mysql::session::{Error, Session, quote_name};

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name.
    pub name: String,
    /// `DATA_TYPE` of information_schema in lower case, such as `varchar`.
    pub data_type: String,
    /// `COLUMN_TYPE` of information_schema, such as `int unsigned` or `enum('a','b')`.
    pub column_type: String,
    /// Character set of a text column.
    pub charset: Option<String>,
    /// Collation of a text column.
    pub collation: Option<String>,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Whether the server computes the value.
    pub generated: bool,
}

impl Column {
    /// Whether an integer column is unsigned.
    pub fn is_unsigned(&self) -> bool {
        self.column_type.contains("unsigned")
    }

    /// Whether the type is one of the integer types.
    pub fn is_integer(&self) -> bool {
        matches!(self.data_type.as_str(), "tinyint" | "smallint" | "mediumint" | "int" | "bigint")
    }
}

/// One part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// Index into [`Table::columns`].
    pub column: usize,
    /// Characters (bytes for binary types) of a prefix key, `None` for the whole column.
    pub prefix: Option<u32>,
}

/// A unique key, the primary key included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    /// Name; `PRIMARY` for the primary key.
    pub name: String,
    /// Parts in order.
    pub parts: Vec<KeyPart>,
}

/// A table's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns by ordinal position.
    pub columns: Vec<Column>,
    /// Unique keys: the primary key first, then by name. A key over an expression is left out and
    /// named in [`Table::expression_keys`].
    pub unique_keys: Vec<UniqueKey>,
    /// Unique keys over expressions, which cannot be computed here.
    pub expression_keys: Vec<String>,
}

impl Table {
    /// Schema and name in backquotes, joined by a dot.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote_name(&self.schema), quote_name(&self.name))
    }

    /// The key that identifies a row: the primary key, else the first unique key over whole columns
    /// without NULL. `None` for a table without such a key.
    pub fn row_key(&self) -> Option<&UniqueKey> {
        self.unique_keys.iter().find(|key| {
            key.name == "PRIMARY"
                || key
                    .parts
                    .iter()
                    .all(|part| part.prefix.is_none() && !self.columns[part.column].nullable)
        })
    }

    /// Reads a table's shape.
    ///
    /// # Errors
    /// When the server refuses the question. A table that does not exist has no columns.
    pub async fn read(session: &mut Session, schema: &str, name: &str) -> Result<Table, Error> {
        let sql = "SELECT column_name, data_type, column_type, character_set_name, collation_name, \
                   is_nullable, generation_expression FROM information_schema.columns \
                   WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position";
        let mut table = Table {
            schema: schema.to_owned(),
            name: name.to_owned(),
            columns: Vec::new(),
            unique_keys: Vec::new(),
            expression_keys: Vec::new(),
        };
        for row in session.rows_with(sql, (schema, name)).await? {
            let (name, data_type, column_type, charset, collation, nullable, expression): (
                String,
                String,
                String,
                Option<String>,
                Option<String>,
                String,
                Option<String>,
            ) = mysql_async::from_row(row);
            table.columns.push(Column {
                name,
                data_type: data_type.to_lowercase(),
                column_type,
                charset,
                collation,
                nullable: nullable == "YES",
                generated: expression.is_some_and(|e| !e.is_empty()),
            });
        }
        let sql = "SELECT index_name, column_name, sub_part FROM information_schema.statistics \
                   WHERE table_schema = ? AND table_name = ? AND non_unique = 0 \
                   ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index";
        for row in session.rows_with(sql, (schema, name)).await? {
            let (key, column, prefix): (String, Option<String>, Option<u32>) =
                mysql_async::from_row(row);
            table.add_key_part(&key, column.as_deref(), prefix);
        }
        Ok(table)
    }

    fn add_key_part(&mut self, key: &str, column: Option<&str>, prefix: Option<u32>) {
        let index = column.and_then(|c| self.columns.iter().position(|known| known.name == c));
        if self.expression_keys.iter().any(|known| known == key) {
            return;
        }
        let Some(column) = index else {
            self.unique_keys.retain(|known| known.name != key);
            self.expression_keys.push(key.to_owned());
            return;
        };
        let part = KeyPart { column, prefix };
        match self.unique_keys.iter_mut().find(|known| known.name == key) {
            Some(known) => known.parts.push(part),
            None => self.unique_keys.push(UniqueKey { name: key.to_owned(), parts: vec![part] }),
        }
    }
}

/// The base tables of a schema by name, the owner table left out.
///
/// # Errors
/// When the server refuses the question.
pub async fn table_names(session: &mut Session, schema: &str) -> Result<Vec<String>, Error> {
    let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = ? \
               AND table_type = 'BASE TABLE' AND table_name <> ? ORDER BY table_name";
    let rows = session.rows_with(sql, (schema, crate::mysql::owner::OWNER_TABLE)).await?;
    Ok(rows.into_iter().map(mysql_async::from_row::<String>).collect())
}
