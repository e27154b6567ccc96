//! What a task must say for its model, and what each value may be.
//!
//! A setting that a model would ignore is refused: a reader of the file would believe that it
//! mattered. Every rule points at the key it is about.

use std::ops::Range;
use std::time::Duration;

use toml::de::DeTable;

use crate::lab::sandbox::Program;
use crate::record::Model;
use crate::task::document::{Text, get, span_of};
use crate::task::{Error, Task};
use crate::workload::{self, PaceKind};
use crate::{lab, pipeline};

/// The text with its tree, to find the place of a key.
pub(super) struct Written<'a, 't> {
    pub(super) text: &'a Text,
    pub(super) root: &'a DeTable<'t>,
}

impl Written<'_, '_> {
    fn has(&self, key: &str) -> bool {
        get(self.root, key).is_some()
    }

    fn span(&self, key: &str) -> Range<usize> {
        span_of(self.root, key)
    }

    /// An error at a key, or at the table that it should stand in.
    fn wrong(&self, key: &str, what: impl Into<String>, help: &str) -> Error {
        self.text.invalid(self.span(key), what, help)
    }

    fn within(&self, key: &str, value: u64, least: u64, most: u64) -> Result<(), Error> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        let what = format!("\"{key}\" is {value}; it may be {least} to {most}");
        Err(self.wrong(key, what, ""))
    }

    fn lasting(&self, key: &str, value: Duration, most: Duration) -> Result<(), Error> {
        if !value.is_zero() && value <= most {
            return Ok(());
        }
        let what = format!("\"{key}\" must be longer than nothing and at most {most:?}");
        Err(self.wrong(key, what, ""))
    }
}

const DAY: Duration = Duration::from_secs(86_400);

/// Checks a task that varies nothing.
pub(super) fn check(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    check_model(task, written)?;
    check_pace(task, written)?;
    check_workload(task, written)?;
    check_pipeline(task, written)?;
    check_sandbox(&task.sandbox, written)
}

/// Checks what stays the same at every point.
pub(super) fn check_repeat(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    if task.question.trim().is_empty() {
        return Err(written.wrong(
            "question",
            "the question is empty",
            "a task answers a question",
        ));
    }
    written.within("repeat.blocks", task.repeat.blocks.into(), 1, 1_000)
}

fn check_model(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    let word = word(task.model);
    // Keys that the model has no use for.
    let unused: &[&str] = match task.model {
        Model::Bulk => &[
            "pace",
            "phases.warm",
            "phases.measure",
            "phases.drain-limit",
            "phases.ops",
            "limits.lag-p99",
        ],
        Model::Stream => &["phases.ops"],
        Model::Backlog => &["phases.warm", "phases.measure", "limits.lag-p99"],
        Model::Drive => &["pipeline", "phases.drain-limit", "limits.lag-p99"],
        Model::Sustain => {
            let help = "models: bulk, stream, backlog, drive";
            return Err(written.wrong("model", "dmbench does not have model sustain yet", help));
        }
    };
    if let Some(key) = unused.iter().find(|key| written.has(key)) {
        let what = format!("model {word} has no use for \"{key}\"");
        return Err(written.wrong(key, what, "leave it out"));
    }
    if !written.has("workload") {
        let what = format!("model {word} needs a table [workload]");
        return Err(written.wrong("model", what, "for example kind = \"sysbench\""));
    }
    if task.model != Model::Drive && !written.has("pipeline") {
        let what = format!("model {word} needs a table [pipeline]");
        return Err(written.wrong("model", what, "for example kind = \"builtin\""));
    }
    if !task.pipeline.models().contains(&task.model) {
        let what = format!("pipeline idle replicates nothing, so model {word} would never end");
        return Err(written.wrong("pipeline.kind", what, "it serves model stream"));
    }
    check_phases(task, written)
}

fn check_phases(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    let phases = &task.phases;
    if matches!(task.model, Model::Stream | Model::Drive) {
        written.lasting("phases.measure", phases.measure, DAY)?;
        if phases.warm > DAY {
            return Err(written.wrong("phases.warm", "\"phases.warm\" is more than a day", ""));
        }
    }
    if matches!(task.model, Model::Stream | Model::Backlog) {
        written.lasting("phases.drain-limit", phases.drain_limit, DAY)?;
    }
    match (task.model, phases.ops) {
        (Model::Backlog, None) => {
            let help = "say how many ops make the range that every trial replays";
            Err(written.wrong("phases", "model backlog needs \"phases.ops\"", help))
        }
        (_, Some(ops)) => written.within("phases.ops", ops, 1, 10_000_000_000),
        _ => Ok(()),
    }
}

