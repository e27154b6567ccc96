//! `dmbench check TASK…`: the plan, and what the servers say where a lab is named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::{Context, output, preflight};
use crate::error::Exit;
use crate::lab::survey::{CLOCK_TRIES, Clock, RoundTrip, Survey, survey};
use crate::lab::{LabFile, are_one_cluster};
use crate::record::Model;
use crate::sweep;
use crate::task::estimate::{self, Estimate};
use crate::task::{Task, keys};
use crate::trial::preflight::{Check, Level, Plan, inspect};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Task files
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<PathBuf>,
    /// Ask your own servers too, as a lab file names them (lab.example.toml)
    #[arg(long, value_name = "FILE")]
    lab: Option<PathBuf>,
    /// Put a value into every task, as in --set sync.worker-count=8
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the plan of each task and how long all should take.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let tasks = Task::load_all(&arguments.tasks, &arguments.overrides)?;
    let lab = arguments.lab.as_deref().map(LabFile::load).transpose()?;
    let asked = match &lab {
        Some(lab) => Some(ask(&tasks, lab, context).await?),
        None => None,
    };
    let mut plans = Vec::new();
    for task in tasks {
        let estimate = estimate::estimate(&task)?;
        plans.push((task, estimate));
    }
    present(&plans, asked.as_ref(), arguments.json, context.verbosity > 0)
}

/// What both ends answered.
struct Asked {
    source: Survey,
    target: Survey,
    /// The target at its further addresses.
    further: Vec<Survey>,
    checks: Vec<Check>,
}

/// Asks both ends. Reads only.
async fn ask(tasks: &[Task], lab: &LabFile, context: &Context) -> anyhow::Result<Asked> {
    for task in tasks {
        sweep::fits_own_servers(task)?;
    }
    let plan = Plan::of(tasks, sweep::SCHEMA_NAME, Path::new("out"), "check")?;
    let checks = inspect(&lab.source, &lab.target, &plan, &context.cancel).await?;
    are_one_cluster(&lab.target).await?;
    lab.lab().try_as_pipeline().await?;
    let source = survey(&lab.source).await?;
    // Each by its own address, so that nobody's round trip passes for another's.
    let mut further = Vec::new();
    for server in lab.target.each() {
        further.push(survey(&server).await?);
    }
    let target = further.remove(0);
    Ok(Asked { source, target, further, checks })
}

/// Prints the plan with what was checked on servers, worst first, and says how to exit.
fn present(
    plans: &[(Task, Estimate)],
    asked: Option<&Asked>,
    json: bool,
    all: bool,
) -> anyhow::Result<Exit> {
    if json {
        output::print_json(&as_json(plans, asked))?;
    } else {
        output::print(&as_text(plans, asked, all))?;
    }
    let is_unfit = asked.is_some_and(|asked| asked.checks.iter().any(|c| c.level == Level::Fail));
    Ok(if is_unfit { Exit::Lab } else { Exit::Ok })
}

/// `servers` and `checks` are null where no servers were asked.
fn as_json(plans: &[(Task, Estimate)], asked: Option<&Asked>) -> serde_json::Value {
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
    let servers = asked.map(|asked| {
        json!({ "source": asked.source, "target": asked.target, "further-targets": asked.further })
    });
    let checks = asked.map(|asked| &asked.checks);
    json!({ "tasks": tasks, "expected-is": estimate::BASIS, "servers": servers, "checks": checks })
}

fn as_text(plans: &[(Task, Estimate)], asked: Option<&Asked>, all: bool) -> String {
    let mut text = String::new();
    for (task, estimate) in plans {
        text.push_str(&format!("{}: {}\n", task.name, task.question));
        text.push_str(&output::columns(&facts(task, asked.is_some())));
        text.push_str(&output::columns(&points(task, estimate)));
        text.push('\n');
    }
    let total: Duration = plans.iter().map(|(_, estimate)| estimate.total).sum();
    let lasting = output::lasting(total);
    text.push_str(&format!("expected: about {lasting} ({})\n", estimate::BASIS));
    match asked {
        Some(asked) => {
            let (ends, checks) = (output::columns(&servers(asked)), &asked.checks);
            text.push_str(&format!("servers:\n{ends}{}", preflight::as_text(checks, all)));
        }
        None => text.push_str(
            "servers: not asked here; a run asks its private servers before it writes anything\n",
        ),
    }
    text
}

/// Settings of the binlog and of durability, in the order in which they are shown.
const SHOWN: [&str; 6] = [
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "gtid_mode",
    "sync_binlog",
    "innodb_flush_log_at_trx_commit",
];

