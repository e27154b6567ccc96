//! Tests of reading tasks: what is accepted, what is refused and how the refusal reads.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::pipeline::builtin;
use crate::workload::{PaceKind, RandType, Script, Sysbench};

const WHOLE: &str = r#"question = "Does it keep up?"
model = "stream"

[workload]
kind = "sysbench"
script = "oltp_write_only"
tables = 8
table-size = 100_000
rand-type = "zipfian"

[pace]
kind = "poisson"
rate = 2_000
clients = 32

[phases]
warm = "20s"
measure = "60s"
drain-limit = "120s"

[pipeline]
kind = "builtin"
sync = { batch = 100, checkpoint-flush-interval = "1s" }

[sandbox]
target-round-trip = "2ms"
durability = "full"

[[knob]]
name = "sync.worker-count"
values = [1, 2, 4]

[[knob]]
name = "pace.rate-type"
values = ["a"]

[limits]
lag-p99 = "5s"

[repeat]
blocks = 3
seed = 42
"#;

fn whole() -> String {
    WHOLE
        .replace("pace.rate-type", "workload.script")
        .replace("values = [\"a\"]", "values = [\"oltp_insert\", \"oltp_update_index\"]")
        .replace("script = \"oltp_write_only\"\n", "")
}

fn parse(text: &str, set: &[&str]) -> Result<Task, Error> {
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    Task::parse(Path::new("question.toml"), text, &set)
}

fn builtin_of(task: &Task) -> &builtin::Settings {
    let pipeline::Settings::Builtin(builtin) = &task.pipeline else { panic!("{task:?}") };
    builtin
}

#[test]
fn a_whole_task_is_read() {
    let task = parse(&whole(), &[]).expect("task");
    assert_eq!((task.name.as_str(), task.model), ("question", Model::Stream));
    assert_eq!((task.pace.kind, task.pace.rate), (PaceKind::Poisson, Some(2000.0)));
    assert_eq!(task.phases.drain_limit, Duration::from_secs(120));
    assert_eq!(task.sandbox.target_round_trip, Duration::from_millis(2));
    assert_eq!(task.limits.lag_p99_s, Some(5.0));
    assert_eq!(builtin_of(&task).sync.checkpoint_flush_interval, Duration::from_secs(1));
    let Some(workload::Settings::Sysbench(sysbench)) = &task.workload else { panic!() };
    let expected = Sysbench {
        script: Script::OltpInsert,
        tables: 8,
        table_size: 100_000,
        rand_type: RandType::Zipfian,
    };
    assert_eq!(*sysbench, expected);
}

#[test]
fn the_grid_is_whole_and_in_order() {
    let task = parse(&whole(), &[]).expect("task");
    let shown: Vec<String> = task
        .points()
        .iter()
        .map(|p| format!("{} {}", p["pipeline.sync.worker-count"], p["workload.script"]))
        .collect();
    let expected = [
        "1 oltp_insert",
        "1 oltp_update_index",
        "2 oltp_insert",
        "2 oltp_update_index",
        "4 oltp_insert",
        "4 oltp_update_index",
    ];
    assert_eq!(shown, expected);
    assert_eq!(task.trial_count(), 18);
    let at = task.at(&task.points()[3]).expect("point");
    assert_eq!(builtin_of(&at).sync.worker_count, 2);
    let Some(workload::Settings::Sysbench(sysbench)) = &at.workload else { panic!() };
    assert_eq!(sysbench.script, Script::OltpUpdateIndex);
    assert_eq!((&at.hash, at.points()), (&task.hash, vec![Point::new()]));
}

#[test]
fn a_point_that_is_not_of_the_grid_is_refused() {
    let task = parse(&whole(), &[]).expect("task");
    for point in [
        Point::new(),
        Point::from([("pace.rate".to_owned(), "1".to_owned())]),
        Point::from([("pipeline.sync.worker-count".to_owned(), "3".to_owned())]),
    ] {
        assert!(matches!(task.at(&point), Err(Error::Point { .. })), "{point:?}");
    }
}

