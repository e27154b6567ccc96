//! From the parsed text to a [`Task`]: overrides, keys, knobs, the point, then each table.
//!
//! Tables with a `kind` are read by that kind's own settings, without the tag: serde buffers tagged
//! tables and so loses the place of an error.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::pipeline;
use crate::place::alternatives;
use crate::record::{Knob, Limits, Model, Point};
use crate::task::document::{Text, Value, get, put, remove};
use crate::task::keys::{self, Resolved};
use crate::task::{Error, KnobRange, Phases, Repeat, Task, hash, rules, shown};
use crate::workload;

/// Most values of one knob.
const MOST_VALUES: usize = 1_000;
/// Most points of a task.
const MOST_POINTS: usize = 10_000;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Head {
    question: String,
    model: Model,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Limited {
    #[serde(default, with = "jiff::fmt::serde::unsigned_duration::friendly::compact::optional")]
    lag_p99: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Repeated {
    blocks: u32,
    seed: u64,
}

impl Default for Repeated {
    fn default() -> Self {
        Repeated { blocks: 3, seed: 42 }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Lengths {
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    warm: Duration,
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    measure: Duration,
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    drain_limit: Duration,
    ops: Option<u64>,
}

impl Default for Lengths {
    fn default() -> Self {
        Lengths {
            warm: Duration::from_secs(20),
            measure: Duration::from_secs(60),
            drain_limit: Duration::from_secs(120),
            ops: None,
        }
    }
}

/// A knob as the file or an override gives it.
struct Varied<'t> {
    range: KnobRange,
    name: Range<usize>,
    values: Vec<Value<'t>>,
}

/// Reads a task. With a point its values stand in the place of the knobs, and the task that comes
/// out varies nothing.
pub(super) fn read(
    path: &Path,
    file: &str,
    overrides: &[String],
    point: Option<&Point>,
) -> Result<Task, Error> {
    let name = name_of(path)?;
    let text = Text::new(&path.display().to_string(), file, overrides);
    let mut root = text.parse()?.into_inner();
    check_keys(&text, &root, "", "a task")?;
    let mut varied = take_knobs(&text, &mut root)?;
    put_overrides(&text, &mut root, &mut varied)?;
    check_ranges(&text, &root, &varied)?;
    let knobs = match point {
        None => varied.into_iter().map(|v| v.range).collect(),
        Some(point) => {
            put_point(&mut root, varied, point)?;
            Vec::new()
        }
    };
    let spans = root.clone();
    let head: Head = section(&text, &mut root, None)?;
    let task = Task {
        name,
        path: path.to_owned(),
        text: file.to_owned(),
        overrides: overrides.to_vec(),
        hash: hash(file, overrides),
        question: head.question,
        model: head.model,
        workload: workload_of(&text, &mut root)?,
        pace: match root.contains_key("pace") {
            true => section(&text, &mut root, Some("pace"))?,
            false => workload::PaceSettings::default(),
        },
        phases: section::<Lengths>(&text, &mut root, Some("phases"))?.into(),
        pipeline: pipeline_of(&text, &mut root)?,
        sandbox: section(&text, &mut root, Some("sandbox"))?,
        knobs,
        limits: section::<Limited>(&text, &mut root, Some("limits"))?.into(),
        repeat: section::<Repeated>(&text, &mut root, Some("repeat"))?.into(),
    };
    // A task that varies is checked point by point: before that its own values may be incomplete.
    if task.knobs.is_empty() {
        rules::check(&task, &rules::Written { text: &text, root: &spans })?;
    }
    rules::check_repeat(&task, &rules::Written { text: &text, root: &spans })?;
    Ok(task)
}

fn name_of(path: &Path) -> Result<String, Error> {
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 40 || !name.chars().all(fits) {
        return Err(Error::Name { path: path.to_owned() });
    }
    Ok(name.to_owned())
}

/// Refuses keys that no task has. What kind of value a key holds is the settings' business.
fn check_keys(text: &Text, table: &DeTable<'_>, path: &str, what: &str) -> Result<(), Error> {
    let allowed = keys::below(path);
    if allowed.is_empty() {
        return Ok(());
    }
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if !allowed.contains(&name) {
            if let Resolved::Unsupported(knob) = keys::resolve(&full) {
                return Err(text.invalid(key.span(), missing_knob(knob), missing_help()));
            }
            let help = alternatives(name, &allowed);
            return Err(text.invalid(
                key.span(),
                format!("unknown key \"{name}\" in {what}"),
                help,
            ));
        }
        let below = format!("[{full}]");
        match value.get_ref() {
            DeValue::Table(table) => check_keys(text, table, &full, &below)?,
            DeValue::Array(array) if full == "knob" => {
                for table in array.iter().filter_map(|knob| knob.get_ref().as_table()) {
                    check_keys(text, table, &full, "[[knob]]")?;
                }
            }
            _ if !keys::below(&full).is_empty() => {
                let what = format!("\"{name}\" is a table, not a value");
                let help = format!("it holds: {}", keys::below(&full).join(", "));
                return Err(text.invalid(value.span(), what, help));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The knobs that the built-in pipeline has.
fn missing_help() -> String {
    let knobs = pipeline::builtin::KNOBS;
    let names: Vec<&str> = knobs.iter().map(|knob| keys::short(&knob.name)).collect();
    format!("leave it out; it has {}", names.join(", "))
}

fn missing_knob(knob: &str) -> String {
    format!("dmbench's builtin does not have {} yet", keys::short(knob))
}

fn take_knobs<'t>(text: &Text, root: &mut DeTable<'t>) -> Result<Vec<Varied<'t>>, Error> {
    let Some(knobs) = root.remove("knob") else { return Ok(Vec::new()) };
    let span = knobs.span();
    let DeValue::Array(knobs) = knobs.into_inner() else {
        return Err(text.invalid(span, "\"knob\" is not a list of tables", "write [[knob]]"));
    };
    let mut all: Vec<Varied<'t>> = Vec::new();
    for knob in knobs {
        let span = knob.span();
        let DeValue::Table(mut table) = knob.into_inner() else {
            return Err(text.invalid(span, "a knob is a table", "write [[knob]]"));
        };
        let mut part = |key: &str| {
            table.remove(key).ok_or_else(|| {
                let what = format!("key \"{key}\" is missing in [[knob]]");
                text.invalid(span.clone(), what, "a knob has name and values")
            })
        };
        let (name, values) = (part("name")?, part("values")?);
        let name_span = name.span();
        let Some(name) = name.get_ref().as_str() else {
            return Err(text.invalid(name_span, "a knob's name is a text", ""));
        };
        let knob = match keys::resolve(name) {
            Resolved::Knob(knob) => knob,
            Resolved::Unsupported(knob) => {
                return Err(text.invalid(name_span, missing_knob(knob), missing_help()));
            }
            Resolved::Plain(key) => {
                let what = format!("\"{key}\" cannot be varied");
                let help = "knobs are the keys of [workload], [pace], [pipeline] and [sandbox]";
                return Err(text.invalid(name_span, what, help));
            }
            Resolved::Unknown(near) => {
                let help = format!("did you mean \"{near}\"? tasks/README.md lists all keys");
                return Err(text.invalid(name_span, format!("unknown knob \"{name}\""), help));
            }
        };
        if all.iter().any(|other| other.range.knob.name == knob.name) {
            let what = format!("knob \"{}\" is there twice", keys::short(&knob.name));
            return Err(text.invalid(name_span, what, "put all values into one list"));
        }
        all.push(varied(text, knob, name_span, values)?);
    }
    Ok(all)
}

fn varied<'t>(
    text: &Text,
    knob: &Knob,
    name: Range<usize>,
    values: Value<'t>,
) -> Result<Varied<'t>, Error> {
    let span = values.span();
    let DeValue::Array(values) = values.into_inner() else {
        let what = "the values of a knob are a list";
        return Err(text.invalid(span, what, "for example values = [1, 2, 4]"));
    };
    if values.is_empty() || values.len() > MOST_VALUES {
        let what = format!("a knob has 1 to {MOST_VALUES} values, not {}", values.len());
        return Err(text.invalid(span, what, ""));
    }
    let values: Vec<Value<'t>> = values.into_iter().collect();
    let mut plain: Vec<toml::Value> = Vec::new();
    for value in &values {
        let read = toml::Value::deserialize(toml::de::ValueDeserializer::from(value.clone()))
            .map_err(|e| text.mistyped(&e, value.span()))?;
        if read.is_table() || read.is_array() {
            return Err(text.invalid(value.span(), "a value of a knob is a number or a word", ""));
        }
        if plain.iter().any(|other| shown(other) == shown(&read)) {
            let what = format!("value {} is there twice", shown(&read));
            let help = "more trials of every point: raise repeat.blocks";
            return Err(text.invalid(value.span(), what, help));
        }
        plain.push(read);
    }
    Ok(Varied { range: KnobRange { knob: knob.clone(), values: plain }, name, values })
}

/// A list varies a key, also one that the file does not vary; one value for a key that the file
/// varies leaves that value alone in the grid.
fn put_overrides<'t>(
    text: &'t Text,
    root: &mut DeTable<'t>,
    all: &mut Vec<Varied<'t>>,
) -> Result<(), Error> {
    for (span, name, value) in text.overrides()? {
        let refuse = |what: String, help: &str| Err(text.override_error(&span, what, help));
        let knob = match keys::resolve(name) {
            Resolved::Knob(knob) => knob,
            Resolved::Plain(path) => {
                put(root, path, value);
                continue;
            }
            Resolved::Unsupported(knob) => return refuse(missing_knob(knob), &missing_help()),
            Resolved::Unknown(near) => {
                let help = format!("did you mean \"{near}\"? tasks/README.md lists all keys");
                return refuse(format!("unknown key \"{name}\""), &help);
            }
        };
        let place = all.iter().position(|other| other.range.knob.name == knob.name);
        let is_list = value.get_ref().is_array();
        if place.is_none() && !is_list {
            put(root, &knob.name, value);
            continue;
        }
        let value = if is_list { value } else { one(value) };
        let new = varied(text, knob, span, value)?;
        match place {
            Some(place) => all[place] = new,
            None => {
                remove(root, &knob.name);
                all.push(new);
            }
        }
    }
    Ok(())
}

fn one(value: Value<'_>) -> Value<'_> {
    let span = value.span();
    Spanned::new(span, DeValue::Array(std::iter::once(value).collect()))
}

fn check_ranges(text: &Text, root: &DeTable<'_>, all: &[Varied<'_>]) -> Result<(), Error> {
    let mut points = 1_usize;
    for varied in all {
        let name = &varied.range.knob.name;
        if get(root, name).is_some() {
            let what = format!("\"{}\" is set and varied", keys::short(name));
            let help = "leave it out of its table, or out of the knobs";
            return Err(text.invalid(varied.name.clone(), what, help));
        }
        points = points.saturating_mul(varied.values.len());
        if points > MOST_POINTS {
            let what = format!("the grid has more than {MOST_POINTS} points");
            return Err(text.invalid(varied.name.clone(), what, "vary fewer knobs at once"));
        }
    }
    Ok(())
}

fn put_point<'t>(root: &mut DeTable<'t>, all: Vec<Varied<'t>>, point: &Point) -> Result<(), Error> {
    let stranger = point.keys().find(|name| all.iter().all(|v| v.range.knob.name != name.as_str()));
    if let Some(name) = stranger {
        return Err(Error::Point { name: name.clone() });
    }
    for varied in all {
        let name = varied.range.knob.name.as_ref();
        let place = point
            .get(name)
            .and_then(|text| varied.range.values.iter().position(|value| shown(value) == *text))
            .ok_or_else(|| Error::Point { name: name.to_owned() })?;
        put(root, name, varied.values[place].clone());
    }
    Ok(())
}