/// What was found of both ends, side by side.
fn servers(asked: &Asked) -> Vec<Vec<String>> {
    let ends: Vec<&Survey> =
        [&asked.source, &asked.target].into_iter().chain(&asked.further).collect();
    let row = |name: &str, of: &dyn Fn(&Survey) -> String| {
        std::iter::once(format!("  {name}")).chain(ends.iter().map(|end| of(end))).collect()
    };
    let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let mut head = vec!["  ".to_owned(), "source".to_owned(), "target".to_owned()];
    head.extend((0..asked.further.len()).map(|number| format!("target at {}", number + 2)));
    let mut rows: Vec<Vec<String>> = vec![
        head,
        row("server", &|end| end.facts.server.clone()),
        row("version", &|end| end.facts.version.clone()),
        row("address", &|end| end.facts.address.clone()),
        row("encrypted", &|end| end.facts.tls.clone().unwrap_or_else(|| "no".to_owned())),
        row("round trip", &|end| {
            let RoundTrip { n, median_s, low_s, high_s } = end.round_trip;
            format!("{} ms ({} to {}, {n} pings)", ms(median_s), ms(low_s), ms(high_s))
        }),
        row("clock", &|end| {
            let Clock { offset_s, error_s } = end.clock;
            format!("{:+.3} ms ± {} ({CLOCK_TRIES} reads)", offset_s * 1e3, ms(error_s))
        }),
    ];
    for name in SHOWN {
        let of = |end: &Survey| end.facts.settings.get(name).cloned();
        if ends.iter().any(|end| of(end).is_some()) {
            rows.push(row(name, &|end| of(end).unwrap_or_else(|| "-".to_owned())));
        }
    }
    rows
}

fn facts(task: &Task, is_own: bool) -> Vec<Vec<String>> {
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
        match is_own {
            true => row("sandbox", "left aside: these are your own servers".to_owned()),
            false => row("sandbox", task.sandbox_in_words()),
        },
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
    use super::*;
    use crate::record::ServerFacts;
    use crate::task::demo;
    use crate::trial::preflight::End;

    fn check(level: Level) -> Check {
        let (evidence, remedy) = ("binlog_format is MIXED".to_owned(), "change it".to_owned());
        Check { code: "binlog-format", end: End::Source, level, evidence, remedy }
    }

    fn asked(checks: Vec<Check>) -> Asked {
        let survey = |server: &str, tls: Option<&str>| Survey {
            facts: ServerFacts {
                server: server.to_owned(),
                version: "9".to_owned(),
                address: "h:1".to_owned(),
                settings: [("log_bin".to_owned(), "ON".to_owned())].into(),
                tls: tls.map(str::to_owned),
            },
            round_trip: RoundTrip { n: 50, median_s: 0.000_1, low_s: 0.000_05, high_s: 0.002 },
            clock: Clock { offset_s: -0.000_4, error_s: 0.000_05 },
        };
        let (source, target) = (survey("MySQL 9.7.4", Some("TLSv1.3 X")), survey("TiDB 8", None));
        Asked { source, target, further: Vec::new(), checks }
    }

    #[test]
    fn both_ends_stand_side_by_side() {
        insta::assert_snapshot!(output::columns(&servers(&asked(Vec::new()))), @r"
                    source                               target
        server      MySQL 9.7.4                          TiDB 8
        version     9                                    9
        address     h:1                                  h:1
        encrypted   TLSv1.3 X                            no
        round trip  0.100 ms (0.050 to 2.000, 50 pings)  0.100 ms (0.050 to 2.000, 50 pings)
        clock       -0.400 ms ± 0.050 (5 reads)          -0.400 ms ± 0.050 (5 reads)
        log_bin     ON                                   ON
        ");
    }

    #[test]
    fn every_address_of_a_target_has_its_column() {
        let mut asked = asked(Vec::new());
        asked.further = vec![asked.target.clone(), asked.target.clone()];
        let rows = servers(&asked);
        assert_eq!(rows[0][3..], ["target at 2", "target at 3"]);
        assert!(rows.iter().all(|row| row.len() == 5), "{rows:?}");
        assert_eq!(as_json(&[], Some(&asked))["servers"]["further-targets"][1]["address"], "h:1");
    }

    #[test]
    fn a_check_that_fails_exits_4() {
        for (checks, exit) in [
            (None, Exit::Ok),
            (Some(vec![check(Level::Warn)]), Exit::Ok),
            (Some(vec![check(Level::Warn), check(Level::Fail)]), Exit::Lab),
        ] {
            let asked = checks.map(asked);
            assert_eq!(present(&[], asked.as_ref(), true, false).expect("printed"), exit);
        }
    }

    #[test]
    fn servers_are_in_the_plan_or_it_says_that_they_are_not() {
        let task = Task::parse(Path::new("import.toml"), demo::IMPORT, &[]).expect("a task");
        let plans = [(task.clone(), estimate::estimate(&task).expect("an estimate"))];
        let asked = asked(vec![check(Level::Fail)]);
        assert!(as_text(&plans, None, false).contains("servers: not asked"));
        assert!(as_text(&plans, Some(&asked), false).contains("  fail  source  binlog-format"));
        assert!(as_json(&plans, None)["checks"].is_null());
        let json = &as_json(&plans, Some(&asked))["checks"][0];
        assert_eq!((&json["code"], &json["level"]), (&"binlog-format".into(), &"fail".into()));
        assert_eq!((&json["end"], &json["remedy"]), (&"source".into(), &"change it".into()));
    }
}
