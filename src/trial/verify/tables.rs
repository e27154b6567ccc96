//! Which tables there are at each end, and how each is cut into chunks.

use std::collections::BTreeSet;

use crate::mysql::schema::{Table, table_names};
use crate::mysql::session::quote_name;
use crate::mysql::{Flavor, Session};
use crate::trial::verify::Error;
use crate::trial::verify::exact::Zero;
use crate::trial::verify::plan::{Pairing, Plan, pair as pair_tables};
use crate::trial::verify::work::SessionPair;

/// Key values in one chunk. A dense table has as many rows in it.
const CHUNK_WIDTH: i128 = 20_000;

/// Chunks of one table at most: a sparse key must not make a query for each row.
const MOST_CHUNKS: i128 = 256;

/// A part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Index into [`Survey::plans`].
    pub(super) plan: usize,
    /// SQL condition, `TRUE` for the whole table.
    pub(super) condition: String,
}

/// What there is to compare, and what differs before any row is read.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Tables of both ends that can be compared.
    pub(super) plans: Vec<Plan>,
    /// Their parts, in the order of tables and keys.
    pub(super) chunks: Vec<Chunk>,
    /// Tables seen at either end.
    pub(super) tables: u64,
    /// Rows of tables that the target lacks.
    pub(super) missing: u64,
    /// Rows of tables that the source lacks.
    pub(super) surplus: u64,
    /// Differences between definitions.
    pub(super) remarks: Vec<String>,
    /// Tables that cannot be compared, and why.
    pub(super) incomparable: Vec<String>,
}

/// Reads the definitions of all tables at both ends.
pub(super) async fn survey(
    pair: &mut SessionPair,
    schemas: &[String],
    ignore: &[&str],
) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    for schema in schemas {
        let ours = names(&mut pair.source, schema, ignore).await?;
        let theirs = names(&mut pair.target, schema, ignore).await?;
        survey.tables += ours.union(&theirs).count() as u64;
        for name in ours.difference(&theirs) {
            let rows = count(&mut pair.source, schema, name).await?;
            survey.missing += rows;
            survey.remarks.push(format!("{schema}.{name}: not in the target ({rows} rows)"));
        }
        for name in theirs.difference(&ours) {
            let rows = count(&mut pair.target, schema, name).await?;
            survey.surplus += rows;
            survey.remarks.push(format!("{schema}.{name}: in the target only ({rows} rows)"));
        }
        for name in ours.intersection(&theirs) {
            survey.add(pair, schema, name).await?;
        }
    }
    Ok(survey)
}

impl Survey {
    async fn add(&mut self, pair: &mut SessionPair, schema: &str, name: &str) -> Result<(), Error> {
        let source = Table::read(&mut pair.source, schema, name).await?;
        let target = Table::read(&mut pair.target, schema, name).await?;
        match pair_tables(&source, &target, zero(pair)) {
            Pairing::Differs(why) => self.remarks.push(format!("{schema}.{name}: {why}")),
            Pairing::Incomparable(why) => self.incomparable.push(format!("{schema}.{name}: {why}")),
            Pairing::Comparable(plan) => {
                let conditions = conditions(pair, &plan).await?;
                let plan_index = self.plans.len();
                self.chunks.extend(
                    conditions.into_iter().map(|condition| Chunk { plan: plan_index, condition }),
                );
                self.plans.push(*plan);
            }
        }
        Ok(())
    }
}

fn zero(pair: &SessionPair) -> Zero {
    let keeps_sign = |session: &Session| session.server().flavor == Flavor::Mysql;
    if keeps_sign(&pair.source) && keeps_sign(&pair.target) { Zero::Signed } else { Zero::Unsigned }
}

async fn names(
    session: &mut Session,
    schema: &str,
    ignore: &[&str],
) -> Result<BTreeSet<String>, Error> {
    let names = table_names(session, schema).await?;
    Ok(names.into_iter().filter(|name| !ignore.contains(&name.as_str())).collect())
}

async fn count(session: &mut Session, schema: &str, name: &str) -> Result<u64, Error> {
    let sql = format!("SELECT COUNT(*) FROM {}.{}", quote_name(schema), quote_name(name));
    Ok(session.value(&sql).await?.unwrap_or(0))
}

/// The conditions that cut a table into chunks.
async fn conditions(pair: &mut SessionPair, plan: &Plan) -> Result<Vec<String>, Error> {
    let Some(column) = &plan.chunk_by else { return Ok(vec!["TRUE".into()]) };
    let mut ends: Vec<i128> = Vec::new();
    for (session, side) in [(&mut pair.source, &plan.source), (&mut pair.target, &plan.target)] {
        let sql =
            format!("SELECT CONCAT(MIN({column})), CONCAT(MAX({column})) FROM {}", side.table);
        for row in session.rows(&sql).await? {
            let (low, high): (Option<String>, Option<String>) = mysql_async::from_row(row);
            ends.extend(
                [low, high].into_iter().flatten().filter_map(|text| text.parse::<i128>().ok()),
            );
        }
    }
    let (Some(&low), Some(&high)) = (ends.iter().min(), ends.iter().max()) else {
        return Ok(vec!["TRUE".into()]);
    };
    Ok(ranges(column, &bounds(low, high)))
}

/// Values at which the chunks after the first begin, for keys from `low` to `high`.
fn bounds(low: i128, high: i128) -> Vec<i128> {
    let width = high - low + 1;
    let chunks = (width / CHUNK_WIDTH).clamp(1, MOST_CHUNKS);
    (1..chunks).map(|index| low + width * index / chunks).collect()
}

/// Conditions for the ranges between bounds. The first and the last range have no outer bound: a
/// row that lies outside of what was seen a moment ago must still be compared.
fn ranges(column: &str, bounds: &[i128]) -> Vec<String> {
    let mut conditions = Vec::new();
    let mut from = None;
    for to in bounds.iter().map(Some).chain([None]) {
        conditions.push(match (from, to) {
            (None, None) => "TRUE".to_owned(),
            (None, Some(to)) => format!("{column} < {to}"),
            (Some(from), None) => format!("{column} >= {from}"),
            (Some(from), Some(to)) => format!("{column} >= {from} AND {column} < {to}"),
        });
        from = to;
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_meet_without_gap_or_overlap() {
        assert_eq!(ranges("k", &[]), ["TRUE"]);
        assert_eq!(ranges("k", &[5, 9]), ["k < 5", "k >= 5 AND k < 9", "k >= 9"]);
    }

    #[test]
    fn chunks_follow_the_width_of_the_key_and_are_bounded_in_number() {
        assert!(bounds(1, 39_999).is_empty());
        assert_eq!(bounds(1, 60_000), [20_001, 40_001]);
        assert_eq!(bounds(i64::MIN.into(), u64::MAX.into()).len(), 255);
        assert!(bounds(-5, -5).is_empty());
    }
}