/// Takes a table out and reads it; one that is not there reads as empty. Without a name: what is
/// left of the whole file that holds a value.
fn section<'t, T: Deserialize<'t>>(
    text: &Text,
    root: &mut DeTable<'t>,
    name: Option<&str>,
) -> Result<T, Error> {
    let (table, span) = match name {
        Some(name) => match root.remove(name) {
            None => (DeTable::new(), 0..0),
            Some(table) => {
                let span = table.span();
                match table.into_inner() {
                    DeValue::Table(table) => (table, span),
                    _ => return Err(text.invalid(span, format!("[{name}] is a table"), "")),
                }
            }
        },
        None => {
            let mut head = DeTable::new();
            for name in ["question", "model"] {
                if let Some((key, value)) = root.remove_entry(name) {
                    head.insert(key, value);
                }
            }
            (head, 0..0)
        }
    };
    T::deserialize(toml::Deserializer::from(Spanned::new(span.clone(), table)))
        .map_err(|e| text.mistyped(&e, span))
}

/// Takes `kind` out of a table. `None` where the table is not there.
fn kind_of(
    text: &Text,
    root: &mut DeTable<'_>,
    name: &str,
    kinds: &[&'static str],
) -> Result<Option<&'static str>, Error> {
    let Some(table) = root.get_mut(name) else { return Ok(None) };
    let span = table.span();
    let DeValue::Table(table) = table.get_mut() else { return Ok(None) };
    let allowed = || format!("kinds: {}", kinds.join(", "));
    let Some(kind) = table.remove("kind") else {
        return Err(text.invalid(span, format!("key \"kind\" is missing in [{name}]"), allowed()));
    };
    let Some(word) = kind.get_ref().as_str() else {
        return Err(text.invalid(kind.span(), "\"kind\" is a text", allowed()));
    };
    match kinds.iter().find(|known| **known == word) {
        Some(known) => Ok(Some(*known)),
        None => {
            let what = format!("unknown kind of {name} \"{word}\"");
            Err(text.invalid(kind.span(), what, alternatives(word, kinds)))
        }
    }
}

