//! What differs: rows of both ends paired by key, counted and shown by example.

/// How many examples a verdict carries at most.
pub(super) const MOST_EXAMPLES: usize = 10;

/// One row as far as comparing needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    /// Value of an integer leading key column, so that examples come in the table's order; else 0.
    pub(super) leading: i128,
    /// The key as shown, or for a table without a key the row's hash and beginning.
    pub(super) key: String,
    /// Hash of the row's values.
    pub(super) digest: u128,
}

/// What happened to a row between source and target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The source has it, the target has not.
    Missing,
    /// The target has it, the source has not.
    Surplus,
    /// Both have the key, with different values.
    Changed,
}

impl Fate {
    /// As in `bench.sbtest1 id=7: missing in the target`.
    pub(super) fn words(self) -> &'static str {
        match self {
            Fate::Missing => "missing in the target",
            Fate::Surplus => "in the target only",
            Fate::Changed => "values differ",
        }
    }
}

/// Counts of differing rows with the first few keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Rows the target lacks.
    pub(super) missing: u64,
    /// Rows the source lacks.
    pub(super) surplus: u64,
    /// Rows with one key and different values.
    pub(super) changed: u64,
    /// Whether there are more than were told apart.
    pub(super) at_least: bool,
    /// The first differing keys.
    pub(super) first: Vec<(String, Fate)>,
}

impl Difference {
    /// Whether nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.missing + self.surplus + self.changed == 0
    }

    /// Counts `count` rows of one fate and keeps their key as an example while there is room.
    pub(super) fn add(&mut self, fate: Fate, key: &str, count: usize) {
        let counter = match fate {
            Fate::Missing => &mut self.missing,
            Fate::Surplus => &mut self.surplus,
            Fate::Changed => &mut self.changed,
        };
        *counter += count as u64;
        for _ in 0..count.min(MOST_EXAMPLES - self.first.len().min(MOST_EXAMPLES)) {
            self.first.push((key.to_owned(), fate));
        }
    }

    /// What is known of two sets of rows that differ and were not told apart: the difference of
    /// their counts, or one changed row where they are equal in number.
    pub(super) fn from_counts(source: u64, target: u64) -> Difference {
        Difference {
            missing: source.saturating_sub(target),
            surplus: target.saturating_sub(source),
            changed: u64::from(source == target),
            at_least: true,
            first: Vec::new(),
        }
    }
}

/// Pairs the rows of both ends. Rows of one key and one digest cancel one by one, so that a
/// duplicate counts; what is left of a key pairs up as changed rows, and the rest is missing or
/// surplus.
pub(super) fn between(mut source: Vec<Row>, mut target: Vec<Row>) -> Difference {
    source.sort_unstable();
    target.sort_unstable();
    let mut difference = Difference::default();
    let (mut s, mut t) = (source.as_slice(), target.as_slice());
    while let Some(row) = [s.first(), t.first()].into_iter().flatten().min_by_key(|row| order(row))
    {
        let (ours, rest) = s.split_at(s.partition_point(|r| order(r) <= order(row)));
        let (theirs, rest_of_target) = t.split_at(t.partition_point(|r| order(r) <= order(row)));
        let (missing, surplus) = unpaired(ours, theirs);
        let changed = missing.min(surplus);
        for (fate, count) in [
            (Fate::Changed, changed),
            (Fate::Missing, missing - changed),
            (Fate::Surplus, surplus - changed),
        ] {
            difference.add(fate, &row.key, count);
        }
        (s, t) = (rest, rest_of_target);
    }
    difference
}

fn order(row: &Row) -> (i128, &str) {
    (row.leading, &row.key)
}

/// How many digests of two sorted groups have no partner in the other one.
fn unpaired(source: &[Row], target: &[Row]) -> (usize, usize) {
    let (mut s, mut t, mut paired) = (0, 0, 0);
    while s < source.len() && t < target.len() {
        match source[s].digest.cmp(&target[t].digest) {
            std::cmp::Ordering::Less => s += 1,
            std::cmp::Ordering::Greater => t += 1,
            std::cmp::Ordering::Equal => {
                paired += 1;
                s += 1;
                t += 1;
            }
        }
    }
    (source.len() - paired, target.len() - paired)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(key: u8, digest: u8) -> Row {
        Row { leading: key.into(), key: format!("id={key}"), digest: digest.into() }
    }

    #[test]
    fn each_fate_is_told_apart_in_the_order_of_the_keys() {
        let source = vec![row(10, 1), row(9, 1), row(7, 1), row(8, 1)];
        let target = vec![row(10, 2), row(9, 1), row(11, 1), row(8, 1), row(8, 1)];
        let difference = between(source, target);
        assert_eq!((difference.missing, difference.surplus, difference.changed), (1, 2, 1));
        let first: Vec<_> = difference.first.iter().map(|(key, fate)| (&key[..], *fate)).collect();
        assert_eq!(
            first,
            [
                ("id=7", Fate::Missing),
                ("id=8", Fate::Surplus),
                ("id=10", Fate::Changed),
                ("id=11", Fate::Surplus)
            ]
        );
    }

    proptest! {
        /// The counts of rows must add up, whatever the rows are, and only equal multisets are equal.
        #[test]
        fn counts_add_up(
            source in proptest::collection::vec((0u8..6, 0u8..3), 0..20),
            target in proptest::collection::vec((0u8..6, 0u8..3), 0..20),
        ) {
            let rows = |of: &[(u8, u8)]| of.iter().map(|&(k, d)| row(k, d)).collect::<Vec<_>>();
            let difference = between(rows(&source), rows(&target));
            prop_assert_eq!(
                source.len() as u64 + difference.surplus,
                target.len() as u64 + difference.missing
            );
            let sorted = |mut of: Vec<(u8, u8)>| { of.sort_unstable(); of };
            prop_assert_eq!(difference.is_empty(), sorted(source) == sorted(target));
        }
    }
}
