//! A task in words and as a run's record keeps it.

use crate::lab::sandbox::{self, Durability};
use crate::record::TaskFacts;
use crate::task::{Task, rules};
use crate::workload::{PaceKind, RandType, Script, Settings};

impl Task {
    /// The word for its model, as in the file.
    pub fn model_word(&self) -> &'static str {
        rules::word(self.model)
    }

    /// The workload in short, such as `sysbench oltp_insert, 4 × 50,000 rows, uniform`. What a knob
    /// varies is named, since the value shown is then only the default.
    pub fn workload_in_words(&self) -> String {
        let Some(Settings::Sysbench(sysbench)) = &self.workload else { return "none".to_owned() };
        let script = match sysbench.script {
            Script::OltpPointSelect => "oltp_point_select",
            Script::OltpInsert => "oltp_insert",
            Script::OltpUpdateIndex => "oltp_update_index",
            Script::OltpWriteOnly => "oltp_write_only",
        };
        let keys = match sysbench.rand_type {
            RandType::Uniform => "uniform",
            RandType::Zipfian => "zipfian",
        };
        let rows = grouped(sysbench.table_size);
        let varied = self.varied("workload.");
        format!("sysbench {script}, {} × {rows} rows, {keys}{varied}", sysbench.tables)
    }

    /// ` (table-size varies)` for the knobs whose names begin so; empty where there are none.
    fn varied(&self, table: &str) -> String {
        let names = self.knobs.iter().filter_map(|range| range.knob.name.strip_prefix(table));
        match names.collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            [one] => format!(" ({one} varies)"),
            more => format!(" ({} vary)", more.join(", ")),
        }
    }

    /// The pace in short, such as `poisson, 2,000 ops/s, 32 clients`.
    pub fn pace_in_words(&self) -> String {
        let clients = match self.pace.clients {
            1 => "1 client".to_owned(),
            more => format!("{} clients", grouped(more.into())),
        };
        let kind = match self.pace.kind {
            PaceKind::Closed => "closed",
            PaceKind::Uniform => "uniform",
            PaceKind::Poisson => "poisson",
        };
        let rate = match self.pace.rate {
            Some(rate) if rate.fract() == 0.0 => format!(", {} ops/s", grouped(rate as u64)),
            Some(rate) => format!(", {rate:.1} ops/s"),
            None => String::new(),
        };
        format!("{kind}{rate}, {clients}{}", self.varied("pace."))
    }

    /// What of the sandbox is not the default, such as `target-round-trip 2ms`.
    pub fn sandbox_in_words(&self) -> String {
        let (set, default) = (&self.sandbox, sandbox::Settings::default());
        let mut words = Vec::new();
        let program = |end: &str, program: Option<sandbox::Program>| {
            let word = match program? {
                sandbox::Program::Mysql => "mysql",
                sandbox::Program::Mariadb => "mariadb",
                sandbox::Program::Tidb => "tidb",
            };
            Some(format!("{end} {word}"))
        };
        words.extend(program("source", set.source));
        words.extend(program("target", set.target));
        for (name, value) in [
            ("target-round-trip", set.target_round_trip),
            ("source-round-trip", set.source_round_trip),
            ("target-commit-delay", set.target_commit_delay),
        ] {
            if !value.is_zero() {
                words.push(format!("{name} {value:?}"));
            }
        }
        words.extend(set.target_bandwidth.map(|most| format!("target-bandwidth {most} MB/s")));
        if set.buffer_pool != default.buffer_pool {
            words.push(format!("buffer-pool {} MiB", set.buffer_pool));
        }
        words.push(match set.durability {
            Durability::Full => "durability full".to_owned(),
            Durability::Relaxed => "durability relaxed".to_owned(),
        });
        words.join(", ")
    }

    /// The task as a run's record keeps it; `lab` is the run's to add.
    pub fn facts(&self) -> TaskFacts {
        TaskFacts {
            name: self.name.clone(),
            question: self.question.clone(),
            model: self.model,
            pipeline: self.pipeline.kind().to_owned(),
            workload: self.workload_in_words(),
            text: self.text.clone(),
            overrides: self.overrides.clone(),
            hash: self.hash.clone(),
            knobs: self.knobs.iter().map(|range| range.knob.clone()).collect(),
            points: self.points(),
            blocks: self.repeat.blocks,
            seed: self.repeat.seed,
            limits: self.limits.clone(),
            lab: None,
            findings: Vec::new(),
        }
    }
}

/// A whole number with a comma after every third digit from the right.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::task::demo;

    #[test]
    fn numbers_are_grouped_from_the_right() {
        let shown = [0, 999, 1_000, 50_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "50,000", "1,234,567"]);
    }

    #[test]
    fn the_demo_in_words() {
        let task = Task::parse(Path::new("lag.toml"), demo::LAG, &[]).expect("task");
        assert_eq!(task.workload_in_words(), "sysbench oltp_insert, 4 × 50,000 rows, uniform");
        assert_eq!(task.pace_in_words(), "poisson, 500 ops/s, 64 clients");
        assert_eq!(task.sandbox_in_words(), "target-round-trip 2ms, durability full");
        let set = ["workload.tables=[1, 2]", "pace.rate=[5, 7]", "pace.clients=[1, 2]"];
        let varied = Task::parse(Path::new("lag.toml"), demo::LAG, &set.map(str::to_owned));
        let varied = varied.expect("task");
        assert!(varied.workload_in_words().ends_with("uniform (tables varies)"));
        assert!(varied.pace_in_words().ends_with(" (rate, clients vary)"));
        assert_eq!((task.facts().hash, task.facts().points.len()), (task.hash, 1));
    }
}
