//! Building tables column by column: a head with what fills it for each point.

use super::document::{Column, Row, Table};
use super::quantity::{self, ABSENT, Support};
use crate::advise::PointSummary;
use crate::stats::Histogram;

/// Fills a cell for a point.
type Fill<'a> = Box<dyn Fn(&PointSummary) -> String + 'a>;

/// A table of points under construction.
#[derive(Default)]
pub(super) struct Builder<'a> {
    columns: Vec<(Column, Fill<'a>)>,
    keys: usize,
    group: String,
    quantiles: Vec<(String, f64)>,
}

impl<'a> Builder<'a> {
    /// Starts with one column for each knob that varies.
    pub(super) fn of_knobs(task: &'a crate::record::TaskFacts) -> Builder<'a> {
        let mut builder = Builder::default();
        for knob in &task.knobs {
            let short = knob.name.rsplit('.').next().unwrap_or(&knob.name).to_owned();
            let name = knob.name.to_string();
            builder.push(&short, "", true, move |p| {
                p.point.get(&name).cloned().unwrap_or_else(|| ABSENT.to_owned())
            });
        }
        builder.keys = builder.columns.len();
        builder
    }

    /// The columns that follow share this head.
    pub(super) fn group(&mut self, group: &str) -> &mut Self {
        self.group = group.to_owned();
        self
    }

    /// A column filled by `fill`.
    pub(super) fn push(
        &mut self,
        head: &str,
        unit: &str,
        numeric: bool,
        fill: impl Fn(&PointSummary) -> String + 'a,
    ) -> &mut Self {
        let column = Column {
            group: self.group.clone(),
            head: head.to_owned(),
            unit: unit.to_owned(),
            numeric,
        };
        self.columns.push((column, Box::new(fill)));
        self
    }

    /// The estimate of a number metric with its spread.
    pub(super) fn estimate(&mut self, head: &str, unit: &str, metric: &'a str) -> &mut Self {
        self.push(head, unit, true, move |p| {
            p.estimates.get(metric).map_or_else(|| ABSENT.to_owned(), quantity::estimate)
        })
    }

    /// The estimate of a number metric without its spread, for what is a fact rather than a result.
    pub(super) fn value(&mut self, head: &str, unit: &str, metric: &'a str) -> &mut Self {
        self.push(head, unit, true, move |p| quantity::optional(p.value(metric)))
    }

    /// A quantile of a distribution metric in µs, as ms.
    pub(super) fn quantile(&mut self, head: &str, metric: &'a str, quantile: f64) -> &mut Self {
        self.quantiles.push((metric.to_owned(), quantile));
        self.push(head, "ms", true, move |p| {
            quantity::quantile_ms(p.histograms.get(metric), quantile)
        })
    }

    /// The maximum of a distribution metric in µs, as ms.
    pub(super) fn max(&mut self, metric: &'a str) -> &mut Self {
        self.push("max", "ms", true, move |p| quantity::max_ms(p.histograms.get(metric)))
    }

    /// The number of observations of a distribution metric.
    pub(super) fn observations(&mut self, metric: &'a str) -> &mut Self {
        self.push("n", "", true, move |p| match p.histograms.get(metric).map(Histogram::n) {
            Some(n) if n > 0 => quantity::count(n),
            _ => ABSENT.to_owned(),
        })
    }

    /// How many trials count, how they ended, and what comparing both ends gave where that applies.
    pub(super) fn standing(&mut self, verified: bool) -> &mut Self {
        self.group("trials").push("n", "", true, |p| {
            if p.counted == p.trials {
                p.counted.to_string()
            } else {
                format!("{} of {}", p.counted, p.trials)
            }
        });
        if verified {
            self.push("verdict", "", false, |p| words(&p.verdicts));
        }
        self.push("outcome", "", false, |p| words(&p.outcomes))
    }

    /// The table over `points`. Columns without a single number are kept: that nothing is known is
    /// a fact too.
    pub(super) fn build(
        self,
        caption: impl Into<String>,
        points: &[PointSummary],
        picked: Option<&crate::record::Point>,
    ) -> Table {
        let rows: Vec<Row> = points
            .iter()
            .map(|point| {
                let mut cells: Vec<String> =
                    self.columns.iter().map(|(_, fill)| fill(point)).collect();
                if point.from_uncounted
                    && let Some(cell) = cells.get_mut(self.keys)
                {
                    cell.push('†');
                }
                Row { cells, picked: picked.is_some_and(|p| *p == point.point) }
            })
            .collect();
        let notes = self.notes(points, &rows);
        let columns = self.columns.into_iter().map(|(column, _)| column).collect();
        Table { caption: caption.into(), columns, keys: self.keys, rows, notes }
    }

    fn notes(&self, points: &[PointSummary], rows: &[Row]) -> Vec<String> {
        let mut notes = Vec::new();
        let first = points.iter().flat_map(|p| p.estimates.values()).find(|e| e.n > 1);
        if let Some(estimate) = first {
            notes
                .push(format!("value [spread]: {} over trials", quantity::method(estimate.method)));
        }
        if points.iter().any(|p| p.from_uncounted) {
            notes.push(
                "† from trials that do not count: shown for orientation, compared with nothing"
                    .to_owned(),
            );
        }
        let supports = || {
            self.quantiles.iter().flat_map(|(metric, q)| {
                points.iter().filter_map(move |p| {
                    let n = p.histograms.get(metric)?.n();
                    Some((quantity::support(n, *q), n, *q))
                })
            })
        };
        if supports().any(|(s, n, _)| s == Support::Thin && n > 0) {
            notes.push("~ fewer than ten observations lie beyond this percentile".to_owned());
        }
        let none = supports().filter(|(s, n, _)| *s == Support::None && *n > 0);
        if let Some((_, n, q)) = none.max_by(|a, b| a.2.total_cmp(&b.2)) {
            notes.push(format!(
                "{ABSENT} p{:.0} cannot be told from {} observations",
                q * 100.0,
                quantity::count(n)
            ));
        } else if rows.iter().any(|r| r.cells.iter().any(|c| c == ABSENT)) {
            notes.push(format!("{ABSENT} not measured in these trials"));
        }
        notes
    }
}

/// `equal` where all agree, `equal 2, differs 1` where not.
fn words(words: &std::collections::BTreeMap<String, u32>) -> String {
    match words.len() {
        0 => ABSENT.to_owned(),
        1 => words.keys().next().cloned().unwrap_or_default(),
        _ => {
            let each: Vec<String> = words.iter().map(|(word, n)| format!("{word} {n}")).collect();
            each.join(", ")
        }
    }
}
