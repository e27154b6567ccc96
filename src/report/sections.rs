//! Which sections a report has, and the tables of each model.

use std::cmp::Ordering;

use super::document::{Bar, Block, Chart, Column, Document, Row, Section, Span, Style, Table};
use super::quantity::{self, ABSENT};
use super::table::Builder;
use super::{answer, measured};
use crate::advise::{PointSummary, TaskAdvice, advise};
use crate::record::{Model, Run, TaskFacts, Trial, name, resolution_us};

impl Document {
    /// The report of a run.
    pub fn of(run: &Run, trials: &[Trial]) -> Document {
        let advices = advise(run, trials);
        let mut lead = vec![measured::run_facts(run)];
        if run.interrupted {
            let text = "interrupted: what is shown is what there was by then";
            lead.insert(0, Block::Paragraph(vec![Span::new(Style::Mark, text)]));
        }
        let mut sections = Vec::new();
        for (task, advice) in run.tasks.iter().zip(&advices) {
            let of_task: Vec<&Trial> = trials.iter().filter(|t| t.task == task.name).collect();
            sections.extend(of_one_task(task, advice, &of_task));
        }
        sections.push(measured::reproduce(run));
        Document { title: format!("dmbench · {}", run.id), lead, sections }
    }
}

fn of_one_task(task: &TaskFacts, advice: &TaskAdvice, trials: &[&Trial]) -> Vec<Section> {
    let section =
        |level, heading: &str, blocks| Section { level, heading: heading.to_owned(), blocks };
    let mut first = answer::of(task, advice);
    first.extend(tables(task, advice).into_iter().map(Block::Table));
    first.extend(chart(advice).map(Block::Chart));
    let mut sections = vec![section(1, &task.name, first)];
    if let Some(recommended) = answer::recommendation(advice) {
        sections.push(section(2, "Recommendation", recommended));
    }
    if !advice.findings.is_empty() {
        let findings = advice.findings.iter().cloned().map(Block::Finding).collect();
        sections.push(section(2, "Findings", findings));
    }
    if let Some(table) = uncounted(advice) {
        sections.push(section(2, "Trials that do not count", vec![Block::Table(table)]));
    }
    sections.push(section(2, "How it was measured", measured::of_task(task, advice, trials)));
    sections
}

/// The tables of a task, by its model.
pub(super) fn tables(task: &TaskFacts, advice: &TaskAdvice) -> Vec<Table> {
    match task.model {
        Model::Bulk => vec![bulk(task, advice)],
        Model::Backlog => vec![backlog(task, advice)],
        Model::Stream | Model::Sustain => {
            let mut tables = vec![lag(task, advice)];
            tables.extend(items(task, advice));
            tables
        }
        Model::Drive => vec![drive(task, advice)],
    }
}

fn picked(advice: &TaskAdvice) -> Option<&crate::record::Point> {
    advice.pick.as_ref().map(|pick| &pick.point)
}

fn ratio_to_best<'a>(builder: &mut Builder<'a>, advice: &'a TaskAdvice) {
    if let Some(pick) = &advice.pick {
        builder.push("to best", "ratio", true, move |p| {
            let deviation = pick.deviations.iter().find(|d| d.point == p.point);
            let ratio = deviation.and_then(|d| d.to_best);
            ratio.map_or_else(|| ABSENT.to_owned(), |r| quantity::ratio(r.median))
        });
    }
}

fn bulk(task: &TaskFacts, advice: &TaskAdvice) -> Table {
    let mut b = Builder::of_knobs(task);
    b.group("dump")
        .estimate("speed", "MB/s", name::DUMP_BYTES_RATE)
        .value("rows", "rows/s", name::DUMP_ROWS_RATE)
        .value("time", "s", name::DUMP_TIME);
    b.group("load")
        .estimate("speed", "MB/s", name::LOAD_BYTES_RATE)
        .value("rows", "rows/s", name::LOAD_ROWS_RATE)
        .value("time", "s", name::LOAD_TIME)
        .value("rows", "/statement", name::LOAD_ROWS_PER_STATEMENT);
    b.group("load's transactions")
        .quantile("p50", name::LOAD_TRANSACTION, 0.5)
        .quantile("p95", name::LOAD_TRANSACTION, 0.95)
        .max(name::LOAD_TRANSACTION)
        .observations(name::LOAD_TRANSACTION);
    b.group("dump + load").estimate("rows", "rows/s", name::IMPORT_ROWS_RATE);
    ratio_to_best(b.group(""), advice);
    b.standing(true);
    let mut table =
        b.build("Full import, dump and load timed apart", &advice.points, picked(advice));
    table.notes.insert(0, "MB: 1,000,000 bytes of SQL text, as dumped".to_owned());
    table
}