#[test]
fn settings_of_the_command_line_win() {
    let set = [
        "pace.rate=250.5",
        "pipeline.sync.batch = 7",
        "sandbox.durability=relaxed",
        "sandbox.target-round-trip=5ms",
        "repeat.blocks=1",
        "phases.measure=10s",
        "sync.worker-count=8",
        "load.pool-size=[2, 4]",
        "dump.threads=2",
    ];
    let task = parse(&whole(), &set).expect("task");
    assert_eq!(task.pace.rate, Some(250.5));
    assert_eq!(builtin_of(&task).sync.batch, 7);
    assert_eq!(builtin_of(&task).dump.threads, 2);
    assert_eq!(task.sandbox.target_round_trip, Duration::from_millis(5));
    assert_eq!((task.repeat.blocks, task.phases.measure), (1, Duration::from_secs(10)));
    let counts: Vec<usize> = task.knobs.iter().map(|range| range.values.len()).collect();
    assert_eq!(counts, [1, 2, 2], "one worker count, two scripts, two pool sizes");
    assert_ne!(task.hash, parse(&whole(), &[]).expect("task").hash);
}

#[test]
fn the_hash_is_fnv_1a_and_sees_overrides() {
    assert_eq!(hash("", &[]), "cbf29ce484222325");
    assert_eq!(hash("a", &[]), "af63dc4c8601ec8c");
    assert_ne!(hash("a", &["b".to_owned()]), hash("ab", &[]));
    assert_ne!(hash("", &["a".into(), "b".into()]), hash("", &["ab".into()]));
}

/// Each case: what is changed in the whole task, and overrides.
fn refusals() -> Vec<(String, Vec<&'static str>)> {
    let with = |from: &str, to: &str| {
        let text = whole();
        assert!(text.contains(from), "{from}");
        (text.replace(from, to), Vec::new())
    };
    let set = |set: &'static str| (whole(), vec![set]);
    vec![
        ("model = ".to_owned(), vec![]),
        ("model = \"stream\"".to_owned(), vec![]),
        with("tables = 8", "tabels = 8"),
        with("batch = 100", "bacth = 100"),
        with("sync = {", "load = { import-mode = \"logical\" }\nsync = {"),
        with("batch = 100", "safe-mode = true, safe-mode-duration = \"0s\""),
        with("tables = 8", "tables = \"eight\""),
        with("tables = 8", "tables = 0"),
        with("\"zipfian\"", "\"zipfan\""),
        with("kind = \"sysbench\"", "kind = \"sysbnech\""),
        with("kind = \"builtin\"", "kind = \"idle\""),
        with("kind = \"builtin\"\n", ""),
        with("model = \"stream\"", "model = \"backlog\""),
        with("model = \"stream\"", "model = \"sustain\""),
        with("model = \"stream\"", "model = \"bulk\""),
        with("rate = 2_000\n", ""),
        with("kind = \"poisson\"", "kind = \"closed\""),
        with("rate = 2_000", "rate = -5"),
        with("measure = \"60s\"", "measure = 60"),
        with("measure = \"60s\"", "measure = \"sixty\""),
        with("measure = \"60s\"", "ops = 10"),
        with("name = \"sync.worker-count\"", "name = \"sync.worker-cout\""),
        with("name = \"sync.worker-count\"", "name = \"load.import-mode\""),
        with("name = \"sync.worker-count\"", "name = \"repeat.blocks\""),
        with("name = \"sync.worker-count\"", "name = \"sync.batch\""),
        with("[1, 2, 4]", "[1, 2, -4]"),
        with("[1, 2, 4]", "[1, 2, 2]"),
        with("[1, 2, 4]", "[]"),
        with("[1, 2, 4]", "4"),
        with("durability = \"full\"", "source = \"tidb\""),
        with("blocks = 3", "blocks = 0"),
        with("[limits]", "[limit]"),
        with("[sandbox]", "[sandbox"),
        with("Does it keep up?", " "),
        set("sync.worker-count"),
        set("sync.worker-cout=3"),
        set("load.import-mode=logical"),
        set("pace.clients=many"),
        set("phases.measure=[1, 2]"),
    ]
}

#[test]
fn refusals_show_place_and_remedy() {
    let mut all = String::new();
    for (text, set) in refusals() {
        let error = match parse(&text, &set) {
            Ok(task) => panic!("{text}\n{set:?} is accepted: {task:?}"),
            Err(error) => error,
        };
        assert_eq!(error.class(), crate::error::ErrorClass::User);
        writeln!(all, "error: failed to {error}").expect("string");
        if let Some(excerpt) = error.excerpt() {
            writeln!(all, "{excerpt}").expect("string");
        }
        if let Some(help) = error.help() {
            writeln!(all, "help: {help}").expect("string");
        }
        all.push('\n');
    }
    insta::assert_snapshot!(all);
}

