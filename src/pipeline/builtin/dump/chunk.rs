//! Which parts a table is read in.
//!
//! A table with an integer key is cut into ranges of that key of equal width; gaps in the ids make
//! uneven chunks, as they do in DM. Other tables are one chunk. Chunks of a table never overlap and
//! leave nothing out: the first has no lower bound, the last no upper bound.

use std::sync::Arc;

use crate::mysql::Session;
use crate::mysql::schema::{Table, UniqueKey};
use crate::mysql::session::quote_name;
use crate::pipeline::builtin::dump::Error;
use crate::pipeline::builtin::dump::literal::Dress;

/// Most chunks of one table; more would only make the list of work long.
const MOST_CHUNKS: u64 = 100_000;

/// How a table is read and written.
#[derive(Debug)]
pub(super) struct TablePlan {
    pub(super) schema: String,
    pub(super) table: String,
    /// `SHOW CREATE TABLE` without a final semicolon.
    pub(super) create: String,
    /// Dress of each selected column.
    pub(super) dresses: Vec<Dress>,
    /// `INSERT INTO … VALUES`, up to the first row.
    pub(super) insert: Vec<u8>,
    select: String,
    order: String,
}

/// One part of a table.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) plan: Arc<TablePlan>,
    /// Number in its table, from 0.
    pub(super) number: u64,
    /// Rows it should have, by the server's estimate.
    pub(super) rows: u64,
    condition: Option<String>,
}

impl Chunk {
    /// The query that reads it.
    pub(super) fn query(&self) -> String {
        let condition = match &self.condition {
            Some(condition) => format!(" WHERE {condition}"),
            None => String::new(),
        };
        format!("{}{condition}{}", self.plan.select, self.plan.order)
    }
}

/// A table with its chunks.
pub(super) struct Planned {
    pub(super) plan: Arc<TablePlan>,
    pub(super) chunks: Vec<Chunk>,
    /// Rows by the server's estimate.
    pub(super) rows: u64,
    /// A storage engine without snapshots.
    pub(super) foreign_engine: Option<String>,
}

/// Plans a table through a snapshot's session. From here on the session's transaction also keeps
/// the table's definition.
pub(super) async fn plan(
    session: &mut Session,
    schema: &str,
    name: &str,
    rows_per_chunk: u64,
) -> Result<Planned, Error> {
    let odd = |why: &str| Error::Table { table: format!("{schema}.{name}"), why: why.to_owned() };
    let quoted = format!("{}.{}", quote_name(schema), quote_name(name));
    session.rows(&format!("SELECT 1 FROM {quoted} LIMIT 1")).await?;
    let table = Table::read(session, schema, name).await?;
    if table.columns.is_empty() {
        return Err(odd("its columns cannot be read"));
    }
    let rows = session.rows(&format!("SHOW CREATE TABLE {quoted}")).await?;
    let create: Option<String> = rows.first().and_then(|row| row.get(1));
    let create = create.ok_or_else(|| odd("the server does not show how to create it"))?;
    let sql = "SELECT engine, table_rows FROM information_schema.tables \
               WHERE table_schema = ? AND table_name = ?";
    let answer = session.rows_with(sql, (schema, name)).await?;
    let (engine, rows): (Option<String>, Option<u64>) = match answer.into_iter().next() {
        Some(row) => mysql_async::from_row(row),
        None => return Err(odd("it is gone")),
    };
    let rows = rows.unwrap_or(0);
    let plan = Arc::new(table_plan(&table, create));
    let conditions = conditions(session, &table, rows, rows_per_chunk).await?;
    let share = rows / (conditions.len() as u64).max(1);
    let chunks = conditions
        .into_iter()
        .zip(0..)
        .map(|(condition, number)| Chunk { plan: plan.clone(), number, rows: share, condition })
        .collect();
    let foreign_engine = engine.filter(|engine| !engine.eq_ignore_ascii_case("innodb"));
    Ok(Planned { plan, chunks, rows, foreign_engine })
}

/// Generated columns are left out: the target computes them. FLOAT is read as a double, since its
/// own text has six digits and loses the rest.
fn table_plan(table: &Table, create: String) -> TablePlan {
    let written: Vec<_> = table.columns.iter().filter(|column| !column.generated).collect();
    let names: Vec<_> = written.iter().map(|column| quote_name(&column.name)).collect();
    let read: Vec<_> = written
        .iter()
        .zip(&names)
        .map(|(column, name)| match column.data_type.as_str() {
            "float" => format!("{name}*1e0"),
            _ => name.clone(),
        })
        .collect();
    let list = if read.is_empty() { "1".to_owned() } else { read.join(",") };
    let primary = table.unique_keys.iter().find(|key| key.name == "PRIMARY");
    let order = primary.map_or_else(String::new, |key| {
        let parts: Vec<_> =
            key.parts.iter().map(|part| quote_name(&table.columns[part.column].name)).collect();
        format!(" ORDER BY {}", parts.join(","))
    });
    TablePlan {
        schema: table.schema.clone(),
        table: table.name.clone(),
        create,
        dresses: written.iter().map(|column| Dress::of(column)).collect(),
        insert: format!("INSERT INTO {} ({}) VALUES\n", quote_name(&table.name), names.join(","))
            .into_bytes(),
        select: format!("SELECT {list} FROM {}", table.quoted()),
        order,
    }
}

