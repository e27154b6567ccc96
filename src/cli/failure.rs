//! How a failure is told, and the exit code it leads to.
//!
//! The chain of causes becomes one line `error: failed to …`; the offending line of a file and a
//! `help:` line follow where there are any. Nothing is said twice.

use std::io::Write as _;

use super::output::Unwritten;
use crate::error::{ErrorClass, Exit};
use crate::{lab, mysql, pipeline, record, sweep, task, telemetry, trial, workload};

const BUG: &str =
    "this is a fault of dmbench; please report it with the output of the same with -vv";

/// What is wrong with the command line beyond what its grammar sees.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Usage {
    what: String,
    help: String,
}

impl Usage {
    /// `what` reads after "failed to"; `help` says what to do.
    pub(super) fn error(what: impl Into<String>, help: impl Into<String>) -> anyhow::Error {
        Usage { what: what.into(), help: help.into() }.into()
    }
}

/// Prints an error on stderr. Returns the exit it leads to.
pub(super) fn present(error: &anyhow::Error) -> Exit {
    let mut text = format!("error: failed to {}\n", one_line(error));
    if let Some(excerpt) = find::<task::Error>(error).and_then(task::Error::excerpt) {
        text.push_str(&excerpt);
        text.push('\n');
    }
    if let Some(excerpt) = find::<lab::file::Error>(error).and_then(lab::file::Error::excerpt) {
        text.push_str(&excerpt);
        text.push('\n');
    }
    if let Some(sweep::Error::Unfit { checks, .. }) = find(error) {
        text.push_str(&super::preflight::as_text(checks, false));
    }
    if let Some(help) = help(error) {
        text.push_str(&format!("help: {help}\n"));
    }
    // Where stderr is closed there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
    exit(error)
}

/// Does a command's work. A panic anywhere in the process is told in one line, as what it is: a fault of
/// dmbench; one that reaches this far ends it.
pub fn guarded(work: impl FnOnce() -> Exit) -> Exit {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("it gave no reason");
        let place = panic.location().map_or_else(String::new, |at| format!(" at {at}"));
        let text = format!(
            "error: failed to go on{place}: {}\nhelp: {}\n",
            what.lines().map(str::trim).collect::<Vec<_>>().join(" "),
            BUG
        );
        let _ = std::io::stderr().write_all(text.as_bytes());
    }));
    // Nothing of the work is looked at again.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(Exit::Bug)
}

/// The chain of causes, without those that an earlier one already quotes.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn find<E: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.chain().find_map(|cause| cause.downcast_ref::<E>())
}

fn help(error: &anyhow::Error) -> Option<String> {
    if let Some(usage) = find::<Usage>(error) {
        return Some(usage.help.clone());
    }
    if let Some(task) = find::<task::Error>(error) {
        return task.help().map(str::to_owned);
    }
    if let Some(file) = find::<lab::file::Error>(error) {
        return file.help().map(str::to_owned);
    }
    if find::<lab::prompt::Error>(error).is_some() {
        return Some(lab::prompt::Error::HELP.to_owned());
    }
    if find::<Unwritten>(error).is_some() {
        return Some(Unwritten::HELP.to_owned());
    }
    match class(error)? {
        ErrorClass::Bug => Some(BUG.to_owned()),
        class => match mysql::hint(&one_line(error)) {
            Some(hint) => Some(hint.to_owned()),
            None => (class == ErrorClass::Transient).then(|| "try again".to_owned()),
        },
    }
}

fn exit(error: &anyhow::Error) -> Exit {
    if find::<Usage>(error).is_some() {
        return Exit::Usage;
    }
    if let Some(lab::prompt::Error::Interrupted { .. }) = find(error) {
        return Exit::Interrupted;
    }
    class(error).map_or(Exit::Bug, Exit::from)
}

/// The class that the outermost error of ours gives itself.
fn class(error: &anyhow::Error) -> Option<ErrorClass> {
    macro_rules! first_of {
        ($($kind:ty),+ $(,)?) => {
            error.chain().find_map(|cause| {
                $(if let Some(ours) = cause.downcast_ref::<$kind>() { return Some(ours.class()); })+
                None
            })
        };
    }
    first_of!(
        sweep::Error,
        task::Error,
        telemetry::Error,
        lab::file::Error,
        lab::prompt::Error,
        lab::Error,
        trial::preflight::Error,
        workload::Error,
        pipeline::Error,
        trial::verify::Error,
        record::store::Error,
        mysql::owner::Error,
        mysql::session::Error,
        Unwritten,
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn unreadable() -> record::store::Error {
        record::store::Error::Read {
            path: PathBuf::from("out/x/run.json"),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::Error::from(unreadable()).context("report on out/x");
        assert_eq!(one_line(&error), "report on out/x: read out/x/run.json: entity not found");
    }

    #[test]
    fn a_panic_is_exit_1() {
        let before = std::panic::take_hook();
        let exits = (guarded(|| panic!("two\nlines")), guarded(|| Exit::Differs));
        std::panic::set_hook(before);
        assert_eq!(exits, (Exit::Bug, Exit::Differs));
    }

    #[test]
    fn exits_follow_the_class() {
        assert_eq!(exit(&unreadable().into()), Exit::Invalid);
        assert_eq!(exit(&anyhow::Error::from(unreadable()).context("report")), Exit::Invalid);
        assert_eq!(exit(&Usage::error("understand it", "say it")), Exit::Usage);
        assert_eq!(exit(&anyhow::anyhow!("what nobody knows")), Exit::Bug);
    }
}