fn workload_of(text: &Text, root: &mut DeTable<'_>) -> Result<Option<workload::Settings>, Error> {
    match kind_of(text, root, "workload", &["sysbench"])? {
        None => Ok(None),
        Some(_) => Ok(Some(workload::Settings::Sysbench(section(text, root, Some("workload"))?))),
    }
}

fn pipeline_of(text: &Text, root: &mut DeTable<'_>) -> Result<pipeline::Settings, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    match kind_of(text, root, "pipeline", &["builtin", "idle"])? {
        Some("builtin") => Ok(pipeline::Settings::Builtin(section(text, root, Some("pipeline"))?)),
        Some(_) => {
            if let Some((key, _)) = get(root, "pipeline")
                .and_then(|table| table.get_ref().as_table())
                .and_then(|table| table.iter().next())
            {
                let what = format!("pipeline idle has no \"{}\"", key.get_ref());
                return Err(text.invalid(key.span(), what, "it does nothing and has no settings"));
            }
            section::<Nothing>(text, root, Some("pipeline"))?;
            Ok(pipeline::Settings::Idle {})
        }
        None => Ok(pipeline::Settings::Idle {}),
    }
}

impl From<Lengths> for Phases {
    fn from(lengths: Lengths) -> Phases {
        let Lengths { warm, measure, drain_limit, ops } = lengths;
        Phases { warm, measure, drain_limit, ops }
    }
}

impl From<Limited> for Limits {
    fn from(limited: Limited) -> Limits {
        Limits { lag_p99_s: limited.lag_p99.map(|limit| limit.as_secs_f64()) }
    }
}

impl From<Repeated> for Repeat {
    fn from(repeated: Repeated) -> Repeat {
        Repeat { blocks: repeated.blocks, seed: repeated.seed }
    }
}
