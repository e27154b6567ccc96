//! The answer to a task's question: the pick in a sentence, what deviating costs, the YAML.

use super::document::{Block, Column, Row, Span, Style, Table};
use super::quantity::{self, ABSENT};
use crate::advise::{Deviation, Pick, TaskAdvice};
use crate::record::{Model, TaskFacts, name};

/// Ratio to the best from which on a point is worth weighing against the pick.
const NEAR: f64 = 0.85;

/// The question and the answer, as far as there is one.
pub(super) fn of(task: &TaskFacts, advice: &TaskAdvice) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !task.question.is_empty() {
        blocks.push(Block::text(task.question.clone()));
    }
    if let Some(pick) = &advice.pick {
        blocks.push(Block::Paragraph(sentence(advice, pick)));
    } else if let Some(why) = &advice.no_pick {
        blocks.push(Block::Paragraph(vec![
            Span::new(Style::Strong, "No recommendation: "),
            Span::new(Style::Plain, format!("{why}.")),
        ]));
    } else if let Some(spans) = single(task, advice) {
        blocks.push(Block::Paragraph(spans));
    }
    if let Some(none) = &advice.no_detectable_difference {
        blocks.push(Block::text(format!(
            "There is no detectable difference in the {} between the points: compared with the best \
             they lie within {} … {} at 95 % confidence. The cheapest is named.",
            advice.objective.meaning,
            quantity::difference(none.low),
            quantity::difference(none.high)
        )));
    }
    blocks.push(Block::text(where_measured(task, advice)));
    blocks
}

