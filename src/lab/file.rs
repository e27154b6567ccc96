//! `lab.toml`: the user's own servers.
//!
//! A lab file names both ends and where their passwords come from. It never holds a password, and
//! what it holds is never repeated in an error without looking for one first. Servers are not asked
//! here whether they are there.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::error::ErrorClass;
use crate::lab::{Lab, prompt};
use crate::mysql::url::{ServerUrl, host_and_port};
use crate::mysql::{Address, Cluster, Endpoint, Secret, Tls, TlsMode};
use crate::place::{Place, complaint};

/// A failure to read a lab file. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("read lab file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text is no lab.
    #[error("understand {place}: {what}")]
    Invalid {
        /// Where, with passwords masked.
        place: Box<Place>,
        /// What is wrong.
        what: String,
        /// What to do; may be empty.
        help: String,
    },
    /// A password that was asked for was not given.
    #[error("{0}")]
    Prompt(#[from] prompt::Error),
}

impl Error {
    /// What may be done about it: the user's to mend.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::User
    }

    /// The offending line with a caret, where there is one.
    pub fn excerpt(&self) -> Option<String> {
        match self {
            Error::Invalid { place, .. } => Some(place.excerpt()),
            Error::Read { .. } | Error::Prompt(_) => None,
        }
    }

    /// What to do about it, where something can be said.
    pub fn help(&self) -> Option<&str> {
        match self {
            Error::Invalid { help, .. } => (!help.is_empty()).then_some(help.as_str()),
            Error::Read { .. } => Some("lab.example.toml is a lab file to begin with"),
            Error::Prompt(_) => Some(prompt::Error::HELP),
        }
    }
}

/// What a lab file says.
#[derive(Debug, Clone)]
pub struct LabFile {
    /// Written to and replicated from.
    pub source: Endpoint,
    /// Replicated into.
    pub target: Endpoint,
    /// The source as a pipeline reaches it.
    pub source_for_pipeline: Endpoint,
    /// The target as a pipeline reaches it.
    pub target_for_pipeline: Endpoint,
    /// TiDB's status port, where the file names one.
    pub status_url: Option<String>,
    /// Whether native replication may be set up on the target.
    pub may_configure_replication: bool,
    /// A DM cluster, where the file names one.
    pub dm: Option<Dm>,
    /// Prometheus endpoints to read, in the order of the file.
    pub prometheus: Vec<Prometheus>,
}

/// A DM cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Dm {
    /// URLs of its masters.
    pub masters: Vec<Spanned<String>>,
    /// URLs of its workers.
    #[serde(default)]
    pub workers: Vec<Spanned<String>>,
}

/// A Prometheus endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Prometheus {
    /// What it is of, such as `tikv`.
    pub name: String,
    /// Where it is.
    pub url: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    source: Source,
    target: Target,
    dm: Option<Dm>,
    #[serde(default)]
    prometheus: Vec<Prometheus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Source {
    url: Spanned<String>,
    password_env: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    #[serde(default)]
    password_prompt: bool,
    seen_by_pipeline: Option<Spanned<String>>,
    /// A source has none: its binlog is that of one server.
    #[serde(skip)]
    addresses: Vec<Spanned<String>>,
    tls: Option<Spanned<Encryption>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Target {
    url: Spanned<String>,
    password_env: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    #[serde(default)]
    password_prompt: bool,
    seen_by_pipeline: Option<Spanned<String>>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    tls: Option<Spanned<Encryption>>,
    status_url: Option<Spanned<String>>,
    #[serde(default)]
    may_configure_replication: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Encryption {
    mode: Option<TlsMode>,
    ca: Option<Spanned<PathBuf>>,
    cert: Option<Spanned<PathBuf>>,
    key: Option<Spanned<PathBuf>>,
}

/// The text with its path, for errors and for paths beside it.
struct Text<'t> {
    path: &'t Path,
    text: &'t str,
}

impl LabFile {
    /// Reads and checks a lab file, and the passwords that it points to.
    ///
    /// # Errors
    /// When the file cannot be read, is no lab, or points to a password that is not there.
    pub fn load(path: &Path) -> Result<LabFile, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        LabFile::parse(path, &text)
    }

    /// As [`LabFile::load`] from a text; paths in it are relative to the folder of `path`.
    ///
    /// # Errors
    /// As [`LabFile::load`].
    pub fn parse(path: &Path, text: &str) -> Result<LabFile, Error> {
        let text = Text { path, text };
        let document: Document = toml::from_str(text.text).map_err(|error| text.refuse(&error))?;
        let Document { source: s, target: t, dm, prometheus } = document;
        let (status_url, may_configure_replication) = (t.status_url, t.may_configure_replication);
        let target = Source {
            url: t.url,
            password_env: t.password_env,
            password_file: t.password_file,
            password_prompt: t.password_prompt,
            seen_by_pipeline: t.seen_by_pipeline,
            addresses: t.addresses,
            tls: t.tls,
        };
        let (source, source_for_pipeline) = text.end(&s)?;
        let (target, target_for_pipeline) = text.end(&target)?;
        let of_dm = dm.iter().flat_map(|dm| dm.masters.iter().chain(&dm.workers));
        for url in of_dm.chain(prometheus.iter().map(|p| &p.url)).chain(&status_url) {
            text.check_http(url)?;
        }
        Ok(LabFile {
            source,
            target,
            source_for_pipeline,
            target_for_pipeline,
            status_url: status_url.map(Spanned::into_inner),
            may_configure_replication,
            dm,
            prometheus,
        })
    }

    /// The lab of trials.
    pub fn lab(&self) -> Lab {
        Lab {
            source: self.source.clone(),
            target: self.target.clone(),
            source_for_pipeline: self.source_for_pipeline.clone(),
            target_for_pipeline: self.target_for_pipeline.clone(),
            processes: Vec::new(),
            emulated: std::collections::BTreeMap::new(),
            kind: Lab::OWN.to_owned(),
        }
    }
}

