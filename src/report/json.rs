//! A report for programs: facts of the run, summaries and advice, without records' histograms.

use serde::Serialize;

use crate::advise::{TaskAdvice, advise};
use crate::record::{Machine, Run, SCHEMA, TaskFacts, Trial};

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report<'a> {
    schema: u32,
    run: &'a str,
    began: jiff::Timestamp,
    ended: Option<jiff::Timestamp>,
    interrupted: bool,
    dmbench: &'a str,
    command: &'a [String],
    machine: &'a Machine,
    tasks: Vec<Task<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Task<'a> {
    facts: &'a TaskFacts,
    advice: TaskAdvice,
}

/// The report as JSON that begins with `"schema": 1`, ending with a line feed.
pub fn render(run: &Run, trials: &[Trial]) -> String {
    let advices = advise(run, trials);
    let report = Report {
        schema: SCHEMA,
        run: &run.id,
        began: run.began,
        ended: run.ended,
        interrupted: run.interrupted,
        dmbench: &run.dmbench,
        command: &run.command,
        machine: &run.machine,
        tasks: run
            .tasks
            .iter()
            .zip(advices)
            .map(|(facts, advice)| Task { facts, advice })
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&report)
        .expect("maps have text keys and numbers that are not finite become null");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::example;

    #[test]
    fn it_begins_with_its_schema_and_names_the_pick() {
        let (run, trials) = example::worker_sweep();
        let text = render(&run, &trials);
        assert!(text.starts_with("{\n  \"schema\": 1,"), "{}", &text[..40]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        let advice = &value["tasks"][0]["advice"];
        assert_eq!(advice["pick"]["point"]["pipeline.sync.worker-count"], "8");
        assert_eq!(advice["points"][0]["estimates"]["sync.rows-rate"]["n"], 3);
        assert_eq!(advice["points"][0]["distributions"]["sync.transaction"]["n"], 936);
        assert!(advice["findings"].is_array());
    }
}