fn check_pace(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    let pace = &task.pace;
    if task.model == Model::Stream && !written.has("pace") {
        let help = "for example kind = \"poisson\", rate = 500";
        return Err(written.wrong("model", "model stream needs a table [pace]", help));
    }
    match (pace.kind, pace.rate) {
        (PaceKind::Closed, Some(_)) => {
            let help = "a closed pace has no rate: each client goes on when its last op has ended; \
                        use kind = \"uniform\" or \"poisson\"";
            return Err(written.wrong("pace.rate", "pace closed has no use for \"rate\"", help));
        }
        (PaceKind::Uniform | PaceKind::Poisson, None) => {
            let what = "an open pace needs \"rate\" (ops per second)";
            return Err(written.wrong("pace", what, "for example rate = 500"));
        }
        (_, Some(rate)) if !(rate > 0.0 && rate <= 10_000_000.0) => {
            let what = format!("\"pace.rate\" is {rate}; it must be above 0 and at most 10000000");
            return Err(written.wrong("pace.rate", what, "ops per second of all clients together"));
        }
        _ => {}
    }
    written.within("pace.clients", pace.clients.into(), 1, 10_000)
}

fn check_workload(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    let Some(workload::Settings::Sysbench(sysbench)) = &task.workload else { return Ok(()) };
    written.within("workload.tables", sysbench.tables.into(), 1, 10_000)?;
    written.within("workload.table-size", sysbench.table_size, 1, 1_000_000_000)
}

fn check_pipeline(task: &Task, written: &Written<'_, '_>) -> Result<(), Error> {
    let pipeline::Settings::Builtin(builtin) = &task.pipeline else { return Ok(()) };
    let pipeline::builtin::Settings { dump, load, sync } = builtin;
    for (key, value, least, most) in [
        ("pipeline.dump.threads", dump.threads.into(), 1, 256),
        ("pipeline.dump.rows", dump.rows, 1, 1_000_000_000),
        ("pipeline.dump.statement-size", dump.statement_size, 1, 1_000_000_000),
        ("pipeline.dump.chunk-filesize", dump.chunk_filesize, 1, 1_000_000),
        ("pipeline.load.pool-size", load.pool_size.into(), 1, 4_096),
        ("pipeline.sync.worker-count", sync.worker_count.into(), 1, 4_096),
        ("pipeline.sync.batch", sync.batch.into(), 1, 1_000_000),
        ("pipeline.sync.queue-size", sync.queue_size.into(), 1, 1_000_000),
    ] {
        written.within(key, value, least, most)?;
    }
    let key = "pipeline.sync.checkpoint-flush-interval";
    written.lasting(key, sync.checkpoint_flush_interval, DAY)?;
    if sync.safe_mode && sync.safe_mode_duration == Some(Duration::ZERO) {
        let what = "\"pipeline.sync.safe-mode-duration\" 0s forbids what safe-mode = true asks for";
        let help = "leave one of them out";
        return Err(written.wrong("pipeline.sync.safe-mode-duration", what, help));
    }
    Ok(())
}

fn check_sandbox(sandbox: &lab::sandbox::Settings, written: &Written<'_, '_>) -> Result<(), Error> {
    if sandbox.source == Some(Program::Tidb) {
        let help = "TiDB writes no MySQL binlog; it may be the target";
        return Err(written.wrong("sandbox.source", "TiDB cannot be the source", help));
    }
    for (key, value) in [
        ("sandbox.target-round-trip", sandbox.target_round_trip),
        ("sandbox.source-round-trip", sandbox.source_round_trip),
        ("sandbox.target-commit-delay", sandbox.target_commit_delay),
    ] {
        if value > Duration::from_secs(10) {
            return Err(written.wrong(key, format!("\"{key}\" is more than 10 s"), ""));
        }
    }
    if let Some(bandwidth) = sandbox.target_bandwidth {
        written.within("sandbox.target-bandwidth", bandwidth.into(), 1, 100_000)?;
    }
    written.within("sandbox.buffer-pool", sandbox.buffer_pool.into(), 16, 1_000_000)
}

/// A model's word in a task file.
pub(super) fn word(model: Model) -> &'static str {
    match model {
        Model::Bulk => "bulk",
        Model::Stream => "stream",
        Model::Backlog => "backlog",
        Model::Sustain => "sustain",
        Model::Drive => "drive",
    }
}
