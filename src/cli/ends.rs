//! The options that name servers: a lab file, or two URLs.

use std::path::PathBuf;

use super::failure::Usage;
use crate::lab::LabFile;
use crate::mysql::url::ServerUrl;
use crate::mysql::{Endpoint, Secret, Tls};

/// Both ends, by a lab file or by URLs.
#[derive(Debug, clap::Args)]
pub(super) struct Ends {
    /// Lab file that names both ends, instead of URLs; TLS needs one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["source", "target", "source_password_env", "target_password_env"]
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
                endpoint("--source", source, self.source_password_env.as_deref())?,
                endpoint("--target", target, self.target_password_env.as_deref())?,
            )),
            _ => Err(Usage::error("name both ends", "add --lab FILE, or --source and --target")),
        }
    }
}

/// An option's URL is read here and not by clap, which would repeat a password in it.
fn endpoint(option: &str, url: &str, password_env: Option<&str>) -> anyhow::Result<Endpoint> {
    let url: ServerUrl = url.parse().map_err(|why: String| {
        Usage::error(format!("understand {option}: {why}"), "write mysql://user@host:port")
    })?;
    let password = password_env.map(password).transpose()?.unwrap_or_default();
    Ok(url.endpoint(password, Tls::default()))
}

/// The password that an environment variable holds.
pub(super) fn password(variable: &str) -> anyhow::Result<Secret> {
    std::env::var(variable).map(Secret::new).map_err(|_| {
        Usage::error(
            format!("read a password from the environment variable {variable}: it is not set"),
            format!("set it in this shell: read -rs {variable}; export {variable}"),
        )
    })
}
