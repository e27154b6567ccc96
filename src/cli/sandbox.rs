//! `dmbench sandbox up|down|status`: private servers for manual work.

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::json;

use super::{Context, output, progress};
use crate::error::Exit;
use crate::event::Events;
use crate::lab::sandbox::{self, Kept, KeptServer, Settings};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    step: Step,
    /// Where its state is kept
    #[arg(long, global = true, value_name = "DIR", default_value = "out/sandbox")]
    folder: PathBuf,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Step {
    /// Start a source and a target that stay
    Up {
        /// Program of the source: mysql or mariadb; the best one found where not said
        #[arg(long, value_parser = program)]
        source: Option<sandbox::Program>,
        /// Program of the target: tidb, mysql or mariadb; the best one found where not said
        #[arg(long, value_parser = program)]
        target: Option<sandbox::Program>,
    },
    /// Stop them, and whatever earlier crashes left
    Down,
    /// Say where they are
    Status,
}

/// Starts, stops or shows the servers.
pub(super) async fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Exit> {
    let folder = arguments.folder.as_path();
    match &arguments.step {
        Step::Up { source, target } => {
            let settings = Settings { source: *source, target: *target, ..Settings::default() };
            let guard = std::env::current_exe().context("find the dmbench program")?;
            let start = async |events: Events| {
                sandbox::up(&settings, folder, &guard, &events, &context.cancel).await
            };
            let kept = progress::around(&context.log, start).await?;
            show(&kept, arguments.json)?;
        }
        Step::Down => {
            let count = sandbox::down(folder)?;
            output::print(&format!("stopped {count} server{}\n", plural(count)))?;
        }
        Step::Status => match sandbox::status(folder)? {
            Some(kept) => show(&kept, arguments.json)?,
            None if arguments.json => {
                output::print_json(&json!({ "source": null, "target": null }))?;
            }
            None => output::print("no sandbox is up\n")?,
        },
    }
    Ok(Exit::Ok)
}

fn show(kept: &Kept, as_json: bool) -> anyhow::Result<()> {
    if !as_json {
        return output::print(&describe(kept));
    }
    output::print_json(&json!({
        "source": kept.source,
        "target": kept.target,
        "password-file": kept.password_file,
    }))
}

fn describe(kept: &Kept) -> String {
    let row = |end: &str, server: &KeptServer| {
        let state = if server.is_running() { "running" } else { "gone" };
        let address = format!("{}:{}", server.host, server.port);
        vec![
            end.to_owned(),
            server.server.clone(),
            address,
            format!("user {}", server.user),
            format!("process {}", server.process.pid),
            state.to_owned(),
        ]
    };
    let mut text = output::columns(&[row("source", &kept.source), row("target", &kept.target)]);
    text.push_str(&format!("password of both: in {}\n", kept.password_file.display()));
    text
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn program(text: &str) -> Result<sandbox::Program, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| "say mysql, mariadb or tidb".to_owned())
}
