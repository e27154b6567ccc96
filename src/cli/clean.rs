//! `dmbench clean`: lists and drops what crashed runs left on both ends.

use serde_json::json;

use super::{Context, ends, output};
use crate::error::Exit;
use crate::lab::Hold;
use crate::lab::leftover::{self, Leftover};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    ends: ends::Ends,
    /// Drop what is listed; without it nothing is changed
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists, and drops where that was asked for. Refused while a run has the lab.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let (source, target) = arguments.ends.endpoints()?;
    let hold = Hold::take(&source, &target).await?;
    let mut found = Vec::new();
    for (end, endpoint) in [("source", &source), ("target", &target)] {
        let left = leftover::find(endpoint).await?;
        if arguments.yes && !context.cancel.is_cancelled() {
            let of_runs = left.iter().filter(|left| left.is_of_run());
            let schemas: Vec<&str> = of_runs.map(|left| left.schema.as_str()).collect();
            leftover::remove(endpoint, &schemas).await?;
        }
        found.push((end, endpoint.to_string(), left));
    }
    hold.release().await;
    if arguments.json {
        let rows = found.iter().flat_map(|(end, server, left)| {
            let row = move |left: &Leftover| {
                let dropped = arguments.yes && left.is_of_run();
                json!({ "end": end, "server": server, "left": left, "dropped": dropped })
            };
            left.iter().map(row)
        });
        output::print_json(&json!({ "schemas": rows.collect::<Vec<_>>() }))?;
    } else {
        output::print(&in_words(&found, arguments.yes))?;
    }
    Ok(if context.cancel.is_cancelled() { Exit::Interrupted } else { Exit::Ok })
}

fn in_words(found: &[(&str, String, Vec<Leftover>)], is_dropped: bool) -> String {
    let mut rows = Vec::new();
    for (end, server, left) in found {
        rows.extend(left.iter().map(|left| {
            let fate = match (left.is_of_run(), is_dropped) {
                (true, true) => "dropped",
                (true, false) => "to drop",
                (false, _) => "kept: drive … cleanup drops it",
            };
            vec![
                fate.to_owned(),
                (*end).to_owned(),
                server.clone(),
                left.schema.clone(),
                format!("{} tables", left.tables),
                format!("run {} of {} UTC", left.run, left.created),
            ]
        }));
    }
    let count = found.iter().flat_map(|(_, _, left)| left).filter(|left| left.is_of_run()).count();
    let end = match (count, is_dropped) {
        (0, _) => "no run left anything on either end\n",
        (_, true) => "",
        (_, false) => "nothing was dropped; --yes does it\n",
    };
    format!("{}{end}", output::columns(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_dropped_is_listed_and_what_would_not_too() {
        let left = |schema: &str, run: &str| Leftover {
            schema: schema.to_owned(),
            run: run.to_owned(),
            created: "2026-11-30 21:04:00".to_owned(),
            tables: 5,
        };
        let source = vec![left("dmbench", "r1"), left("dmbench_drive", "drive")];
        let found = [("source", "u@h:1".to_owned(), source), ("target", String::new(), vec![])];
        insta::assert_snapshot!(in_words(&found, false), @r"
        to drop                         source  u@h:1  dmbench        5 tables  run r1 of 2026-11-30 21:04:00 UTC
        kept: drive … cleanup drops it  source  u@h:1  dmbench_drive  5 tables  run drive of 2026-11-30 21:04:00 UTC
        nothing was dropped; --yes does it
        ");
        assert!(in_words(&found, true).starts_with("dropped  "));
        assert_eq!(in_words(&[], true), "no run left anything on either end\n");
    }
}
