//! The pick as part of a DM task file, to be pasted.

use super::pick::Pick;
use crate::record::TaskFacts;

/// A mapping in the order in which its keys came.
#[derive(Debug, Default)]
struct Node {
    value: Option<String>,
    children: Vec<(String, Node)>,
}

impl Node {
    fn put(&mut self, path: &str, value: String) {
        let Some((first, rest)) =
            path.split_once('.').map(|(f, r)| (f, Some(r))).or(Some((path, None)))
        else {
            return;
        };
        let at = self.children.iter().position(|(key, _)| key == first).unwrap_or_else(|| {
            self.children.push((first.to_owned(), Node::default()));
            self.children.len() - 1
        });
        let child = &mut self.children[at].1;
        match rest {
            Some(rest) => child.put(rest, value),
            None => child.value = Some(value),
        }
    }

    fn write(&self, depth: usize, out: &mut String) {
        for (key, child) in &self.children {
            let indent = "  ".repeat(depth);
            match &child.value {
                Some(value) => out.push_str(&format!("{indent}{key}: {value}\n")),
                None => out.push_str(&format!("{indent}{key}:\n")),
            }
            child.write(depth + 1, out);
        }
    }
}

/// The picked values under DM's paths; `None` where none of the knobs has a place in a DM task.
pub(super) fn of(task: &TaskFacts, pick: &Pick) -> Option<String> {
    let mut root = Node::default();
    let mut homeless = Vec::new();
    for knob in &task.knobs {
        let Some(value) = pick.point.get(knob.name.as_ref()) else { continue };
        match &knob.dm_yaml_path {
            Some(path) => root.put(path, scalar(value, &knob.dimension)),
            None => homeless.push(format!("# DM has no place for {} = {value}\n", knob.name)),
        }
    }
    if root.children.is_empty() {
        return None;
    }
    let mut out = origin(task);
    if !pick.settled {
        out.push_str(&format!("# Indicative: {}.\n", what_settles(pick.further_blocks)));
    }
    out.extend(homeless);
    root.write(0, &mut out);
    Some(out)
}

/// What would make an indicative pick a settled one.
pub(super) fn what_settles(further_blocks: Option<u32>) -> String {
    match further_blocks {
        Some(1) => "1 further block should settle it".to_owned(),
        Some(n) => format!("about {n} further blocks should settle it"),
        None => "how many further blocks would settle it cannot be said yet".to_owned(),
    }
}

fn origin(task: &TaskFacts) -> String {
    let servers = match &task.lab {
        Some(lab) => format!(" from {} into {}", lab.source.server, lab.target.server),
        None => String::new(),
    };
    if task.pipeline == "dm" {
        return format!("# Measured by dmbench with DM{servers}.\n");
    }
    let emulated = match &task.lab {
        Some(lab) if !lab.emulated.is_empty() => {
            let each: Vec<String> =
                lab.emulated.iter().map(|(what, how)| format!("{what} {how}")).collect();
            format!("# Emulated: {}.\n", each.join("; "))
        }
        _ => String::new(),
    };
    format!(
        "# Measured by dmbench with the pipeline `{}`{servers}:\n\
         # a starting point, not a DM measurement.\n{emulated}",
        task.pipeline
    )
}

/// A YAML scalar. Durations of knobs that DM counts in seconds become a number of seconds.
fn scalar(value: &str, dimension: &str) -> String {
    let plain = value.replace('_', "");
    if plain.parse::<f64>().is_ok() || ["true", "false"].contains(&value) {
        return plain;
    }
    match super::pick::magnitude(value) {
        Some(seconds) if dimension == "s" => format!("{seconds}"),
        _ => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_of_one_unit_share_their_mapping() {
        let mut root = Node::default();
        root.put("syncers.global.worker-count", scalar("16", "connections"));
        root.put("syncers.global.batch", scalar("1_000", "rows"));
        root.put("mydumpers.global.threads", scalar("4", "connections"));
        let mut out = String::new();
        root.write(0, &mut out);
        assert_eq!(
            out,
            "syncers:\n  global:\n    worker-count: 16\n    batch: 1000\nmydumpers:\n  global:\n    \
             threads: 4\n"
        );
    }

    #[test]
    fn durations_become_seconds_and_words_are_quoted() {
        assert_eq!(scalar("30s", "s"), "30");
        assert_eq!(scalar("true", ""), "true");
        assert_eq!(scalar("a\"b", ""), "\"a\\\"b\"");
    }
}