/// `sysbench oltp_insert, … · MySQL 9.7.1 → builtin → MySQL 9.7.1 · emulated: …`.
fn where_measured(task: &TaskFacts, advice: &TaskAdvice) -> String {
    let mut parts = vec![task.workload.clone()];
    if let Some(lab) = &task.lab {
        parts.push(match task.model {
            Model::Drive => lab.source.server.clone(),
            _ => format!("{} → {} → {}", lab.source.server, task.pipeline, lab.target.server),
        });
        let emulated: Vec<String> =
            advice.emulated.iter().map(|(what, how)| format!("{what} {how}")).collect();
        if !emulated.is_empty() {
            parts.push(format!("emulated: {}", emulated.join(", ")));
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// `sync.worker-count = 8, indicative: 16,200 rows/s, …`.
fn sentence(advice: &TaskAdvice, pick: &Pick) -> Vec<Span> {
    let mut spans = vec![Span::new(Style::Strong, format!("Pick: {}", settings(pick)))];
    if !pick.settled {
        spans.push(Span::new(Style::Plain, " "));
        spans.push(Span::new(Style::Mark, "indicative"));
    }
    let rate = advice
        .points
        .iter()
        .find(|p| p.point == pick.point)
        .and_then(|p| p.estimates.get(advice.objective.rate))
        .map(|e| format!("{} {}, ", quantity::estimate(e), advice.objective.dimension))
        .unwrap_or_default();
    spans.push(Span::new(Style::Plain, format!(" — {rate}{}{}.", pick.reason, against(pick))));
    if !pick.settled {
        spans.push(Span::new(Style::Plain, format!(" {}.", unsettled(pick))));
    }
    spans
}

/// The pick's full knob names with their values.
fn settings(pick: &Pick) -> String {
    let each: Vec<String> = pick
        .point
        .iter()
        .map(|(knob, value)| {
            let short = knob.strip_prefix("pipeline.").unwrap_or(knob);
            format!("{short} = {value}")
        })
        .collect();
    each.join(", ")
}

fn against(pick: &Pick) -> String {
    let (Some(other), Some(ratio)) = (&pick.against, &pick.ratio) else { return String::new() };
    let role = if pick.point == pick.best { "the runner-up" } else { "the best" };
    let bound = match ratio.bound {
        Some(bound) => format!(", at least {} at 95 % confidence", quantity::ratio(bound)),
        None => String::new(),
    };
    format!(
        " ({} × {role}, {other}; n = {} {}{bound})",
        quantity::ratio(ratio.median),
        ratio.n,
        if ratio.n == 1 { "block" } else { "blocks" },
    )
}

/// What keeps the pick from being settled, and what would help.
fn unsettled(pick: &Pick) -> String {
    let noise = match pick.noise {
        Some(noise) => format!(" at the scatter seen ({} within blocks)", quantity::percent(noise)),
        None => String::new(),
    };
    match pick.further_blocks {
        Some(1) => format!("1 further block should settle it{noise}"),
        Some(n) => format!("About {n} further blocks should settle it{noise}"),
        None => format!("How many further blocks would settle it cannot be said yet{noise}"),
    }
}

/// The headline of a task of one point.
fn single(task: &TaskFacts, advice: &TaskAdvice) -> Option<Vec<Span>> {
    let [point] = advice.points.as_slice() else { return None };
    if point.counted == 0 {
        return Some(vec![Span::new(Style::Strong, "No trial counts; see below why.")]);
    }
    let estimate = |metric: &str, unit: &str| {
        point.estimates.get(metric).map(|e| format!("{} {unit}", quantity::estimate(e)))
    };
    let headline = match task.model {
        Model::Bulk => {
            let dump = estimate(name::DUMP_BYTES_RATE, "MB/s of SQL text")?;
            let load = estimate(name::LOAD_BYTES_RATE, "MB/s of SQL text")?;
            format!("Dump {dump}, load {load}")
        }
        Model::Stream | Model::Sustain => {
            let lag = point.histograms.get(name::LAG_MARKER)?;
            format!(
                "Lag p50 {}, p95 {}, p99 {}, max {} ms (n = {} markers)",
                quantity::quantile_ms(Some(lag), 0.5),
                quantity::quantile_ms(Some(lag), 0.95),
                quantity::quantile_ms(Some(lag), 0.99),
                quantity::max_ms(Some(lag)),
                quantity::count(lag.n())
            )
        }
        Model::Backlog => estimate(name::SYNC_ROWS_RATE, "rows/s")?,
        Model::Drive => estimate(name::ACHIEVED, "ops/s")?,
    };
    let mut spans = vec![Span::new(Style::Strong, headline)];
    if point.counted < crate::stats::knee::LEAST_BLOCKS {
        spans.push(Span::new(Style::Plain, " "));
        spans.push(Span::new(Style::Mark, "indicative"));
        let trials = if point.counted == 1 { "trial" } else { "trials" };
        spans.push(Span::new(Style::Plain, format!(" — {} {trials}.", point.counted)));
    }
    Some(spans)
}

/// What deviating from the pick costs, and the YAML to paste; `None` without a pick.
pub(super) fn recommendation(advice: &TaskAdvice) -> Option<Vec<Block>> {
    let pick = advice.pick.as_ref()?;
    let mut blocks = vec![Block::Table(deviations(advice, pick))];
    if let Some(yaml) = &advice.dm_yaml {
        blocks.push(Block::text("To paste into a DM task:"));
        blocks.push(Block::Code { language: "yaml", text: yaml.clone() });
    }
    Some(blocks)
}

fn deviations(advice: &TaskAdvice, pick: &Pick) -> Table {
    let column = Column::plain;
    let mut columns = vec![
        column("point", "", false),
        column("against best", "median of blocks", true),
        column("in blocks", "range", true),
        column("n", "blocks", true),
    ];
    let with_time = advice.objective.latency.is_some();
    if with_time {
        columns.push(column("p99", "ms", true));
    }
    columns.push(column("", "", false));
    let time = |d: &Deviation| {
        let us = d.latency_p99.map(|us| us as f64 / 1e3);
        let n = advice.points.iter().find(|p| p.point == d.point);
        let n = n.and_then(|p| p.distributions.get(advice.objective.latency?)).map_or(0, |d| d.n);
        match quantity::support(n, 0.99) {
            quantity::Support::Full => quantity::optional(us),
            quantity::Support::Thin => format!("~{}", quantity::optional(us)),
            quantity::Support::None => ABSENT.to_owned(),
        }
    };
    let row = |d: &Deviation| {
        let of = |f: &dyn Fn(&crate::stats::paired::Ratio) -> String| {
            d.to_best.as_ref().map_or_else(|| ABSENT.to_owned(), f)
        };
        let mut cells = vec![
            d.label.clone(),
            of(&|r| quantity::difference(r.median)),
            of(&|r| format!("{} … {}", quantity::difference(r.low), quantity::difference(r.high))),
            of(&|r| r.n.to_string()),
        ];
        if with_time {
            cells.push(time(d));
        }
        cells.push(remark(d, pick, with_time));
        Row { cells, picked: d.is_pick }
    };
    let mut notes = Vec::new();
    if with_time {
        notes.push(format!("p99: {}", advice.objective.latency_meaning));
        if trades(pick).count() > 1 {
            notes.push(
                "trade: near the best, and no other point has both a higher rate and a lower p99"
                    .to_owned(),
            );
        }
    }
    Table {
        caption: format!("Cost of deviating: {}, ratios paired by block", advice.objective.meaning),
        columns,
        keys: 1,
        rows: pick.deviations.iter().map(row).collect(),
        notes,
    }
}

fn remark(deviation: &Deviation, pick: &Pick, with_time: bool) -> String {
    let mut words = Vec::new();
    if deviation.is_pick {
        words.push("pick");
    }
    if deviation.point == pick.best {
        words.push("best");
    }
    let several = with_time && trades(pick).count() > 1;
    if several && trades(pick).any(|d| d.point == deviation.point) {
        words.push("trade");
    }
    words.join(", ")
}

/// Points among which a reader may sensibly choose otherwise: on the front and not far from the best.
fn trades(pick: &Pick) -> impl Iterator<Item = &Deviation> {
    let near = |d: &&Deviation| d.to_best.is_some_and(|r| r.median >= NEAR);
    pick.deviations.iter().filter(|d| d.on_front).filter(near)
}