impl Text<'_> {
    /// One end, directly and as a pipeline reaches it.
    fn end(&self, end: &Source) -> Result<(Endpoint, Endpoint), Error> {
        let url: ServerUrl = end.url.get_ref().parse().map_err(|why: String| {
            let help = "passwords come from password-env, password-file or password-prompt";
            let is_password = why.contains("password");
            self.invalid(
                end.url.span(),
                format!("\"url\": {why}"),
                if is_password { help } else { "" },
            )
        })?;
        let mut direct = url.endpoint(Secret::default(), self.tls(end.tls.as_ref())?);
        if let (Some(tls), Address::Socket(_)) = (&end.tls, &direct.address)
            && direct.tls.mode != TlsMode::Disabled
        {
            let what = "TLS over a Unix socket, which dmbench does not do";
            return Err(self.invalid(tls.span(), what, "leave tls out, or name host and port"));
        }
        let seen = match &end.seen_by_pipeline {
            Some(seen) => host_and_port(seen.get_ref()).map_err(|why| {
                let help = "write it as host:port";
                self.invalid(seen.span(), format!("\"seen-by-pipeline\": {why}"), help)
            })?,
            None => direct.address.clone(),
        };
        direct.cluster = self.cluster(end, &direct.address)?;
        // Last, since it may ask a person.
        direct.password = self.password(end, &direct.to_string())?;
        Ok((direct.clone(), Endpoint { address: seen, ..direct }))
    }

    /// The servers that are one with the end's first, `None` where it stands alone.
    fn cluster(&self, end: &Source, first: &Address) -> Result<Option<Cluster>, Error> {
        let Some(further) = end.addresses.first() else { return Ok(None) };
        if end.seen_by_pipeline.is_some() {
            let what = "addresses beside seen-by-pipeline, which is one";
            return Err(self.invalid(further.span(), what, "leave one of them out"));
        }
        let mut all = vec![first.clone()];
        for address in &end.addresses {
            let new = host_and_port(address.get_ref()).and_then(|new| match all.contains(&new) {
                true => Err(format!("{new} is named twice")),
                false => Ok(new),
            });
            all.push(new.map_err(|why| {
                let help = "list host:port of each further server of the cluster";
                self.invalid(address.span(), format!("\"addresses\": {why}"), help)
            })?);
        }
        Ok(Some(Cluster::new(all)))
    }

    /// The password of `of`, an account.
    fn password(&self, end: &Source, of: &str) -> Result<Secret, Error> {
        match (&end.password_env, &end.password_file) {
            (None, None) if end.password_prompt => Ok(prompt::password(of)?),
            (None, None) => Ok(Secret::default()),
            (Some(_), Some(file)) => {
                let what = "password-env and password-file are both given";
                Err(self.invalid(file.span(), what, "leave one of them out"))
            }
            (Some(_), None) | (None, Some(_)) if end.password_prompt => {
                let what = "password-prompt beside another password";
                Err(self.invalid(end.url.span(), what, "leave one of them out"))
            }
            (Some(variable), None) => {
                std::env::var(variable.get_ref()).map(Secret::new).map_err(|_| {
                    let name = variable.get_ref();
                    let what = format!("the environment variable {name} is not set");
                    let help = format!("set it in this shell: read -rs {name}; export {name}");
                    self.invalid(variable.span(), what, help)
                })
            }
            (None, Some(file)) => {
                let path = self.beside(file.get_ref());
                let held = std::fs::read_to_string(&path).map_err(|error| {
                    let what = format!("the file {} cannot be read: {error}", path.display());
                    self.invalid(file.span(), what, "it holds the password and nothing else")
                })?;
                // Editors end a file with a line break; a password does not.
                let held = held.strip_suffix('\n').unwrap_or(&held);
                Ok(Secret::new(held.strip_suffix('\r').unwrap_or(held)))
            }
        }
    }

    fn tls(&self, asked: Option<&Spanned<Encryption>>) -> Result<Tls, Error> {
        let Some(asked) = asked else { return Ok(Tls::default()) };
        let (span, asked) = (asked.span(), asked.get_ref());
        let usual = if asked.ca.is_some() { TlsMode::VerifyIdentity } else { TlsMode::Required };
        let mode = asked.mode.unwrap_or(usual);
        let is_checked = matches!(mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity);
        if let Some(ca) = asked.ca.as_ref().filter(|_| !is_checked) {
            let what = "\"ca\" with a mode that checks no certificate";
            return Err(self.invalid(
                ca.span(),
                what,
                "say mode = \"verify-identity\" or \"verify-ca\"",
            ));
        }
        if asked.cert.is_some() != asked.key.is_some() {
            return Err(self.invalid(span, "one of \"cert\" and \"key\" is missing", ""));
        }
        let file = |path: &Option<Spanned<PathBuf>>| {
            let Some(path) = path else { return Ok(None) };
            let found = self.beside(path.get_ref());
            match std::fs::File::open(&found) {
                // A pipeline may run in another folder.
                Ok(_) => Ok(Some(std::path::absolute(&found).unwrap_or(found))),
                Err(error) => {
                    let what = format!("the file {} cannot be read: {error}", found.display());
                    Err(self.invalid(
                        path.span(),
                        what,
                        "paths are relative to the lab file's folder",
                    ))
                }
            }
        };
        Ok(Tls { mode, ca: file(&asked.ca)?, cert: file(&asked.cert)?, key: file(&asked.key)? })
    }

    fn check_http(&self, url: &Spanned<String>) -> Result<(), Error> {
        let rest = ["http://", "https://"].iter().find_map(|s| url.get_ref().strip_prefix(s));
        match rest {
            Some(rest) if !rest.is_empty() && !rest.contains('@') => Ok(()),
            Some(_) => Err(self.invalid(url.span(), "the URL names no host, or an account", "")),
            None => Err(self.invalid(url.span(), "the URL does not begin with http://", "")),
        }
    }

    /// A path as the file means it.
    fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// What TOML's reader refuses.
    fn refuse(&self, error: &toml::de::Error) -> Error {
        let (mut what, mut help) = complaint(error);
        if what == "unknown key \"password\"" {
            "a password has no place in a file that says so much else".clone_into(&mut what);
            "name a variable in password-env or a file in password-file, or say password-prompt = true"
                .clone_into(&mut help);
        }
        let span = error.span().unwrap_or(0..0);
        let is_list = self.text.get(span.clone()).is_some_and(|text| text.starts_with('['));
        if is_list && what.starts_with("found sequence") {
            "several values where one belongs; further addresses of a target are its \"addresses\""
                .clone_into(&mut what);
        }
        self.invalid(span, masked(&what), help)
    }

    fn invalid(
        &self,
        span: Range<usize>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Error {
        let mut place = Place::of(&self.path.display().to_string(), self.text, span);
        place.text = masked(&place.text);
        Error::Invalid { place: Box::new(place), what: what.into(), help: help.into() }
    }
}

/// A line without what may be a password in it: between `//user:` and the last `@`, and behind
/// `password =`. As long as before, so that a caret below it stands right.
fn masked(line: &str) -> String {
    let mut characters: Vec<char> = line.chars().collect();
    let find = |text: &[char], from: usize, wanted: &str| {
        let wanted: Vec<char> = wanted.chars().collect();
        (from..text.len()).find(|&at| text[at..].starts_with(&wanted))
    };
    if let Some(begin) = find(&characters, 0, "://").map(|at| at + 3)
        && let Some(end) = characters.iter().rposition(|&c| c == '@').filter(|&end| end > begin)
        && let Some(colon) = find(&characters[..end], begin, ":")
    {
        characters[colon + 1..end].fill('*');
    }
    let mut from = 0;
    while let Some(at) = find(&characters, from, "password") {
        from = at + "password".len();
        let next = (from..characters.len()).find(|&at| !"\"' ".contains(characters[at]));
        if let Some(equals) = next.filter(|&at| characters[at] == '=') {
            characters[equals + 1..].fill('*');
        }
    }
    characters.into_iter().collect()
}

#[cfg(test)]
mod tests;
