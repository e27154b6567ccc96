//! Row changes as SQL text, byte for byte as DM writes them where both write the same.

use crate::mysql::binlog::{Kind, Row};
use crate::mysql::schema::Column;
use crate::mysql::value::{Value, describe, latin1_to_utf8, write_hex};
use crate::pipeline::builtin::sync::change::RowChange;
use crate::pipeline::builtin::sync::plan::{Form, Step};
use crate::pipeline::builtin::sync::table::ReplicaTable;

/// The text of a step. A row without the image that the form needs is left out: planning gives none.
pub(super) fn write(step: Step<'_>, sql: &mut Vec<u8>) {
    let Some(table) = step.rows.first().map(|row| &*row.table) else { return };
    let changes = step.rows;
    let after = || changes.iter().filter_map(|row| row.after.as_ref());
    let before = || changes.iter().filter_map(|row| row.before.as_ref());
    let pairs = || changes.iter().filter_map(|row| row.before.as_ref().zip(row.after.as_ref()));
    match step.form {
        Form::Insert => insert(b"INSERT INTO ", table, after(), sql),
        Form::Replace => insert(b"REPLACE INTO ", table, after(), sql),
        Form::Upsert => {
            insert(b"INSERT INTO ", table, after(), sql);
            sql.extend_from_slice(table.upsert_tail.as_bytes());
        }
        Form::Update => {
            pairs().for_each(|(before, after)| update(table, before, after, sql));
        }
        Form::Cases => cases(table, &pairs().collect::<Vec<_>>(), sql),
        Form::Delete => before().for_each(|row| {
            delete_from(table, sql);
            write_row(table, row, sql);
            sql.extend_from_slice(b" LIMIT 1");
        }),
        Form::Deletes => {
            delete_from(table, sql);
            any_of(table, before(), sql);
        }
    }
}

fn insert<'a>(
    verb: &[u8],
    table: &ReplicaTable,
    rows: impl Iterator<Item = &'a Row>,
    sql: &mut Vec<u8>,
) {
    sql.extend_from_slice(verb);
    sql.extend_from_slice(table.insert_head.as_bytes());
    for (nth, row) in rows.enumerate() {
        sql.extend_from_slice(if nth > 0 { b",(" } else { b"(" });
        for (nth, &column) in table.written.iter().enumerate() {
            if nth > 0 {
                sql.push(b',');
            }
            row[column].write_literal(&table.shape.columns[column], sql);
        }
        sql.push(b')');
    }
}

fn update(table: &ReplicaTable, before: &Row, after: &Row, sql: &mut Vec<u8>) {
    update_set(table, sql);
    for (nth, &column) in table.written.iter().enumerate() {
        if nth > 0 {
            sql.extend_from_slice(b", ");
        }
        sql.extend_from_slice(table.column_names[column].as_bytes());
        sql.extend_from_slice(b" = ");
        after[column].write_literal(&table.shape.columns[column], sql);
    }
    sql.extend_from_slice(b" WHERE ");
    write_row(table, before, sql);
    sql.extend_from_slice(b" LIMIT 1");
}

/// Sets the key last: see [`plan`](super::plan).
fn cases(table: &ReplicaTable, pairs: &[(&Row, &Row)], sql: &mut Vec<u8>) {
    update_set(table, sql);
    let key = table.row_key.as_deref().unwrap_or_default();
    let (last, first): (Vec<usize>, Vec<usize>) =
        table.written.iter().partition(|column| key.contains(column));
    for (nth, column) in first.into_iter().chain(last).enumerate() {
        if nth > 0 {
            sql.extend_from_slice(b", ");
        }
        sql.extend_from_slice(table.column_names[column].as_bytes());
        sql.extend_from_slice(b"=CASE");
        for (before, after) in pairs {
            sql.extend_from_slice(b" WHEN ");
            write_row(table, before, sql);
            sql.extend_from_slice(b" THEN ");
            after[column].write_literal(&table.shape.columns[column], sql);
        }
        sql.extend_from_slice(b" END");
    }
    sql.extend_from_slice(b" WHERE ");
    any_of(table, pairs.iter().map(|(before, _)| *before), sql);
}

