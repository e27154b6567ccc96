//! `dmbench clean`: lists and drops what crashed runs left on both ends.

use serde::Serialize;
use serde_json::json;

use super::{Context, ends, output};
use crate::error::Exit;
use crate::lab::Hold;
use crate::lab::leftover::{self, Leftover};
use crate::mysql::Endpoint;

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

/// A schema that dmbench made, and what became of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Found {
    end: &'static str,
    server: String,
    left: Leftover,
    dropped: bool,
}

/// Lists, and drops where that was asked for. Refused while a run has the lab. What was dropped is told
/// however it ends.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let (source, target) = arguments.ends.endpoints()?;
    let hold = Hold::take(&source, &target).await?;
    let mut found = Vec::new();
    let mut result = Ok(());
    for (end, endpoint) in [("source", &source), ("target", &target)] {
        if result.is_ok() {
            result = look(end, endpoint, arguments.yes, &mut found, context).await;
        }
    }
    hold.release().await;
    if arguments.json {
        output::print_json(&json!({ "schemas": found }))?;
    } else if result.is_ok() || !found.is_empty() {
        output::print(&in_words(&found))?;
    }
    result?;
    Ok(if context.cancel.is_cancelled() { Exit::Interrupted } else { Exit::Ok })
}

/// Adds what one end has, and drops it where it is to be dropped.
async fn look(
    end: &'static str,
    endpoint: &Endpoint,
    drop: bool,
    found: &mut Vec<Found>,
    context: &Context,
) -> Result<(), crate::lab::Error> {
    let first = found.len();
    let server = endpoint.to_string();
    let of_end = |left| Found { end, server: server.clone(), left, dropped: false };
    found.extend(leftover::find(endpoint).await?.into_iter().map(of_end));
    for found in found[first..].iter_mut().filter(|found| drop && found.left.is_of_run()) {
        if context.cancel.is_cancelled() {
            break;
        }
        leftover::remove(endpoint, &[&found.left.schema]).await?;
        found.dropped = true;
    }
    Ok(())
}

fn in_words(found: &[Found]) -> String {
    let mut rows = Vec::new();
    for Found { end, server, left, dropped } in found {
        let fate = match (left.is_of_run(), dropped) {
            (_, true) => "dropped",
            (true, false) => "to drop",
            (false, false) => "kept: drive … cleanup drops it",
        };
        rows.push(vec![
            fate.to_owned(),
            (*end).to_owned(),
            server.clone(),
            left.schema.clone(),
            format!("{} tables", left.tables),
            format!("run {} of {} UTC", left.run, left.created),
        ]);
    }
    let of_runs = || found.iter().filter(|found| found.left.is_of_run());
    let end = match (of_runs().count(), of_runs().filter(|found| found.dropped).count()) {
        (0, _) => "no run left anything on either end\n",
        (_, 0) => "nothing was dropped; --yes does it\n",
        (all, dropped) if dropped < all => "not all was dropped; --yes goes on\n",
        _ => "",
    };
    format!("{}{end}", output::columns(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_dropped_is_listed_and_what_would_not_too() {
        let found = |schema: &str, run: &str, dropped| Found {
            end: "source",
            server: "u@h:1".to_owned(),
            left: Leftover {
                schema: schema.to_owned(),
                run: run.to_owned(),
                created: "2026-11-30 21:04:00".to_owned(),
                tables: 5,
            },
            dropped,
        };
        let by_hand = || found("dmbench_drive", "drive", false);
        insta::assert_snapshot!(in_words(&[found("dmbench", "drive", false), by_hand()]), @r"
        to drop                         source  u@h:1  dmbench        5 tables  run drive of 2026-11-30 21:04:00 UTC
        kept: drive … cleanup drops it  source  u@h:1  dmbench_drive  5 tables  run drive of 2026-11-30 21:04:00 UTC
        nothing was dropped; --yes does it
        ");
        let dropped = found("dmbench", "r1", true);
        let half = in_words(&[dropped, found("t_1", "r1", false)]);
        assert!(half.starts_with("dropped  ") && half.contains("\nto drop  "), "{half}");
        assert!(half.ends_with("not all was dropped; --yes goes on\n"), "{half}");
        assert!(!in_words(&[found("dmbench", "r1", true), by_hand()]).contains("--yes"));
        assert_eq!(in_words(&[]), "no run left anything on either end\n");
    }
}
