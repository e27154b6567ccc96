//! Files beside the source that must keep step with it: tasks, their document, the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dmbench::lab::LabFile;
use dmbench::task::{Task, estimate, keys};
use dmbench::telemetry::{label, series};

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(at(path)).expect(path)
}

fn tasks(folder: &str) -> Vec<Task> {
    let mut paths: Vec<PathBuf> = fs::read_dir(at(folder))
        .expect(folder)
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{folder} has no tasks");
    paths.iter().map(|path| Task::load(path, &[]).expect("a task of ours is valid")).collect()
}

#[test]
fn the_document_of_tasks_names_every_key_and_every_task() {
    let text = read("tasks/README.md");
    for key in keys::all() {
        assert!(text.contains(&format!("| `{key}` |")), "tasks/README.md does not explain {key}");
    }
    for folder in ["import", "sync"] {
        for task in tasks(&format!("tasks/{folder}")) {
            let row = format!("| `{folder}/{}.toml` | {} |", task.name, task.question);
            assert!(text.contains(&row), "tasks/README.md lacks: {row}");
        }
    }
}

#[test]
fn the_document_of_tasks_states_the_defaults() {
    let text = read("tasks/README.md");
    for knob in keys::knobs().filter(|knob| !knob.default.is_empty()) {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", knob.name)))
            .expect("every key has a row");
        let cell = row.split('|').nth(2).expect("a default").trim();
        let bare: String = cell.chars().filter(|c| !"`\"sm".contains(*c)).collect();
        let default: String = knob.default.chars().filter(|c| !"sm".contains(*c)).collect();
        assert_eq!(bare, default, "{}", knob.name);
    }
}

#[test]
fn the_example_of_a_lab_file_is_one_with_every_line_switched_on() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["ca.pem", "client.pem", "client-key.pem", "target.secret"] {
        fs::write(folder.path().join(name), "x").expect("written");
    }
    let text = read("lab.example.toml");
    let (_, text) = text.split_once("\n\n").expect("a head");
    let text = text.replace("\n# ", "\n");
    let text = text.replace("password-env = \"DMBENCH_SOURCE_PASSWORD\"", "");
    let file = LabFile::parse(&folder.path().join("lab.toml"), &text).expect("a lab");
    assert!(file.dm.is_some() && file.status_url.is_some() && file.prometheus.len() == 1);
    assert_eq!(file.source_for_pipeline.address.to_string(), "10.0.9.5:3306");
    let explained = read("README.md");
    for line in text.lines().filter(|line| line.contains(" = ")) {
        let key = line.split(' ').next().expect("a key");
        let key = if key == "tls" { "tls.mode" } else { key };
        assert!(explained.contains(&format!(".{key}`")), "README.md does not explain {key}");
    }
}

#[test]
fn every_task_has_a_small_twin() {
    let twins: BTreeSet<String> = tasks("tasks/smoke").into_iter().map(|task| task.name).collect();
    let full: BTreeSet<String> = ["tasks/import", "tasks/sync"]
        .iter()
        .flat_map(|folder| tasks(folder))
        .map(|task| task.name)
        .collect();
    assert_eq!(twins, full);
}

#[test]
fn smoke_tasks_are_small() {
    let mut total = Duration::ZERO;
    for task in tasks("tasks/smoke") {
        assert_eq!(task.repeat.blocks, 1, "{}", task.name);
        assert!(task.points().len() <= 2, "{}", task.name);
        let estimate = estimate::estimate(&task).expect("estimate");
        total += estimate.total - estimate.before;
    }
    assert!(total <= Duration::from_secs(90), "{total:?} expected for all smoke tasks");
}

#[test]
fn the_dashboard_shows_the_series_that_exist() {
    let text = read("dashboards/dmbench.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut used = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            used.extend(series_in(query));
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            if let Some(name) = legend.strip_prefix("{{").and_then(|l| l.strip_suffix("}}")) {
                assert!(label::ALL.contains(&name), "{legend} is no label");
            }
        }
    }
    let exported: BTreeSet<String> = series::ALL.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(used, exported);
    let document = read("dashboards/README.md");
    for name in series::ALL {
        assert!(document.contains(&format!("`{name}`")), "dashboards/README.md lacks {name}");
    }
}

fn series_in(query: &str) -> Vec<String> {
    query
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("dmbench_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_licence_is_the_one_that_the_manifest_names() {
    assert!(read("Cargo.toml").contains("license = \"Apache-2.0\""));
    assert!(read("LICENSE").contains("Apache License\n                        Version 2.0"));
    assert!(read("CHANGELOG.md").contains("## [Unreleased]"));
}
