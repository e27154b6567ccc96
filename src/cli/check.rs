//! `dmbench check TASK…`: the plan, and what the servers say where a lab is named.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::{Context, output, preflight};
use crate::error::Exit;
use crate::record::Model;
use crate::task::estimate::{self, Estimate};
use crate::task::{Task, keys};
use crate::trial::preflight::{Check, Level};

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
pub(super) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let mut plans = Vec::new();
    for task in Task::load_all(&arguments.tasks, &arguments.overrides)? {
        let estimate = estimate::estimate(&task)?;
        plans.push((task, estimate));
    }
    present(&plans, None, arguments.json, context.verbosity > 0)
}

/// Prints the plan with what was checked on servers, worst first, and says how to exit.
fn present(
    plans: &[(Task, Estimate)],
    checks: Option<&[Check]>,
    json: bool,
    all: bool,
) -> anyhow::Result<Exit> {
    if json {
        output::print_json(&as_json(plans, checks))?;
    } else {
        output::print(&as_text(plans, checks, all))?;
    }
    let is_unfit = checks.unwrap_or_default().iter().any(|check| check.level == Level::Fail);
    Ok(if is_unfit { Exit::Lab } else { Exit::Ok })
}

/// `checks` is null where no servers were asked.
fn as_json(plans: &[(Task, Estimate)], checks: Option<&[Check]>) -> serde_json::Value {
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
    json!({ "tasks": tasks, "expected-is": estimate::BASIS, "checks": checks })
}

fn as_text(plans: &[(Task, Estimate)], checks: Option<&[Check]>, all: bool) -> String {
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
    match checks {
        Some(checks) => text.push_str(&format!("servers:\n{}", preflight::as_text(checks, all))),
        None => text.push_str(
            "servers: not asked here; a run asks its private servers before it writes anything\n",
        ),
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::task::demo;
    use crate::trial::preflight::End;

    fn check(level: Level) -> Check {
        let (evidence, remedy) = ("binlog_format is MIXED".to_owned(), "change it".to_owned());
        Check { code: "binlog-format", end: End::Source, level, evidence, remedy }
    }

    #[test]
    fn a_check_that_fails_exits_4() {
        for (checks, exit) in [
            (None, Exit::Ok),
            (Some(vec![check(Level::Warn)]), Exit::Ok),
            (Some(vec![check(Level::Warn), check(Level::Fail)]), Exit::Lab),
        ] {
            assert_eq!(present(&[], checks.as_deref(), true, false).expect("printed"), exit);
        }
    }

    #[test]
    fn servers_are_in_the_plan_or_it_says_that_they_are_not() {
        let task = Task::parse(Path::new("import.toml"), demo::IMPORT, &[]).expect("a task");
        let plans = [(task.clone(), estimate::estimate(&task).expect("an estimate"))];
        let checks = [check(Level::Fail)];
        assert!(as_text(&plans, None, false).contains("servers: not asked"));
        assert!(as_text(&plans, Some(&checks), false).contains("  fail  source  binlog-format"));
        assert!(as_json(&plans, None)["checks"].is_null());
        let json = &as_json(&plans, Some(&checks))["checks"][0];
        assert_eq!((&json["code"], &json["level"]), (&"binlog-format".into(), &"fail".into()));
        assert_eq!((&json["end"], &json["remedy"]), (&"source".into(), &"change it".into()));
    }
}
