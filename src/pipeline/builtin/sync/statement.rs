//! Row changes as SQL text, one statement for each change (two for some in safe mode).

use crate::mysql::binlog::Row;
use crate::mysql::schema::Column;
use crate::mysql::value::{Value, describe, latin1_to_utf8, write_hex};
use crate::pipeline::builtin::sync::change::RowChange;
use crate::pipeline::builtin::sync::table::ReplicaTable;

/// Statements for a change, in order. `safe` chooses those that may be executed again: an insert
/// becomes REPLACE, an update DELETE and REPLACE. A table without a key has no such statements: its
/// update matches nothing the second time, its insert is repeated.
pub(super) fn write(change: &RowChange, safe: bool, out: &mut Vec<Vec<u8>>) {
    let table = &*change.table;
    match (&change.before, &change.after) {
        (None, Some(after)) => out.push(insert(table, after, safe)),
        (Some(before), None) => out.push(delete(table, before)),
        (Some(before), Some(after)) if safe && table.row_key.is_some() => {
            out.push(delete(table, before));
            out.push(insert(table, after, true));
        }
        (Some(before), Some(after)) => out.push(update(table, before, after)),
        (None, None) => {}
    }
}

fn insert(table: &ReplicaTable, row: &Row, replace: bool) -> Vec<u8> {
    let mut sql = Vec::with_capacity(256);
    sql.extend_from_slice(if replace { b"REPLACE INTO " } else { b"INSERT INTO " });
    sql.extend_from_slice(table.insert_head.as_bytes());
    for (nth, &column) in table.written.iter().enumerate() {
        if nth > 0 {
            sql.push(b',');
        }
        row[column].write_literal(&table.shape.columns[column], &mut sql);
    }
    sql.push(b')');
    sql
}

fn update(table: &ReplicaTable, before: &Row, after: &Row) -> Vec<u8> {
    let mut sql = Vec::with_capacity(512);
    sql.extend_from_slice(b"UPDATE ");
    sql.extend_from_slice(table.quoted.as_bytes());
    sql.extend_from_slice(b" SET ");
    for (nth, &column) in table.written.iter().enumerate() {
        if nth > 0 {
            sql.push(b',');
        }
        sql.extend_from_slice(table.column_names[column].as_bytes());
        sql.push(b'=');
        after[column].write_literal(&table.shape.columns[column], &mut sql);
    }
    write_where(table, before, &mut sql);
    sql
}

fn delete(table: &ReplicaTable, row: &Row) -> Vec<u8> {
    let mut sql = Vec::with_capacity(128);
    sql.extend_from_slice(b"DELETE FROM ");
    sql.extend_from_slice(table.quoted.as_bytes());
    write_where(table, row, &mut sql);
    sql
}

/// The row by its key, else by all its values. `LIMIT 1` matters for tables without a key, where
/// one of several equal rows is meant.
fn write_where(table: &ReplicaTable, row: &Row, sql: &mut Vec<u8>) {
    sql.extend_from_slice(b" WHERE ");
    let columns = table.row_key.as_deref().unwrap_or(&table.written);
    for (nth, &column) in columns.iter().enumerate() {
        if nth > 0 {
            sql.extend_from_slice(b" AND ");
        }
        let (name, shape) = (&table.column_names[column], &table.shape.columns[column]);
        if table.row_key.is_some() {
            sql.extend_from_slice(name.as_bytes());
            sql.push(b'=');
            row[column].write_literal(shape, sql);
        } else {
            write_equality(name, &row[column], shape, sql);
        }
    }
    sql.extend_from_slice(b" LIMIT 1");
}

/// Equality of the very bytes: a collation may hold `'a'` and `'A'` for equal, and without a key
/// they are different rows.
fn write_equality(name: &str, value: &Value, column: &Column, sql: &mut Vec<u8>) {
    match (value, &column.charset) {
        (Value::Null, _) => {
            sql.extend_from_slice(name.as_bytes());
            sql.extend_from_slice(b" IS NULL");
        }
        (Value::Bytes(bytes), Some(charset)) if charset == "latin1" => {
            // TiDB keeps latin1 text as UTF-8.
            sql.extend_from_slice(
                format!("CAST(CONVERT({name} USING utf8mb4) AS BINARY)=").as_bytes(),
            );
            write_hex(latin1_to_utf8(bytes).as_bytes(), sql);
        }
        (Value::Bytes(bytes), Some(_)) => {
            sql.extend_from_slice(format!("CAST({name} AS BINARY)=").as_bytes());
            write_hex(bytes, sql);
        }
        (Value::Json(_), _) if column.data_type == "json" => {
            sql.extend_from_slice(name.as_bytes());
            sql.extend_from_slice(b"=CAST(");
            value.write_literal(column, sql);
            sql.extend_from_slice(b" AS JSON)");
        }
        _ => {
            sql.extend_from_slice(name.as_bytes());
            sql.push(b'=');
            value.write_literal(column, sql);
        }
    }
}