fn backlog(task: &TaskFacts, advice: &TaskAdvice) -> Table {
    let mut b = Builder::of_knobs(task);
    b.group("pipeline").estimate("rate", "rows/s", name::SYNC_ROWS_RATE);
    ratio_to_best(&mut b, advice);
    b.value("fill", "rows/txn", name::SYNC_ROWS_PER_TRANSACTION).value(
        "conflicts",
        "/1,000 rows",
        name::SYNC_CONFLICTS,
    );
    b.group("applier's transactions")
        .quantile("p95", name::SYNC_TRANSACTION, 0.95)
        .quantile("p99", name::SYNC_TRANSACTION, 0.99)
        .max(name::SYNC_TRANSACTION);
    b.group("target").value("qps", "Com_*", name::TARGET_QPS).quantile(
        "statement p99",
        name::TARGET_STATEMENT,
        0.99,
    );
    cpu(&mut b, &["source", "target", "pipeline", "machine"]);
    b.standing(true);
    let caption = "Catching up with one committed binlog range, from release to its end";
    let mut table = b.build(caption, &advice.points, picked(advice));
    table.notes.push(
        "statement p99: of the applier's statements; transactions from the start of a batch to its commit"
            .to_owned(),
    );
    table
}

/// The process that holds the generator: dmbench itself, with the probes and the delay proxy.
const GENERATOR: &str = "generator";

