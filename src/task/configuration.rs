//! A task's settings as flat names and texts, for records.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::task::Task;

impl Task {
    /// All settings that a trial of this task runs with, defaults included, by dotted name.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        let mut flat = BTreeMap::new();
        for (table, settings) in [
            ("workload", serde_json::to_value(&self.workload)),
            ("pace", serde_json::to_value(&self.pace)),
            ("pipeline", serde_json::to_value(&self.pipeline)),
            ("sandbox", serde_json::to_value(&self.sandbox)),
        ] {
            flatten(table, &settings.expect("settings are plain values"), &mut flat);
        }
        for (name, length) in [
            ("phases.warm", self.phases.warm),
            ("phases.measure", self.phases.measure),
            ("phases.drain-limit", self.phases.drain_limit),
        ] {
            flat.insert(name.to_owned(), format!("{length:?}"));
        }
        if let Some(ops) = self.phases.ops {
            flat.insert("phases.ops".to_owned(), ops.to_string());
        }
        flat.insert("repeat.seed".to_owned(), self.repeat.seed.to_string());
        flat
    }
}

fn flatten(name: &str, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}.{field}"), value, flat);
            }
        }
        Value::Null => {}
        Value::String(text) => {
            flat.insert(name.to_owned(), text.clone());
        }
        other => {
            flat.insert(name.to_owned(), other.to_string());
        }
    }
}