#[test]
fn names_come_from_files_that_fit() {
    for (path, fits) in [("a/pool-size.toml", true), ("a/b c.toml", false), ("", false)] {
        let read = Task::parse(Path::new(path), demo::IMPORT, &[]);
        assert_eq!(read.is_ok(), fits, "{path}: {read:?}");
    }
}

#[test]
fn the_demo_is_made_of_tasks() {
    for (name, text) in
        [("import", demo::IMPORT), ("worker-count", demo::WORKER_COUNT), ("lag", demo::LAG)]
    {
        let task = Task::parse(Path::new(name), text, &[]).expect(name);
        assert_eq!(task.name, name);
    }
    let set = ["pace.rate=812.5".to_owned(), "sync.worker-count=4".to_owned()];
    let lag = Task::parse(Path::new("lag"), demo::LAG, &set).expect("lag");
    assert_eq!((lag.pace.rate, builtin_of(&lag).sync.worker_count), (Some(812.5), 4));
}

/// Every setting that serde would read is a knob: one that is not could be neither written nor
/// varied.
#[test]
fn every_setting_is_a_key() {
    use serde::de::DeserializeOwned;
    fn fields<T: DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
        let error = toml::from_str::<T>("zzz = 1").expect_err("no such key").to_string();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }
    for (path, fields) in [
        ("workload", fields::<Sysbench>()),
        ("pace", fields::<PaceSettings>()),
        ("pipeline", fields::<builtin::Settings>()),
        ("pipeline.dump", fields::<builtin::Dump>()),
        ("pipeline.load", fields::<builtin::Load>()),
        ("pipeline.sync", fields::<builtin::Sync>()),
        ("sandbox", fields::<lab::sandbox::Settings>()),
    ] {
        let mut fields = fields;
        let mut allowed = keys::below(path);
        allowed.retain(|key| *key != "kind" || path == "pace");
        fields.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(fields, allowed, "[{path}]");
    }
}

#[test]
fn an_estimate_covers_all_trials() {
    let task = parse(&whole(), &[]).expect("task");
    let estimate = estimate::estimate(&task).expect("estimate");
    assert_eq!(estimate.trials.len(), 6);
    assert!(estimate.trials.iter().all(|trial| *trial > Duration::from_secs(80)));
    assert!(estimate.total > estimate.trials.iter().sum::<Duration>() * 3);
}

/// Pieces of tasks, so that random texts get beyond the first line.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(WHOLE.split_inclusive('\n').collect::<Vec<_>>()).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => prop::sample::select(vec!["\n", "=", "[", "]]", "\"", "'''", "é = 1\n", "a.b.c = {}\n", "knob = 3\n"])
            .prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_panics(text in ".*", set in prop::collection::vec(".*", 0..3)) {
        if let Err(error) = Task::parse(Path::new("q.toml"), &text, &set) {
            let _ = (error.to_string(), error.excerpt(), error.help().map(str::len));
        }
    }

    #[test]
    fn no_mixture_panics(
        pieces in prop::collection::vec(piece(), 0..40),
        set in prop::collection::vec(
            prop::sample::select(vec!["pace.rate=[1,2]", "sync.batch={a=1}", "workload=1", "=", "model=\u{e9}", "sync.worker-count=\"\n\""]),
            0..3,
        ),
    ) {
        let set: Vec<String> = set.into_iter().map(str::to_owned).collect();
        if let Err(error) = Task::parse(Path::new("q.toml"), &pieces.concat(), &set) {
            let excerpt = error.excerpt().unwrap_or_default();
            prop_assert!(excerpt.is_empty() || excerpt.contains('^'));
        }
    }

    /// The whole task with one line taken out or doubled is a task or is refused, never a panic.
    #[test]
    fn no_line_taken_out_panics(line in 0usize..44, double: bool) {
        let text = whole();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        let line = line % lines.len();
        if double { lines.insert(line, lines[line]); } else { lines.remove(line); }
        let _ = Task::parse(Path::new("q.toml"), &lines.concat(), &[]);
    }
}