fn cpu(builder: &mut Builder, processes: &[&'static str]) {
    builder.group("CPU");
    for process in processes {
        let metric = format!("{}.{process}", name::CPU);
        let shown = if *process == GENERATOR { "dmbench" } else { process };
        builder.push(shown, "cores", true, move |p| quantity::optional(p.value(&metric)));
    }
}

fn lag(task: &TaskFacts, advice: &TaskAdvice) -> Table {
    let mut b = Builder::of_knobs(task);
    b.group("load").value("offered", "ops/s", name::OFFERED).value(
        "achieved",
        "ops/s",
        name::ACHIEVED,
    );
    b.group("applied").estimate("rate", "rows/s", name::SYNC_ROWS_RATE);
    b.group("lag by markers")
        .quantile("p50", name::LAG_MARKER, 0.5)
        .quantile("p95", name::LAG_MARKER, 0.95)
        .quantile("p99", name::LAG_MARKER, 0.99)
        .max(name::LAG_MARKER)
        .observations(name::LAG_MARKER);
    b.group("lag by checkpoint")
        .quantile("p50", name::LAG_CHECKPOINT, 0.5)
        .quantile("p95", name::LAG_CHECKPOINT, 0.95)
        .max(name::LAG_CHECKPOINT);
    b.group("behind")
        .push("p50", "MB", true, |p| behind(p, 0.5))
        .push("max", "MB", true, |p| behind(p, 1.0));
    b.group("").value("drain", "s", name::DRAIN_TIME);
    cpu(&mut b, &["source", "target", "pipeline", "machine"]);
    b.standing(true);
    let mut table = b.build("Lag while the source is written", &advice.points, picked(advice));
    table.notes.extend(clocks(advice, &[name::LAG_MARKER, name::LAG_CHECKPOINT]));
    table.notes.push("behind: binlog from the source's position back to the checkpoint".to_owned());
    table
}

fn behind(point: &PointSummary, quantile: f64) -> String {
    let bytes = point.quantile(name::LAG_BYTES, quantile);
    quantity::optional(bytes.map(|bytes| bytes as f64 / 1e6))
}

/// `lag.marker: marker rows, polled every 10 ms` for each metric whose clock is known.
fn clocks(advice: &TaskAdvice, metrics: &[&str]) -> Vec<String> {
    metrics
        .iter()
        .filter_map(|metric| {
            let all = advice.points.iter().filter_map(|p| p.clocks.get(*metric));
            let coarser = |a: &&String, b: &&String| {
                resolution_us(a).partial_cmp(&resolution_us(b)).unwrap_or(Ordering::Equal)
            };
            let clock = all.max_by(coarser)?;
            let what = metric.replace("lag.", "lag by ");
            Some(format!("{what}: {clock}"))
        })
        .collect()
}

/// Each part of the way from source to target in a row, as in DM's own benchmark reports: of the pick,
/// or of the only point.
fn items(task: &TaskFacts, advice: &TaskAdvice) -> Option<Table> {
    let point = measured::shown_point(advice)?;
    let value = |metric| quantity::optional(point.value(metric));
    let p95 = |metric| quantity::quantile_ms(point.histograms.get(metric), 0.95);
    let (source, target) = match &task.lab {
        Some(lab) => (lab.source.server.clone(), lab.target.server.clone()),
        None => ("source".to_owned(), "target".to_owned()),
    };
    let absent = || ABSENT.to_owned();
    let row = |cells: [String; 5]| Row { cells: cells.into(), picked: false };
    let rows = vec![
        row([
            format!("source: {source}"),
            absent(),
            value(name::ACHIEVED),
            p95(name::SERVICE),
            "service time of the workload's ops".to_owned(),
        ]),
        row([
            "relay".to_owned(),
            absent(),
            absent(),
            absent(),
            format!("`{}` reads the binlog without one", task.pipeline),
        ]),
        row([
            "sync unit".to_owned(),
            absent(),
            format!("{} rows/s", value(name::SYNC_ROWS_RATE)),
            p95(name::SYNC_TRANSACTION),
            "time of the applier's transactions".to_owned(),
        ]),
        row([
            format!("target: {target}"),
            value(name::TARGET_QPS),
            absent(),
            p95(name::TARGET_STATEMENT),
            "time of the applier's statements".to_owned(),
        ]),
    ];
    let column = Column::plain;
    let of = if point.label.is_empty() { String::new() } else { format!(", {}", point.label) };
    Some(Table {
        caption: format!("From source to target{of}"),
        columns: vec![
            column("item", "", false),
            column("qps", "", true),
            column("tps", "", true),
            column("p95", "ms", true),
            column("the p95 is of", "", false),
        ],
        keys: 1,
        rows,
        notes: vec![format!(
            "qps: change of the server's Com_* counters; {ABSENT}: not measured here"
        )],
    })
}

fn drive(task: &TaskFacts, advice: &TaskAdvice) -> Table {
    let mut b = Builder::of_knobs(task);
    b.group("ops").value("offered", "ops/s", name::OFFERED).estimate(
        "committed",
        "ops/s",
        name::ACHIEVED,
    );
    ratio_to_best(&mut b, advice);
    b.value("failed", "ops", name::FAILED_OPS);
    for (group, metric) in
        [("delay", name::DELAY), ("service", name::SERVICE), ("response", name::RESPONSE)]
    {
        b.group(group)
            .quantile("p50", metric, 0.5)
            .quantile("p95", metric, 0.95)
            .quantile("p99", metric, 0.99)
            .max(metric);
    }
    cpu(&mut b, &["source", GENERATOR, "machine"]);
    b.standing(false);
    let mut table = b.build("The workload alone", &advice.points, picked(advice));
    table.notes.push(
        "delay: started − due; service: finished − started; response: finished − due".to_owned(),
    );
    table
}

/// The rates as bars, where several points can be compared.
fn chart(advice: &TaskAdvice) -> Option<Chart> {
    let rates: Vec<(&PointSummary, f64)> = advice
        .points
        .iter()
        .filter(|p| p.counted > 0)
        .filter_map(|p| Some((p, p.value(advice.objective.rate)?)))
        .collect();
    let largest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    if rates.len() < 2 || largest <= 0.0 {
        return None;
    }
    let bars = rates
        .into_iter()
        .map(|(point, rate)| Bar {
            label: point.label.clone(),
            share: rate / largest,
            text: format!("{} {}", quantity::number(rate), advice.objective.dimension),
            picked: picked(advice) == Some(&point.point),
        })
        .collect();
    Some(Chart { caption: advice.objective.meaning.to_owned(), bars })
}

fn uncounted(advice: &TaskAdvice) -> Option<Table> {
    let column = |head| Column::plain(head, "", false);
    let rows: Vec<Row> = advice
        .uncounted
        .iter()
        .map(|u| Row {
            cells: vec![u.trial.clone(), u.outcome.clone(), u.verdict.clone(), u.why.clone()],
            picked: false,
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: String::new(),
        columns: vec![column("trial"), column("outcome"), column("verdict"), column("why")],
        keys: 1,
        rows,
        notes: Vec::new(),
    })
}
