//! What a reader needs to judge and repeat the figures: servers, machine, phases, order, clocks.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::document::{Block, Column, Row, Section, Table};
use super::quantity;
use crate::advise::{PointSummary, TaskAdvice};
use crate::record::{LabFacts, Model, Phase, Run, ServerFacts, TaskFacts, Trial, name};
use crate::stats::estimate;

/// Machine, time and program of a run.
pub(super) fn run_facts(run: &Run) -> Block {
    let machine = &run.machine;
    let took = run.ended.map(|ended| ended.duration_since(run.began).as_secs_f64());
    let when = match took {
        Some(took) => format!("{:.0}, took {}", run.began, quantity::seconds(took)),
        None => format!("{:.0}, no recorded end", run.began),
    };
    Block::Facts(vec![
        (
            "machine".to_owned(),
            format!(
                "{}, {} cores, {} memory, {} on {}, kernel {}",
                machine.cpu,
                machine.cores,
                quantity::bytes(machine.memory_bytes),
                machine.system,
                machine.filesystem,
                machine.kernel
            ),
        ),
        ("began".to_owned(), when),
        ("dmbench".to_owned(), run.dmbench.clone()),
    ])
}

/// The command that repeats the run.
pub(super) fn reproduce(run: &Run) -> Section {
    let words: Vec<_> = run.command.iter().map(|word| quoted(word)).collect();
    let command = format!("{}\n", words.join(" "));
    let id = quoted(&run.id);
    Section {
        level: 1,
        heading: "Again".to_owned(),
        blocks: vec![
            Block::text("The command of this run, and the one that makes this report again:"),
            Block::Code { language: "sh", text: format!("{command}dmbench report {id}\n") },
        ],
    }
}

/// A word as a POSIX shell reads it back: in single quotes where a character means more than itself.
fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// How one task was measured.
pub(super) fn of_task(task: &TaskFacts, advice: &TaskAdvice, trials: &[&Trial]) -> Vec<Block> {
    let mut facts = vec![
        ("timed".to_owned(), window(task.model).to_owned()),
        ("workload".to_owned(), task.workload.clone()),
        ("pipeline".to_owned(), task.pipeline.clone()),
    ];
    if let Some(lab) = &task.lab {
        facts.extend(lab_facts(lab, advice));
    }
    facts.push(("order".to_owned(), order(task, trials)));
    if let Some(phases) = phases(trials) {
        facts.push(("phases".to_owned(), phases));
    }
    facts.extend(configuration(task, trials));
    if !task.overrides.is_empty() {
        facts.push(("set by hand".to_owned(), task.overrides.join(", ")));
    }
    facts.extend(clocks(advice));
    facts.push((
        "n".to_owned(),
        "counts trials; p50 … max are over all of them together".to_owned(),
    ));
    let mut blocks = vec![Block::Facts(facts)];
    blocks.extend(processes(advice).map(Block::Table));
    blocks
}