/// The change for people: kind, table and key.
pub(super) fn name(change: &RowChange) -> String {
    let table = &*change.table;
    let columns = table.row_key.as_deref().unwrap_or(&[]);
    let key = change.images().next().map_or_else(String::new, |row| {
        columns
            .iter()
            .map(|&column| {
                let shape = &table.shape.columns[column];
                format!("{} = {}", shape.name, describe(&row[column], shape))
            })
            .collect::<Vec<_>>()
            .join(", ")
    });
    let kind = match change.kind() {
        crate::mysql::binlog::Kind::Insert => "an insert into",
        crate::mysql::binlog::Kind::Update => "an update of",
        crate::mysql::binlog::Kind::Delete => "a delete from",
    };
    format!("{kind} {}.{} ({key})", table.shape.schema, table.shape.name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pipeline::builtin::sync::memory::table;

    fn statements(table: ReplicaTable, rows: [Option<Row>; 2], safe: bool) -> Vec<String> {
        let [before, after] = rows;
        let mut out = Vec::new();
        write(&RowChange::new(Arc::new(table), before, after), safe, &mut out);
        out.into_iter().map(|sql| String::from_utf8(sql).expect("UTF-8")).collect()
    }

    fn keyed() -> ReplicaTable {
        let mut shape = table(
            "t",
            &["id int", "u int?", "g int?", "c varchar bin?"],
            &[("PRIMARY", &[(0, None)]), ("u", &[(1, None)])],
        );
        shape.columns[2].generated = true;
        ReplicaTable::new(shape)
    }

    fn row(id: i64, text: &str) -> Row {
        vec![Value::Int(id), Value::Null, Value::Int(9), Value::Bytes(text.as_bytes().into())]
    }

    #[test]
    fn one_statement_for_each_change_without_generated_columns() {
        assert_eq!(
            statements(keyed(), [None, Some(row(1, "x'"))], false),
            [r"INSERT INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'x\'')"]
        );
        assert_eq!(
            statements(keyed(), [Some(row(1, "x")), Some(row(2, "y"))], false),
            ["UPDATE `s`.`t` SET `id`=2,`u`=NULL,`c`='y' WHERE `id`=1 LIMIT 1"]
        );
        assert_eq!(
            statements(keyed(), [Some(row(1, "x")), None], false),
            ["DELETE FROM `s`.`t` WHERE `id`=1 LIMIT 1"]
        );
    }

    #[test]
    fn safe_mode_may_be_executed_again() {
        assert_eq!(
            statements(keyed(), [None, Some(row(1, "x"))], true),
            ["REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'x')"]
        );
        assert_eq!(
            statements(keyed(), [Some(row(1, "x")), Some(row(2, "y"))], true),
            [
                "DELETE FROM `s`.`t` WHERE `id`=1 LIMIT 1",
                "REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (2,NULL,'y')"
            ]
        );
    }

    #[test]
    fn a_table_without_a_key_is_searched_by_all_its_bytes() {
        let keyless = || ReplicaTable::new(table("n", &["a int?", "b varchar general_ci"], &[]));
        let row = vec![Value::Null, Value::Bytes(b"Ab".as_slice().into())];
        assert_eq!(
            statements(keyless(), [Some(row.clone()), None], true),
            ["DELETE FROM `s`.`n` WHERE `a` IS NULL AND CAST(`b` AS BINARY)=x'4162' LIMIT 1"]
        );
        // In safe mode too: executed again it finds nothing, where two statements would add a row.
        assert_eq!(
            statements(keyless(), [Some(row.clone()), Some(row)], true),
            ["UPDATE `s`.`n` SET `a`=NULL,`b`='Ab' WHERE `a` IS NULL AND CAST(`b` AS \
              BINARY)=x'4162' LIMIT 1"]
        );
    }
}
