//! The options that name servers: a lab file, or two URLs.

use std::path::PathBuf;

use super::failure::Usage;
use crate::lab::{LabFile, prompt};
use crate::mysql::url::ServerUrl;
use crate::mysql::{Endpoint, Secret, Tls};

/// Both ends, by a lab file or by URLs.
#[derive(Debug, clap::Args)]
pub(super) struct Ends {
    /// Lab file that names both ends, instead of URLs; TLS needs one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "source",
            "target",
            "source_password_env",
            "target_password_env",
            "source_password_prompt",
            "target_password_prompt",
        ]
    )]
    lab: Option<PathBuf>,
    /// Source, as mysql://user@host:port; port 3306 where none is given
    #[arg(long, value_name = "URL", required_unless_present = "lab")]
    source: Option<String>,
    /// Target
    #[arg(long, value_name = "URL", required_unless_present = "lab")]
    target: Option<String>,
    /// Environment variable that holds the source's password
    #[arg(long, value_name = "VARIABLE")]
    source_password_env: Option<String>,
    /// Environment variable that holds the target's password
    #[arg(long, value_name = "VARIABLE")]
    target_password_env: Option<String>,
    /// Ask for the source's password on the terminal
    #[arg(long, conflicts_with = "source_password_env")]
    source_password_prompt: bool,
    /// Ask for the target's password on the terminal
    #[arg(long, conflicts_with = "target_password_env")]
    target_password_prompt: bool,
}

impl Ends {
    /// Source and target.
    pub(super) fn endpoints(&self) -> anyhow::Result<(Endpoint, Endpoint)> {
        match (&self.lab, &self.source, &self.target) {
            (Some(lab), _, _) => {
                let file = LabFile::load(lab)?;
                Ok((file.source, file.target))
            }
            (None, Some(source), Some(target)) => Ok((
                endpoint(
                    "--source",
                    source,
                    Password::of(self.source_password_env.as_deref(), self.source_password_prompt),
                )?,
                endpoint(
                    "--target",
                    target,
                    Password::of(self.target_password_env.as_deref(), self.target_password_prompt),
                )?,
            )),
            _ => Err(Usage::error("name both ends", "add --lab FILE, or --source and --target")),
        }
    }
}

/// An option's URL is read here and not by clap, which would repeat a password in it.
fn endpoint(option: &str, url: &str, password: Password<'_>) -> anyhow::Result<Endpoint> {
    let url: ServerUrl = url.parse().map_err(|why: String| {
        Usage::error(format!("understand {option}: {why}"), "write mysql://user@host:port")
    })?;
    password.give(url.endpoint(Secret::default(), Tls::default()))
}

/// Where the options say that a password comes from.
pub(super) enum Password<'o> {
    None,
    /// An environment variable of this name.
    Variable(&'o str),
    /// The terminal.
    Prompt,
}

impl<'o> Password<'o> {
    pub(super) fn of(variable: Option<&'o str>, is_prompted: bool) -> Password<'o> {
        match variable {
            Some(variable) => Password::Variable(variable),
            None if is_prompted => Password::Prompt,
            None => Password::None,
        }
    }

    /// The endpoint with its password.
    pub(super) fn give(self, endpoint: Endpoint) -> anyhow::Result<Endpoint> {
        let password = match self {
            Password::None => Secret::default(),
            Password::Variable(variable) => std::env::var(variable).map(Secret::new).map_err(|_| {
                Usage::error(
                    format!("read a password from the environment variable {variable}: it is not set"),
                    format!("set it in this shell: read -rs {variable}; export {variable}"),
                )
            })?,
            Password::Prompt => prompt::password(&endpoint.to_string())?,
        };
        Ok(Endpoint { password, ..endpoint })
    }
}