/// The integer column that leads the primary key, else the shortest unique key so led.
fn split_column(table: &Table) -> Option<usize> {
    let led_by_integer = |key: &&UniqueKey| {
        key.parts.first().is_some_and(|part| table.columns[part.column].is_integer())
    };
    let primary = table.unique_keys.iter().find(|key| key.name == "PRIMARY");
    primary
        .filter(led_by_integer)
        .or_else(|| {
            table.unique_keys.iter().filter(led_by_integer).min_by_key(|key| key.parts.len())
        })
        .map(|key| key.parts[0].column)
}

async fn conditions(
    session: &mut Session,
    table: &Table,
    rows: u64,
    rows_per_chunk: u64,
) -> Result<Vec<Option<String>>, Error> {
    let whole = vec![None];
    if rows_per_chunk == 0 || rows < rows_per_chunk {
        return Ok(whole);
    }
    let Some(column) = split_column(table).map(|index| &table.columns[index]) else {
        return Ok(whole);
    };
    let name = quote_name(&column.name);
    let sql = format!("SELECT MIN({name}), MAX({name}) FROM {}", table.quoted());
    let answer = session.rows(&sql).await?;
    let bounds: Option<(Option<String>, Option<String>)> =
        answer.into_iter().next().map(mysql_async::from_row);
    let Some((Some(min), Some(max))) = bounds else { return Ok(whole) };
    let (Ok(min), Ok(max)) = (min.parse::<i128>(), max.parse::<i128>()) else { return Ok(whole) };
    let cuts = cuts(min, max, (rows / rows_per_chunk).min(MOST_CHUNKS));
    Ok(ranges(&name, column.nullable, &cuts))
}

/// The lower bounds of all chunks but the first: equal steps over `[min, max]`.
fn cuts(min: i128, max: i128, chunks: u64) -> Vec<i128> {
    let step = (max - min) / i128::from(chunks.max(1)) + 1;
    let mut cuts = Vec::new();
    let mut at = min + step;
    while at <= max {
        cuts.push(at);
        at += step;
    }
    cuts
}

fn ranges(name: &str, nullable: bool, cuts: &[i128]) -> Vec<Option<String>> {
    let (Some(first), Some(last)) = (cuts.first(), cuts.last()) else { return vec![None] };
    let mut conditions = Vec::with_capacity(cuts.len() + 1);
    conditions.push(Some(if nullable {
        format!("({name} < {first} OR {name} IS NULL)")
    } else {
        format!("{name} < {first}")
    }));
    for pair in cuts.windows(2) {
        conditions.push(Some(format!("{name} >= {} AND {name} < {}", pair[0], pair[1])));
    }
    conditions.push(Some(format!("{name} >= {last}")));
    conditions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_half_open_and_the_first_takes_null() {
        assert_eq!(cuts(1, 100, 4), [26, 51, 76]);
        assert_eq!(ranges("`k`", true, &[]), [None]);
        assert_eq!(
            ranges("`k`", true, &[26, 51]),
            [
                Some("(`k` < 26 OR `k` IS NULL)".to_owned()),
                Some("`k` >= 26 AND `k` < 51".to_owned()),
                Some("`k` >= 51".to_owned()),
            ]
        );
    }

    proptest! {
        #[test]
        fn every_id_is_in_exactly_one_chunk(
            min in any::<i64>(), width in 0u64..=u64::MAX, chunks in 1u64..50, share in 0f64..=1.0
        ) {
            let (min, width) = (i128::from(min), i128::from(width));
            let max = min + width;
            let cuts = cuts(min, max, chunks);
            prop_assert!(cuts.len() < chunks as usize);
            prop_assert!(cuts.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(cuts.iter().all(|&cut| cut > min && cut <= max));
            let id = min + (share * width as f64) as i128;
            let inside = |chunk: usize| {
                (chunk == 0 || id >= cuts[chunk - 1]) && (chunk == cuts.len() || id < cuts[chunk])
            };
            prop_assert_eq!((0..=cuts.len()).filter(|&chunk| inside(chunk)).count(), 1);
        }
    }
}
