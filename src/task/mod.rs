//! TOML into a checked task: a question with its workload, pipeline, knobs and limits.
//!
//! A task that exists has been checked at every point of its grid: unknown keys, values out of
//! range and settings that its model would ignore are refused with line and caret. Nothing here
//! talks to a server or knows where a trial runs.

mod configuration;
mod document;
mod error;
pub mod estimate;
mod facts;
pub mod keys;
mod read;
mod rules;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::record::{Knob, Limits, Model, Point};
use crate::workload::PaceSettings;
use crate::{lab, pipeline, workload};

pub use crate::place::Place;
pub use error::Error;

/// The tasks of `dmbench demo`, as they stand under `tasks/demo/`.
pub mod demo {
    /// Full import, timed.
    pub const IMPORT: &str = include_str!("../../tasks/demo/import.toml");
    /// Sweep over `sync.worker-count` as model `backlog`.
    pub const WORKER_COUNT: &str = include_str!("../../tasks/demo/worker-count.toml");
    /// Lag under an open load; the demo sets `pace.rate` and `sync.worker-count`.
    pub const LAG: &str = include_str!("../../tasks/demo/lag.toml");
}

/// How long the phases of a trial are.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    /// Load runs and nothing counts yet.
    pub warm: Duration,
    /// What counts.
    pub measure: Duration,
    /// Longest time until everything is applied; a trial that needs longer is saturated.
    pub drain_limit: Duration,
    /// Ops to commit: for `backlog` the range that every trial replays, for `drive` an end by count.
    pub ops: Option<u64>,
}

/// How often the grid is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// Blocks; each holds one trial of every point.
    pub blocks: u32,
    /// Seed of the order within blocks and of the workload.
    pub seed: u64,
}

/// A knob with the values that it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct KnobRange {
    /// The knob.
    pub knob: Knob,
    /// Its values in the order of the file.
    pub values: Vec<toml::Value>,
}

/// A checked task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Name, from the file's name.
    pub name: String,
    /// The file, or what stands for it in errors.
    pub path: PathBuf,
    /// The file's text.
    pub text: String,
    /// Settings of the command line, as `KEY=VALUE`.
    pub overrides: Vec<String>,
    /// FNV-1a of text and overrides, 16 hexadecimal digits. The same at every point.
    pub hash: String,
    /// The question it answers.
    pub question: String,
    /// What is timed.
    pub model: Model,
    /// What is written; every model of today has one.
    pub workload: Option<workload::Settings>,
    /// When ops are due.
    pub pace: PaceSettings,
    /// Lengths.
    pub phases: Phases,
    /// What is under test; `idle` for model `drive`.
    pub pipeline: pipeline::Settings,
    /// The private servers.
    pub sandbox: lab::sandbox::Settings,
    /// What varies, in the order of the file; empty for a task made by [`Task::at`].
    pub knobs: Vec<KnobRange>,
    /// Limits that the task states.
    pub limits: Limits,
    /// Blocks and seed.
    pub repeat: Repeat,
}

impl Task {
    /// Reads and checks a task file, with settings of the command line (`KEY=VALUE`) put in.
    ///
    /// # Errors
    /// When the file cannot be read, or what it says with the overrides is no task.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Task, Error> {
        let text = fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Task::parse(path, &text, overrides)
    }

    /// As [`Task::load`] for several files, which must differ in name.
    ///
    /// # Errors
    /// As [`Task::load`]; [`Error::SameName`].
    pub fn load_all(paths: &[PathBuf], overrides: &[String]) -> Result<Vec<Task>, Error> {
        let mut tasks: Vec<Task> = Vec::new();
        for path in paths {
            let task = Task::load(path, overrides)?;
            if let Some(other) = tasks.iter().find(|other| other.name == task.name) {
                return Err(Error::SameName {
                    name: task.name,
                    first: other.path.clone(),
                    second: path.clone(),
                });
            }
            tasks.push(task);
        }
        Ok(tasks)
    }

    /// Checks a text that stands, or could stand, in the file `path`, whose stem names the task.
    ///
    /// # Errors
    /// When the text with the overrides is no task.
    pub fn parse(path: &Path, text: &str, overrides: &[String]) -> Result<Task, Error> {
        let task = read::read(path, text, overrides, None)?;
        for point in task.points() {
            task.at(&point)?;
        }
        Ok(task)
    }

    /// All points of the grid: the last knob varies fastest. One empty point where nothing varies.
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::new()];
        for range in &self.knobs {
            points = points
                .iter()
                .flat_map(|point| {
                    range.values.iter().map(|value| {
                        let mut point = point.clone();
                        point.insert(range.knob.name.to_string(), shown(value));
                        point
                    })
                })
                .collect();
        }
        points
    }

    /// The task with a point's values in the place of its knobs, checked again. It varies nothing:
    /// its `knobs` are empty. Name, text and hash stay.
    ///
    /// # Errors
    /// When the point is none of the grid, or what it makes is no task.
    pub fn at(&self, point: &Point) -> Result<Task, Error> {
        read::read(&self.path, &self.text, &self.overrides, Some(point))
    }

    /// Number of trials: points times blocks.
    pub fn trial_count(&self) -> u64 {
        let points: u64 = self.knobs.iter().map(|range| range.values.len() as u64).product();
        points * u64::from(self.repeat.blocks)
    }
}

/// A value as users see it: strings without quotes, everything else as TOML writes it.
pub fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// FNV-1a, 64 bits: stable over versions, which the standard hasher does not promise.
fn hash(text: &str, overrides: &[String]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let separated = overrides.iter().flat_map(|o| [b"\0".as_slice(), o.as_bytes()]);
    for byte in std::iter::once(text.as_bytes()).chain(separated).flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
