//! The shape of the source: who imports whom, how long files are, which names and calls have no place.
//!
//! The rules are the design's; a file that breaks one is named with the line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may name in a `crate::…` path, besides itself and `error`.
///
/// `task` may name the settings of workload, pipeline and lab; which paths those are is checked by
/// [`SETTINGS`].
const MAY: [(&str, &[&str]); 17] = [
    ("stats", &[]),
    ("telemetry", &[]),
    ("place", &[]),
    ("error", &[]),
    ("mysql", &["stats", "telemetry"]),
    ("record", &["stats", "telemetry"]),
    ("event", &["record"]),
    ("workload", &["mysql", "record", "event", "stats", "telemetry"]),
    ("pipeline", &["mysql", "record", "event", "stats", "telemetry"]),
    ("probe", &["mysql", "record", "event", "stats", "telemetry"]),
    ("lab", &["mysql", "record", "event", "stats", "telemetry", "place"]),
    ("advise", &["record", "stats"]),
    ("report", &["advise", "record", "stats"]),
    ("task", &["workload", "pipeline", "lab", "record", "place"]),
    (
        "trial",
        &[
            "task",
            "lab",
            "workload",
            "pipeline",
            "probe",
            "mysql",
            "record",
            "event",
            "stats",
            "telemetry",
        ],
    ),
    ("sweep", &["trial", "task", "lab", "record", "stats", "event", "telemetry"]),
    (
        "cli",
        &[
            "sweep",
            "trial",
            "task",
            "report",
            "workload",
            "pipeline",
            "probe",
            "lab",
            "advise",
            "mysql",
            "record",
            "event",
            "stats",
            "telemetry",
            "place",
        ],
    ),
];

/// Words that say nothing, in names of files and types.
const EMPTY_WORDS: [&str; 13] = [
    "util",
    "utils",
    "common",
    "helper",
    "misc",
    "base",
    "core",
    "manager",
    "handler",
    "processor",
    "data",
    "info",
    "impl",
];

/// Crates that stay inside the modules named.
const CRATES: [(&str, &[&str]); 6] = [
    ("mysql_common", &["mysql"]),
    ("hdrhistogram", &["stats"]),
    ("clap", &["cli"]),
    ("prometheus", &["telemetry"]),
    ("anyhow", &["cli"]),
    ("indicatif", &["cli"]),
];

/// Where the clock on the wall is read: for names and for moments that people read. Whatever is
/// subtracted or waited for goes by a monotonic clock, which nobody sets.
const WALL_CLOCK: [(&str, &str); 7] = [
    ("cli/conclude.rs", "the run's name"),
    ("pipeline/builtin/child/units.rs", "moments of a unit's begin and end, whose length is apart"),
    ("pipeline/builtin/dump/mod.rs", "moments in the dump's metadata, as mydumper has them"),
    ("probe/marker.rs", "a column of markers for people who look at the table"),
    ("sweep/mod.rs", "moments of a run's begin and end"),
    ("trial/draft.rs", "moment of a trial's begin"),
    ("lab/survey.rs", "how far the servers' clocks are from this machine's, before a run"),
];

#[test]
fn a_clock_that_is_set_moves_no_figure() {
    let mut found = std::collections::BTreeSet::new();
    for source in sources() {
        let reads = |(_, line): &(usize, &str)| {
            ["SystemTime::now", "Timestamp::now", "Zoned::now"].iter().any(|now| line.contains(now))
        };
        if code(&source.text).any(|line| reads(&line)) {
            let path = source.path.display().to_string();
            let allowed =
                WALL_CLOCK.iter().find(|(name, _)| path.ends_with(&format!("src/{name}")));
            found.insert(allowed.unwrap_or_else(|| panic!("{path} reads the wall's clock")).0);
        }
    }
    assert_eq!(found.len(), WALL_CLOCK.len(), "all that is allowed is needed: {found:?}");
}

