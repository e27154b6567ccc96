//! `dmbench check TASK…`: the plan, without touching a server.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::output;
use crate::error::Exit;
use crate::record::Model;
use crate::task::estimate::{self, Estimate};
use crate::task::{Task, keys};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Task files
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<PathBuf>,
    /// Put a value into every task, as in --set sync.worker-count=8
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan of each task and how long all should take.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut plans = Vec::new();
    for task in Task::load_all(&arguments.tasks, &arguments.overrides)? {
        let estimate = estimate::estimate(&task)?;
        plans.push((task, estimate));
    }
    if arguments.json {
        output::print_json(&as_json(&plans))?;
    } else {
        output::print(&as_text(&plans))?;
    }
    Ok(Exit::Ok)
}

fn as_json(plans: &[(Task, Estimate)]) -> serde_json::Value {
    let tasks: Vec<_> = plans
        .iter()
        .map(|(task, estimate)| {
            json!({
                "name": task.name,
                "question": task.question,
                "model": task.model_word(),
                "pipeline": task.pipeline.kind(),
                "workload": task.workload_in_words(),
                "hash": task.hash,
                "points": task.points(),
                "blocks": task.repeat.blocks,
                "trials": task.trial_count(),
                "expected-s": estimate.total.as_secs_f64().round(),
                "expected-trials-s": estimate.trials.iter().map(|t| t.as_secs_f64().round()).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "tasks": tasks, "expected-is": estimate::BASIS })
}

fn as_text(plans: &[(Task, Estimate)]) -> String {
    let mut text = String::new();
    for (task, estimate) in plans {
        text.push_str(&format!("{}: {}\n", task.name, task.question));
        text.push_str(&output::columns(&facts(task)));
        text.push_str(&output::columns(&points(task, estimate)));
        text.push('\n');
    }
    let total: Duration = plans.iter().map(|(_, estimate)| estimate.total).sum();
    let lasting = output::lasting(total);
    text.push_str(&format!("expected: about {lasting} ({})\n", estimate::BASIS));
    text
}

fn facts(task: &Task) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let (points, blocks) = (task.points().len(), task.repeat.blocks);
    let trials = format!(
        "{points} point{} × {blocks} block{} = {}, in random order by seed {}",
        if points == 1 { "" } else { "s" },
        if blocks == 1 { "" } else { "s" },
        task.trial_count(),
        task.repeat.seed
    );
    let mut rows =
        vec![row("model", task.model_word().to_owned()), row("workload", task.workload_in_words())];
    if task.model != Model::Bulk {
        rows.push(row("pace", task.pace_in_words()));
    }
    rows.extend([
        row("pipeline", task.pipeline.kind().to_owned()),
        row("sandbox", task.sandbox_in_words()),
        row("trials", trials),
    ]);
    rows
}

fn points(task: &Task, estimate: &Estimate) -> Vec<Vec<String>> {
    let mut head = vec!["  point".to_owned()];
    head.extend(task.knobs.iter().map(|range| keys::short(&range.knob.name).to_owned()));
    head.push("a trial takes about".to_owned());
    let mut rows = vec![head];
    for (number, (point, takes)) in task.points().iter().zip(&estimate.trials).enumerate() {
        let mut row = vec![format!("  {}", number + 1)];
        row.extend(task.knobs.iter().map(|range| point[range.knob.name.as_ref()].clone()));
        row.push(output::lasting(*takes));
        rows.push(row);
    }
    rows
}
