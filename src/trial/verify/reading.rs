//! What one end says of a part of a table: count and sums of hashes, or row by row.
//!
//! The sums are of 60-bit numbers cut out of each row's SHA-256, as DECIMAL: in an exclusive or,
//! two equal surplus rows would cancel; in a sum they do not.

use std::collections::BTreeMap;

use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{QueryResult, Value};

use crate::mysql::Session;
use crate::trial::verify::Error;
use crate::trial::verify::difference::Row;
use crate::trial::verify::exact;
use crate::trial::verify::plan::{Plan, Side};

/// Keeps a derived table from being merged into the outer query, which would compute the hash once
/// for each use of it. MySQL, MariaDB and TiDB all know it, unlike hints and switches.
const NOT_MERGED: &str = "LIMIT 18446744073709551615";

/// The aggregates over hashes `h`.
const SUMS: &str = "COUNT(*), COUNT(h), SUM(CAST(CONV(LEFT(h,15),16,10) AS DECIMAL(30))), \
                    SUM(CAST(CONV(SUBSTRING(h,16,15),16,10) AS DECIMAL(30)))";

/// Count and sums of a set of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Rows.
    pub(super) rows: u64,
    sums: [u128; 2],
}

impl Sums {
    fn add(&mut self, digest: u128) {
        self.rows += 1;
        let halves = [digest >> 64, digest & u128::from(u64::MAX)];
        for (sum, half) in self.sums.iter_mut().zip(halves) {
            *sum = sum.wrapping_add(half);
        }
    }
}

/// Which end of a plan to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    /// The plan.
    pub(super) plan: &'a Plan,
    /// One of its sides.
    pub(super) side: &'a Side,
}

impl End<'_> {
    fn hash(&self) -> String {
        format!("SHA2(CONCAT({}),256)", self.side.row_text)
    }

    /// Number of a row's bucket, from its key or, without one, from its hash.
    fn bucket(&self, count: u64) -> String {
        let of = if self.plan.key.is_empty() { self.hash() } else { self.side.key.join(",'#',") };
        format!("CRC32(CONCAT({of})) % {count}")
    }
}

/// Count and sums of the rows that meet a condition (`TRUE` for all).
pub(super) async fn sums(
    session: &mut Session,
    end: End<'_>,
    condition: &str,
) -> Result<Sums, Error> {
    let table = &end.side.table;
    if !end.side.exact.is_empty() {
        let mut sums = Sums::default();
        let sql = rows_sql(end, condition, "");
        for_each(session, end, &sql, |row| sums.add(row.digest)).await?;
        return Ok(sums);
    }
    let hash = end.hash();
    let sql = format!(
        "SELECT 0, {SUMS} FROM (SELECT {hash} AS h FROM {table} WHERE {condition} {NOT_MERGED}) d"
    );
    Ok(grouped(session, end, &sql).await?.remove(&0).unwrap_or_default())
}

/// Count and sums for each of `count` buckets of the rows that meet a condition. Not for tables
/// with columns that the client compares.
pub(super) async fn bucket_sums(
    session: &mut Session,
    end: End<'_>,
    condition: &str,
    count: u64,
) -> Result<BTreeMap<u64, Sums>, Error> {
    let (hash, bucket, table) = (end.hash(), end.bucket(count), &end.side.table);
    let sql = format!(
        "SELECT b, {SUMS} FROM (SELECT {bucket} AS b, {hash} AS h FROM {table} WHERE {condition} \
         {NOT_MERGED}) d GROUP BY b"
    );
    grouped(session, end, &sql).await
}

async fn grouped(
    session: &mut Session,
    end: End<'_>,
    sql: &str,
) -> Result<BTreeMap<u64, Sums>, Error> {
    let mut groups = BTreeMap::new();
    for row in session.rows(sql).await? {
        type Answer = (u64, u64, u64, Option<String>, Option<String>);
        let answer: Answer = mysql_async::from_row_opt(row).map_err(|_| unreadable(end))?;
        let (group, rows, hashed, first, second) = answer;
        if rows != hashed {
            return Err(Error::TooLarge { table: end.plan.name.clone() });
        }
        let number = |text: Option<String>| match text {
            Some(text) => text.parse::<u128>().map_err(|_| unreadable(end)),
            None => Ok(0),
        };
        groups.insert(group, Sums { rows, sums: [number(first)?, number(second)?] });
    }
    Ok(groups)
}

/// The condition that narrows another one to some of `count` buckets.
pub(super) fn in_buckets(end: End<'_>, condition: &str, count: u64, buckets: &[u64]) -> String {
    let list: Vec<String> = buckets.iter().map(u64::to_string).collect();
    format!("{condition} AND {} IN ({})", end.bucket(count), list.join(","))
}