struct Source {
    path: PathBuf,
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    assert!(files.len() > 30, "{} files", files.len());
    files
        .into_iter()
        .map(|path| {
            let inner = path.strip_prefix(&root).expect("below src");
            let first = inner.components().next().expect("a name").as_os_str();
            let module = Path::new(first).with_extension("").display().to_string();
            Source { text: fs::read_to_string(&path).expect("source"), module, path }
        })
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Lines of code with their numbers: without comments, and without what stands behind `//`.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(number, line)| {
        let line = line.trim_start();
        (!line.starts_with("//")).then(|| (number + 1, line.split(" // ").next().unwrap_or(line)))
    })
}

/// Only what is compiled without tests, where a file's own tests stand at its end.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at])
}

fn is_test_file(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem == "tests")
        || path.components().any(|part| part.as_os_str() == "tests")
}

/// Names that a text takes from the crate's root: `crate::a::b` and `crate::{a, b::{c, d}}`.
fn crate_paths(text: &str) -> Vec<String> {
    let code: String = code(text).map(|(_, line)| format!("{line}\n")).collect();
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(roots_of_list(list)),
            None => names.push(leading_path(rest)),
        }
    }
    names
}

/// The dotted path that a text begins with, as `a::b`.
fn leading_path(text: &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    text[..end.unwrap_or(text.len())].trim_end_matches(':').to_owned()
}

