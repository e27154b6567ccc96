//! `dmbench drive WORKLOAD prepare|run|cleanup`: the load generator alone.

mod options;
mod sysbench;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, interval_at};

use super::{Context, output, progress};
use crate::error::Exit;
use crate::event::Events;
use crate::mysql::Session;
use crate::telemetry::Gauges;
use crate::workload::{self, Counters, Snapshot};
pub(super) use options::Arguments;
use options::Step;
use sysbench::Report;

/// Does one of the three steps.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let endpoint = arguments.endpoint()?;
    match arguments.step {
        Step::Prepare => prepare(arguments, context).await,
        Step::Run => drive(arguments, context).await,
        Step::Cleanup => {
            workload::cleanup(&endpoint, &arguments.schema).await?;
            output::print(&format!("dropped schema {} on {endpoint}\n", arguments.schema))?;
            Ok(Exit::Ok)
        }
    }
}

async fn prepare(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let (endpoint, settings) = (arguments.endpoint()?, arguments.settings());
    let (schema, seed, clients) = (&arguments.schema, arguments.seed, arguments.clients);
    let fill = async |events| {
        let cancel = &context.cancel;
        workload::prepare(&settings, &endpoint, schema, "drive", seed, clients, &events, cancel)
            .await
    };
    let result = progress::around(&context.log, fill).await;
    if context.cancel.is_cancelled() {
        return Ok(Exit::Interrupted);
    }
    let seeded = result?;
    if arguments.json {
        let took_s = seeded.took.as_secs_f64();
        let (rows, bytes) = (seeded.rows, seeded.bytes);
        output::print_json(&json!({ "rows": rows, "bytes": bytes, "took-s": took_s }))?;
    } else {
        let (rows, took) = (seeded.rows, output::lasting(seeded.took));
        output::print(&format!("prepared {rows} rows in schema {schema} on {endpoint}: {took}\n"))?;
    }
    Ok(Exit::Ok)
}

async fn drive(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let (endpoint, plan) = (arguments.endpoint()?, arguments.plan());
    // A server that never was there is told at once; the drive is patient with one that goes away.
    tokio::select! {
        there = Session::connect(&endpoint) => there?.close().await,
        () = context.cancel.cancelled() => return Ok(Exit::Interrupted),
    }
    let metrics = arguments.metrics.serve(&context.log).await?;
    let counters = Arc::new(Counters::default());
    let report = Report::new(arguments.script, arguments.clients);
    let began = Instant::now();
    let second = Duration::from_secs(1);
    let mut ticks = interval_at(began + second, second);
    let mut last = (began, Snapshot::default());
    let events = Events::none();
    let mut driving = pin!(workload::drive(&plan, &endpoint, &counters, &events, &context.cancel));
    let driven = loop {
        tokio::select! {
            driven = &mut driving => break driven,
            _ = ticks.tick() => {}
        }
        let now = (Instant::now(), counters.snapshot());
        show(&metrics.gauges, &now.1);
        if arguments.interval > 0 && now.0 - last.0 >= second * arguments.interval - second / 2 {
            if !arguments.json {
                let line = report.interval(now.0 - began, now.0 - last.0, &now.1.since(&last.1));
                output::print(&line)?;
            }
            last = now;
        }
    };
    let driven = match driven {
        // Nothing had begun.
        Err(workload::Error::Interrupted) => return Ok(Exit::Interrupted),
        driven => driven?,
    };
    if arguments.json {
        output::print_json(&json!({
            "server": endpoint.to_string(),
            "workload": plan.settings,
            "pace": plan.pace,
            "seed": plan.seed,
            "warm-s": plan.warm.as_secs_f64(),
            "figures": sysbench::figures(&driven),
            "driven": driven,
        }))?;
    } else {
        output::print(&report.end(&driven, &counters.snapshot()))?;
    }
    Ok(if driven.interrupted { Exit::Interrupted } else { Exit::Ok })
}

fn show(gauges: &Gauges, counted: &Snapshot) {
    gauges.set_workload(counted.offered, counted.committed, counted.row_changes);
}