/// All rows that meet a condition.
pub(super) async fn rows(
    session: &mut Session,
    end: End<'_>,
    condition: &str,
) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for_each(session, end, &rows_sql(end, condition, ""), |row| rows.push(row)).await?;
    Ok(rows)
}

/// The first few rows that meet a condition, in the order of the key.
pub(super) async fn first_rows(
    session: &mut Session,
    end: End<'_>,
    condition: &str,
    count: usize,
) -> Result<Vec<Row>, Error> {
    let order: Vec<String> = match &end.plan.chunk_by {
        Some(column) => vec![column.clone()],
        None => (1..=end.side.key.len()).map(|n| n.to_string()).collect(),
    };
    let tail = format!("ORDER BY {} LIMIT {count}", order.join(","));
    let mut rows = Vec::new();
    for_each(session, end, &rows_sql(end, condition, &tail), |row| rows.push(row)).await?;
    Ok(rows)
}

fn rows_sql(end: End<'_>, condition: &str, tail: &str) -> String {
    let mut columns = end.side.key.clone();
    columns.push(end.hash());
    columns.extend(end.side.exact.iter().cloned());
    format!("SELECT {} FROM {} WHERE {condition} {tail}", columns.join(","), end.side.table)
}

/// Streams rows by the binary protocol where bits matter, else by the text protocol.
async fn for_each(
    session: &mut Session,
    end: End<'_>,
    sql: &str,
    take: impl FnMut(Row),
) -> Result<(), Error> {
    let streamed = if end.side.exact.is_empty() {
        match session.conn().query_iter(sql).await {
            Ok(result) => stream(result, end, take).await,
            Err(error) => Err(Stopped::Driver(error)),
        }
    } else {
        match session.conn().exec_iter(sql, ()).await {
            Ok(result) => stream(result, end, take).await,
            Err(error) => Err(Stopped::Driver(error)),
        }
    };
    streamed.map_err(|stopped| match stopped {
        Stopped::Driver(error) => session.statement_error(sql, error).into(),
        Stopped::Here(error) => error,
    })
}

/// Why streaming stopped: the driver's error still lacks the name of the server.
enum Stopped {
    Driver(mysql_async::Error),
    Here(Error),
}

async fn stream<P: Protocol>(
    mut result: QueryResult<'_, '_, P>,
    end: End<'_>,
    mut take: impl FnMut(Row),
) -> Result<(), Stopped> {
    let mut failed = None;
    while let Some(row) = result.next().await.map_err(Stopped::Driver)? {
        // After a row that cannot be read the rest is still drained, or the session would be lost.
        match row_of(end, &row.unwrap()) {
            Ok(row) if failed.is_none() => take(row),
            Ok(_) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(()), |error| Err(Stopped::Here(error)))
}

fn row_of(end: End<'_>, values: &[Value]) -> Result<Row, Error> {
    let (key, rest) = values.split_at_checked(end.side.key.len()).ok_or_else(|| unreadable(end))?;
    let (hash, exact) = rest.split_first().ok_or_else(|| unreadable(end))?;
    let Value::Bytes(hash) = hash else {
        return Err(Error::TooLarge { table: end.plan.name.clone() });
    };
    let digest = if exact.is_empty() {
        let hex = std::str::from_utf8(hash).ok().and_then(|text| text.get(..32));
        hex.and_then(|hex| u128::from_str_radix(hex, 16).ok()).ok_or_else(|| unreadable(end))?
    } else {
        let kinds = end.plan.exact.iter().copied();
        exact::digest(hash, &kinds.zip(exact).collect::<Vec<_>>(), end.plan.zero)
    };
    let shown: Vec<String> = key.iter().map(text).collect();
    let leading = match &end.plan.chunk_by {
        Some(_) => shown[0].parse().unwrap_or(0),
        None => 0,
    };
    let key = if end.plan.key.is_empty() {
        format!("row ({}) with hash {:016x}", shown.join(""), digest >> 64)
    } else {
        let names = end.plan.key.iter();
        let pairs: Vec<String> =
            names.zip(&shown).map(|(n, value)| format!("{n}={value}")).collect();
        pairs.join(", ")
    };
    Ok(Row { leading, key, digest })
}

fn text(value: &Value) -> String {
    match value {
        Value::NULL => String::new(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.as_sql(true),
    }
}

fn unreadable(end: End<'_>) -> Error {
    Error::Answer { table: end.plan.name.clone() }
}
