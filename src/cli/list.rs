//! `dmbench list`: the tasks that are here and the runs that were made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::output;
use crate::error::Exit;
use crate::record::{Store, Trial};
use crate::task::Task;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Folder with task files
    #[arg(long, value_name = "DIR", default_value = "tasks")]
    tasks: PathBuf,
    /// Folder with runs
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints tasks with their questions and runs with their outcomes.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut files = Vec::new();
    task_files(&arguments.tasks, &mut files, 0);
    let tasks: Vec<Value> = files.iter().map(|path| about_task(path)).collect();
    let runs: Vec<Value> = folders(&arguments.out).iter().filter_map(|f| about_run(f)).collect();
    if arguments.json {
        output::print_json(&json!({ "tasks": tasks, "runs": runs }))?;
        return Ok(Exit::Ok);
    }
    let mut text = String::new();
    for (title, rows, columns) in [
        ("tasks", &tasks, ["path", "model", "question"]),
        ("runs", &runs, ["folder", "tasks", "trials"]),
    ] {
        let folder = if title == "tasks" { &arguments.tasks } else { &arguments.out };
        let cells = |row: &Value| {
            columns.iter().map(|c| row[c].as_str().unwrap_or_default().to_owned()).collect()
        };
        text.push_str(&match rows.is_empty() {
            true => format!("no {title} in {}\n", folder.display()),
            false => output::columns(&rows.iter().map(cells).collect::<Vec<_>>()),
        });
        if title == "tasks" {
            text.push('\n');
        }
    }
    output::print(&text)?;
    Ok(Exit::Ok)
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn task_files(folder: &Path, found: &mut Vec<PathBuf>, depth: usize) {
    for path in folders(folder) {
        if path.is_dir() && depth < 4 {
            task_files(&path, found, depth + 1);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

fn about_task(path: &Path) -> Value {
    let shown = path.display().to_string();
    match Task::load(path, &[]) {
        Ok(task) => json!({
            "path": shown,
            "name": task.name,
            "model": task.model_word(),
            "question": task.question,
        }),
        Err(error) => json!({
            "path": shown,
            "model": "invalid",
            "question": format!("failed to {error}"),
        }),
    }
}

/// `None` for a folder that holds no run.
fn about_run(folder: &Path) -> Option<Value> {
    let shown = folder.display().to_string();
    if !folder.join("run.json").is_file() {
        return None;
    }
    let store = Store::open(folder);
    let read = store.run().and_then(|run| Ok((run, store.trials()?)));
    Some(match read {
        Ok((run, trials)) => {
            let tasks: Vec<&str> = run.tasks.iter().map(|task| task.name.as_str()).collect();
            json!({
                "folder": shown,
                "tasks": tasks.join(", "),
                "trials": counts(&trials, run.interrupted),
                "began": run.began.to_string(),
                "outcomes": tally(&trials, |trial| trial.outcome.word()),
                "verdicts": tally(&trials, |trial| trial.verdict.word()),
                "interrupted": run.interrupted,
            })
        }
        Err(error) => json!({
            "folder": shown,
            "tasks": "unreadable",
            "trials": format!("failed to {error}"),
        }),
    })
}

fn tally(trials: &[Trial], word: impl Fn(&Trial) -> &'static str) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for trial in trials {
        *counts.entry(word(trial)).or_default() += 1;
    }
    counts
}

fn counts(trials: &[Trial], interrupted: bool) -> String {
    let listed = |counts: BTreeMap<&str, u64>| {
        counts.iter().map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
    };
    let outcomes = listed(tally(trials, |trial| trial.outcome.word()));
    let verdicts = listed(tally(trials, |trial| trial.verdict.word()));
    let mark = if interrupted { "; interrupted" } else { "" };
    match trials.is_empty() {
        true => format!("none{mark}"),
        false => format!("{outcomes}; {verdicts}{mark}"),
    }
}