/// The paths that a `{…}` list holds at its outermost level.
fn roots_of_list(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut is_start) = (0, Vec::new(), true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && depth == 0 && (c.is_alphabetic() || c == '_') => {
                names.push(leading_path(&list[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

/// What `task` may name of a module that it may only know the settings of.
fn is_settings(path: &str) -> bool {
    let last = path.rsplit("::").next().unwrap_or(path);
    let words = [
        "Settings",
        "PaceSettings",
        "PaceKind",
        "RandType",
        "Script",
        "Sysbench",
        "KNOBS",
        "UNSUPPORTED",
        "Program",
        "Durability",
        "builtin",
        "sandbox",
        "Dump",
        "Load",
        "Sync",
    ];
    !path.contains("::") || words.contains(&last) || words.iter().any(|w| path.contains(w))
}

#[test]
fn imports_follow_the_layers() {
    let may: BTreeMap<&str, &[&str]> = MAY.into_iter().collect();
    let mut wrong = Vec::new();
    for source in sources() {
        if ["lib", "main"].contains(&source.module.as_str()) {
            continue;
        }
        let allowed = may
            .get(source.module.as_str())
            .unwrap_or_else(|| panic!("module {} stands in no layer", source.module));
        let text = if is_test_file(&source.path) { "" } else { without_tests(&source.text) };
        for path in crate_paths(text) {
            let module = path.split("::").next().unwrap_or(&path);
            let is_ours = module == source.module || module == "error";
            let is_strange = source.module == "task"
                && ["workload", "pipeline", "lab"].contains(&module)
                && !is_settings(&path);
            if !is_ours && (!allowed.contains(&module) || is_strange) {
                wrong.push(format!("{}: crate::{path}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the layers:\n{}", wrong.join("\n"));
}

#[test]
fn crates_stay_inside_their_modules() {
    let mut wrong = Vec::new();
    for source in sources() {
        let text = without_tests(&source.text);
        let silent = ["report", "advise"].contains(&source.module.as_str());
        for (number, line) in code(text) {
            let strays = CRATES.iter().filter(|(krate, homes)| {
                mentions(line, krate)
                    && !homes.contains(&source.module.as_str())
                    && source.module != "main"
            });
            let strays = strays.map(|(krate, _)| *krate);
            let servers =
                ["mysql_async", "tokio"].into_iter().filter(|k| silent && mentions(line, k));
            for krate in strays.chain(servers) {
                wrong.push(format!("{}:{number}: {krate}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "crates outside their modules:\n{}", wrong.join("\n"));
}

fn mentions(line: &str, krate: &str) -> bool {
    line.match_indices(&format!("{krate}::")).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn files_are_short_named_well_and_begin_with_their_purpose() {
    let mut wrong = Vec::new();
    for Source { path, text, .. } in sources() {
        let lines = text.lines().count();
        if lines > 600 {
            wrong.push(format!("{}: {lines} lines, at most 600", path.display()));
        }
        if path.ends_with("src/main.rs") && lines > 60 {
            wrong.push(format!("{}: {lines} lines, at most 60", path.display()));
        }
        if !text.starts_with("//! ") {
            wrong.push(format!("{}: does not begin with //!", path.display()));
        }
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        if stem.split('_').any(|word| EMPTY_WORDS.contains(&word)) {
            wrong.push(format!("{}: the file's name says nothing", path.display()));
        }
        for (number, lines) in long_functions(&text) {
            wrong.push(format!("{}:{number}: a function of {lines} lines", path.display()));
        }
        for (number, line) in code(&text) {
            if let Some(name) = declared_type(line)
                && words(name).iter().any(|word| EMPTY_WORDS.contains(&word.as_str()))
            {
                wrong.push(format!("{}:{number}: the name {name} says nothing", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions of more than 80 lines: the line that each begins at, and its number of lines. As
/// `rustfmt` sets them, a function ends with the first brace that stands as far in as its head.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut long = Vec::new();
    for (begin, head) in lines.iter().enumerate() {
        let words = head.trim_start();
        let is_head = ["fn ", "async fn ", "const fn "].iter().any(|fn_| {
            let rest = words
                .strip_prefix("pub")
                .map_or(words, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
            rest.starts_with(fn_)
        });
        if !is_head {
            continue;
        }
        let is_end = |line: &&&str| {
            indent(line) == indent(head) && (line.trim() == "}" || line.ends_with(';'))
        };
        let length = lines[begin..].iter().position(|line| is_end(&line)).map_or(0, |end| end + 1);
        if length > 80 {
            long.push((begin + 1, length));
        }
    }
    long
}

#[test]
fn a_long_function_is_found() {
    let body = "        step();\n".repeat(79);
    let text = format!("impl T {{\n    pub(super) async fn f() {{\n{body}    }}\n}}\n");
    assert_eq!(long_functions(&text), [(2, 81)]);
    assert_eq!(long_functions(&text.replacen("        step();\n", "", 1)), []);
    assert_eq!(long_functions("trait T {\n    fn f(\n        a: u8,\n    );\n}\n"), []);
}

fn declared_type(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("pub ").trim_start_matches("pub(super) ");
    let line = line.trim_start_matches("pub(crate) ");
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|k| line.strip_prefix(k))?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

/// `PaceSettings` as `pace`, `settings`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in name.chars() {
        if c.is_uppercase() || words.is_empty() {
            words.push(String::new());
        }
        words.last_mut().expect("one at least").extend(c.to_lowercase());
    }
    words
}

#[test]
fn calls_stay_where_they_belong() {
    // Split, so that this file does not hold what it looks for.
    let bans: [(&str, &[&str]); 8] = [
        (concat!("print", "ln!("), &["cli"]),
        (concat!("eprint", "ln!("), &["cli"]),
        (concat!("io::std", "out("), &["cli", "pipeline", "lab"]),
        (concat!("#[al", "low("), &[]),
        (concat!("#![al", "low("), &[]),
        (concat!("process::ex", "it("), &["main"]),
        (concat!("todo", "!("), &[]),
        (concat!("tokio::sp", "awn("), &[]),
    ];
    let mut wrong = Vec::new();
    for source in sources() {
        for (number, line) in code(&source.text) {
            for (call, homes) in bans {
                let is_home = homes.contains(&source.module.as_str());
                if line.contains(call) && !is_home {
                    wrong.push(format!("{}:{number}: {call}", source.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "calls that have no place there:\n{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_paths_sees_nested_lists() {
    let text = "use crate::{lab, pipeline::{self, x}, task};\nfn f() { crate::mysql::Session::a() }\n\
                // crate::comment\nmacro!($crate::no);";
    assert_eq!(crate_paths(text), ["lab", "pipeline", "task", "mysql::Session::a"]);
    assert_eq!(words("PaceSettings"), ["pace", "settings"]);
    assert_eq!(declared_type("pub(super) struct Leash {"), Some("Leash"));
}