fn update_set(table: &ReplicaTable, sql: &mut Vec<u8>) {
    sql.extend_from_slice(b"UPDATE ");
    sql.extend_from_slice(table.quoted.as_bytes());
    sql.extend_from_slice(b" SET ");
}

fn delete_from(table: &ReplicaTable, sql: &mut Vec<u8>) {
    sql.extend_from_slice(b"DELETE FROM ");
    sql.extend_from_slice(table.quoted.as_bytes());
    sql.extend_from_slice(b" WHERE ");
}

fn any_of<'a>(table: &ReplicaTable, rows: impl Iterator<Item = &'a Row>, sql: &mut Vec<u8>) {
    for (nth, row) in rows.enumerate() {
        sql.extend_from_slice(if nth > 0 { b" OR (" } else { b"(" });
        write_row(table, row, sql);
        sql.push(b')');
    }
}

/// The row by its key, else by all its values; then several rows may be equal.
fn write_row(table: &ReplicaTable, row: &Row, sql: &mut Vec<u8>) {
    let columns = table.row_key.as_deref().unwrap_or(&table.written);
    for (nth, &column) in columns.iter().enumerate() {
        if nth > 0 {
            sql.extend_from_slice(b" AND ");
        }
        let (name, shape) = (&table.column_names[column], &table.shape.columns[column]);
        if table.row_key.is_some() {
            sql.extend_from_slice(name.as_bytes());
            sql.extend_from_slice(b" = ");
            row[column].write_literal(shape, sql);
        } else {
            write_equality(name, &row[column], shape, sql);
        }
    }
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
            sql.extend_from_slice(b" = ");
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
        Kind::Insert => "an insert into",
        Kind::Update => "an update of",
        Kind::Delete => "a delete from",
    };
    format!("{kind} {}.{} ({key})", table.shape.schema, table.shape.name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pipeline::builtin::sync::change::Mode;
    use crate::pipeline::builtin::sync::memory::table;
    use crate::pipeline::builtin::sync::plan::plan;

    type Pair = (Option<Row>, Option<Row>);

    fn statements(table: ReplicaTable, rows: Vec<Pair>, mode: Mode, multiple: bool) -> Vec<String> {
        let table = Arc::new(table);
        let change = |(before, after)| {
            let mut change = RowChange::new(Arc::clone(&table), before, after);
            change.mode = mode;
            change
        };
        let batch: Vec<RowChange> = rows.into_iter().map(change).collect();
        let text = |step| {
            let mut sql = Vec::new();
            write(step, &mut sql);
            String::from_utf8(sql).expect("UTF-8")
        };
        plan(&batch, multiple, false).into_iter().map(text).collect()
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

    fn row(id: i64, text: &str) -> Option<Row> {
        let text = Value::Bytes(text.as_bytes().into());
        Some(vec![Value::Int(id), Value::Null, Value::Int(9), text])
    }

    #[test]
    fn one_statement_for_each_change_without_generated_columns() {
        let rows = vec![(None, row(1, "x'")), (row(1, "x"), row(2, "y")), (row(1, "x"), None)];
        assert_eq!(
            statements(keyed(), rows, Mode::Plain, false),
            [
                r"INSERT INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'x\'')",
                "UPDATE `s`.`t` SET `id` = 2, `u` = NULL, `c` = 'y' WHERE `id` = 1 LIMIT 1",
                "DELETE FROM `s`.`t` WHERE `id` = 1 LIMIT 1",
            ]
        );
    }

    #[test]
    fn safe_mode_deletes_only_where_a_key_changes() {
        let rows =
            vec![(None, row(1, "x")), (row(1, "x"), row(1, "y")), (row(1, "y"), row(2, "y"))];
        for mode in [Mode::Safe, Mode::Replay] {
            assert_eq!(
                statements(keyed(), rows.clone(), mode, false),
                [
                    "REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'x')",
                    "REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'y')",
                    "DELETE FROM `s`.`t` WHERE `id` = 1 LIMIT 1",
                    "REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (2,NULL,'y')",
                ]
            );
        }
    }

    #[test]
    fn a_table_without_a_key_is_searched_by_all_its_bytes() {
        let keyless = || ReplicaTable::new(table("n", &["a int?", "b varchar general_ci"], &[]));
        let row = Some(vec![Value::Null, Value::Bytes(b"Ab".as_slice().into())]);
        let delete =
            "DELETE FROM `s`.`n` WHERE `a` IS NULL AND CAST(`b` AS BINARY)=x'4162' LIMIT 1";
        let update = "UPDATE `s`.`n` SET `a` = NULL, `b` = 'Ab' WHERE `a` IS NULL AND CAST(`b` AS \
                      BINARY)=x'4162' LIMIT 1";
        let rows = vec![(row.clone(), None), (row.clone(), None), (row.clone(), row.clone())];
        // With multiple-rows as well: one of several equal rows is meant.
        for multiple in [false, true] {
            let of = |mode| statements(keyless(), rows.clone(), mode, multiple);
            assert_eq!(of(Mode::Plain), [delete, delete, update]);
            // Executed again it finds nothing, where two statements would add a row.
            assert_eq!(of(Mode::Replay), [delete, delete, update]);
            let replace = "REPLACE INTO `s`.`n` (`a`,`b`) VALUES (NULL,'Ab')";
            assert_eq!(of(Mode::Safe), [delete, delete, delete, replace]);
        }
    }

    #[test]
    fn changes_of_one_kind_become_one_statement() {
        let rows = vec![
            (None, row(1, "a")),
            (None, row(2, "b")),
            (row(1, "a"), row(1, "c")),
            (row(1, "c"), row(1, "d")),
            (row(1, "d"), row(11, "d")),
            (row(2, "b"), row(12, "e")),
            // Behind the last, since it takes the key that that one has left.
            (row(5, "f"), row(2, "f")),
            (row(11, "d"), None),
            (row(12, "e"), None),
        ];
        assert_eq!(
            statements(keyed(), rows.clone(), Mode::Plain, true),
            [
                "INSERT INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'a'),(2,NULL,'b')",
                "INSERT INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'c'),(1,NULL,'d') ON DUPLICATE KEY \
                 UPDATE `id`=VALUES(`id`),`u`=VALUES(`u`),`c`=VALUES(`c`)",
                "UPDATE `s`.`t` SET `u`=CASE WHEN `id` = 1 THEN NULL WHEN `id` = 2 THEN NULL END, \
                 `c`=CASE WHEN `id` = 1 THEN 'd' WHEN `id` = 2 THEN 'e' END, `id`=CASE WHEN `id` = 1 \
                 THEN 11 WHEN `id` = 2 THEN 12 END WHERE (`id` = 1) OR (`id` = 2)",
                "UPDATE `s`.`t` SET `u`=CASE WHEN `id` = 5 THEN NULL END, `c`=CASE WHEN `id` = 5 THEN \
                 'f' END, `id`=CASE WHEN `id` = 5 THEN 2 END WHERE (`id` = 5)",
                "DELETE FROM `s`.`t` WHERE (`id` = 11) OR (`id` = 12)",
            ]
        );
        assert_eq!(
            statements(keyed(), rows[..3].to_vec(), Mode::Safe, true),
            [
                "REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'a'),(2,NULL,'b')",
                "REPLACE INTO `s`.`t` (`id`,`u`,`c`) VALUES (1,NULL,'c')",
            ]
        );
    }
}