/// The point that single tables are about: the pick, or the only one.
pub(super) fn shown_point(advice: &TaskAdvice) -> Option<&PointSummary> {
    match (&advice.pick, advice.points.as_slice()) {
        (Some(pick), points) => points.iter().find(|p| p.point == pick.point),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// Each clock with the metrics that it timed, those of one family together.
fn clocks(advice: &TaskAdvice) -> Vec<(String, String)> {
    let mut timed: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (metric, clock) in advice.points.iter().flat_map(|p| &p.clocks) {
        let family = metric.split_once('.').map_or(metric.as_str(), |(family, _)| family);
        let of_processes =
            [name::CPU, name::MEMORY, name::DISK_READ, name::DISK_WRITE].contains(&family);
        let shown = if of_processes && !metric.ends_with(".machine") {
            family.to_owned()
        } else {
            metric.clone()
        };
        timed.entry(clock).or_default().insert(shown);
    }
    timed
        .into_iter()
        .map(|(clock, metrics)| {
            ("clock".to_owned(), format!("{}: {clock}", Vec::from_iter(metrics).join(", ")))
        })
        .collect()
}

/// What each process used at the point shown; `None` where nothing was observed.
fn processes(advice: &TaskAdvice) -> Option<Table> {
    const COLUMNS: [(&str, &str, &str); 4] = [
        (name::CPU, "CPU", "cores"),
        (name::MEMORY, "memory", "MB, largest"),
        (name::DISK_READ, "disk read", "MB/s"),
        (name::DISK_WRITE, "disk write", "MB/s"),
    ];
    let point = shown_point(advice)?;
    let rows: Vec<Row> = ["source", "target", "pipeline", "generator"]
        .iter()
        .map(|process| {
            let figures =
                COLUMNS.map(|(metric, ..)| point.estimates.get(&format!("{metric}.{process}")));
            (process, figures)
        })
        .filter(|(_, figures)| figures.iter().any(Option::is_some))
        .map(|(process, figures)| {
            let figures =
                figures.map(|e| e.map_or_else(|| quantity::ABSENT.to_owned(), quantity::estimate));
            let process = match *process {
                "generator" => "dmbench: generator, probes and proxy",
                other => other,
            };
            let cells = std::iter::once(process.to_owned()).chain(figures).collect();
            Row { cells, picked: false }
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let of = if point.label.is_empty() { String::new() } else { format!(", {}", point.label) };
    let columns = std::iter::once(Column::plain("process", "", false))
        .chain(COLUMNS.map(|(_, head, unit)| Column::plain(head, unit, true)))
        .collect();
    Some(Table {
        caption: format!("What each process used in the window{of}"),
        columns,
        keys: 1,
        rows,
        notes: Vec::new(),
    })
}

fn window(model: Model) -> &'static str {
    match model {
        Model::Bulk => {
            "the dump unit from its begin to its end, then the load unit; making the rows is not timed"
        }
        Model::Backlog => {
            "from release until the source's end position is applied; every trial replays the same \
             committed binlog range onto a target restored from one dump; neither is timed"
        }
        Model::Stream => {
            "the window after warm-up while ops arrive on schedule; lag is per marker row, from its \
             commit on the source to the first poll that sees it at the target"
        }
        Model::Sustain => {
            "the highest offered rate at which lag does not grow, confirmed by runs of its own"
        }
        Model::Drive => "ops due in the window after warm-up; nothing is replicated",
    }
}

fn lab_facts(lab: &LabFacts, advice: &TaskAdvice) -> Vec<(String, String)> {
    let mut facts = vec![("servers".to_owned(), lab.kind.clone())];
    facts.push(("source".to_owned(), server(&lab.source, None)));
    facts.push(("target".to_owned(), server(&lab.target, Some(&lab.source))));
    facts.push(("all settings".to_owned(), "in run.json".to_owned()));
    let emulated: Vec<String> =
        advice.emulated.iter().map(|(what, how)| format!("{what}: {how}")).collect();
    let emulated = if emulated.is_empty() { "nothing".to_owned() } else { emulated.join("; ") };
    facts.push(("emulated".to_owned(), emulated));
    facts
}

/// Settings that decide what a commit or a row costs; the run's record holds all that were read.
const TELLING: [&str; 14] = [
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_transaction_compression",
    "collation_server",
    "gtid_mode",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
    "log_bin",
    "performance_schema",
    "sync_binlog",
    "tidb_txn_mode",
];

/// A server with its telling settings, those left out that it shares with `like`.
fn server(server: &ServerFacts, like: Option<&ServerFacts>) -> String {
    let shared = |name: &str, value: &str| {
        like.is_some_and(|like| like.settings.get(name).is_some_and(|other| other == value))
    };
    let settings: Vec<String> = TELLING
        .iter()
        .filter_map(|&name| Some((name, server.settings.get(name)?)))
        .filter(|(name, value)| !shared(name, value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut text = if server.server.contains(&server.version) {
        server.server.clone()
    } else {
        format!("{} ({})", server.server, server.version)
    };
    if let Some(tls) = &server.tls {
        text.push_str(&format!(", encrypted by {tls}"));
    }
    if like.is_some() && !server.settings.is_empty() {
        text.push_str(", set as the source");
        if !settings.is_empty() {
            text.push_str(" but for");
        }
    }
    if !settings.is_empty() {
        let separator = if like.is_some() { " " } else { ", " };
        text.push_str(separator);
        text.push_str(&settings.join(", "));
    }
    text
}

fn order(task: &TaskFacts, trials: &[&Trial]) -> String {
    let asked = task.points.len() * task.blocks as usize;
    let many = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
    format!(
        "{} × {}, shuffled within each block by seed {}; {} of {asked} trials have a record",
        many(task.points.len(), "point"),
        many(task.blocks as usize, "block"),
        task.seed,
        trials.len(),
    )
}

/// Median time of each phase, in the order of the first trial that has it.
fn phases(trials: &[&Trial]) -> Option<String> {
    let mut order: Vec<Phase> = Vec::new();
    for span in trials.iter().flat_map(|t| &t.phases) {
        if !order.contains(&span.phase) {
            order.push(span.phase);
        }
    }
    let each: Vec<String> = order
        .iter()
        .filter_map(|phase| {
            let times: Vec<f64> = trials
                .iter()
                .filter_map(|t| t.phases.iter().find(|s| s.phase == *phase))
                .map(|s| s.took_s)
                .collect();
            let word = format!("{phase:?}").to_lowercase();
            Some(format!("{word} {}", quantity::seconds(estimate::median(&times)?)))
        })
        .collect();
    (!each.is_empty()).then(|| format!("{} (medians)", each.join(", ")))
}

/// Settings that all trials shared, pipeline and the rest apart; what varied stands in the tables.
fn configuration(task: &TaskFacts, trials: &[&Trial]) -> Vec<(String, String)> {
    let Some(first) = trials.first() else { return Vec::new() };
    let varied: Vec<&str> = task.knobs.iter().map(|k| k.name.as_ref()).collect();
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in &first.configuration {
        let shared = trials.iter().all(|t| t.configuration.get(name) == Some(value));
        if !shared || varied.contains(&name.as_str()) {
            continue;
        }
        let (group, rest) = name.split_once('.').unwrap_or(("", name));
        groups.entry(group).or_default().push(format!("{rest}={value}"));
    }
    let mut facts: Vec<(String, String)> = groups
        .into_iter()
        .map(|(group, settings)| {
            (format!("{group} settings").trim().to_owned(), settings.join(", "))
        })
        .collect();
    for knob in &task.knobs {
        let default = if knob.default.is_empty() { "none" } else { knob.default.as_ref() };
        facts.push((
            "varied".to_owned(),
            format!("{} (default {default}): {}", knob.name, knob.meaning),
        ));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_a_quoted_word_back_as_it_was() {
        for plain in ["run", "tasks/sync/lag.toml", "--set", "sync.batch=100", "größe"] {
            assert_eq!(quoted(plain), plain);
        }
        let odd = [
            "",
            "a b",
            "it's",
            "\"$HOME\"",
            "`id`",
            "a\\b",
            "*",
            "~",
            "x;y",
            "[1, 2]",
            "a\nb",
            "'",
        ];
        for word in odd {
            let script = format!("printf %s {}", quoted(word));
            let output = std::process::Command::new("sh").args(["-c", &script]).output();
            let output = output.expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{script}");
        }
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
