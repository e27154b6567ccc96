//! `dmbench verify`: compares the rows of source and target.

use serde_json::json;

use super::{Context, ends, output, progress};
use crate::error::Exit;
use crate::lab::are_one_cluster;
use crate::record::Verdict;
use crate::trial::verify;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    ends: ends::Ends,
    /// Schemas to compare, separated by commas
    #[arg(long, value_name = "NAMES", required = true, value_delimiter = ',')]
    schemas: Vec<String>,
    /// Tables to leave out in every schema
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compares and prints the verdict; both ends must be quiet meanwhile.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let (source, target) = arguments.ends.endpoints()?;
    are_one_cluster(&target).await?;
    let ignore: Vec<&str> = arguments.ignore.iter().map(String::as_str).collect();
    let compare = async |events| {
        let (schemas, cancel) = (&arguments.schemas, &context.cancel);
        verify::compare(&source, &target, schemas, &ignore, &events, cancel).await
    };
    let verdict = progress::around(&context.log, compare).await?;
    if arguments.json {
        output::print_json(&json!({ "verdict": verdict }))?;
    } else {
        output::print(&in_words(&verdict))?;
    }
    Ok(match verdict {
        Verdict::Equal { .. } => Exit::Ok,
        Verdict::Differs { .. } => Exit::Differs,
        Verdict::Unchecked { .. } if context.cancel.is_cancelled() => Exit::Interrupted,
        Verdict::Unchecked { .. } => Exit::TrialFailed,
    })
}

fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Equal { tables, rows } => format!("equal: {rows} rows in {tables} tables\n"),
        Verdict::Differs { missing, surplus, changed, examples } => {
            let mut text = format!(
                "differs: {missing} rows missing in the target, {surplus} surplus, {changed} \
                 changed\n"
            );
            for example in examples {
                text.push_str(&format!("  {example}\n"));
            }
            text
        }
        Verdict::Unchecked { reason } => format!("unchecked: {reason}\n"),
    }
}
