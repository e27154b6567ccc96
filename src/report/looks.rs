//! How whole reports look, over made-up records; and that no gap in the records is a panic.

use proptest::prelude::*;

use super::{Document, json, markdown, terminal};
use crate::record::{Level, Model, Outcome, Run, Trial, Verdict, example};

fn bulk() -> (Run, Vec<Trial>) {
    let task = example::task("pool-size", Model::Bulk, Some(&example::POOL_SIZE), &[2, 8, 16]);
    let loads = [31_000.0, 60_000.0, 61_500.0];
    let trials = example::trials(&task, |at, block| {
        let noise = 1.0 + 0.01 * f64::from((at as u32 + block * 2) % 3);
        example::bulk_metrics(240_000.0 * noise, loads[at] * noise, 40_000 * (at as u64 + 1))
    });
    (example::run(vec![task]), trials)
}

fn stream() -> (Run, Vec<Trial>) {
    let mut task = example::task("lag", Model::Stream, None, &[]);
    task.blocks = 1;
    let trials = example::trials(&task, |_, _| example::stream_metrics(2_000.0, 21_000));
    (example::run(vec![task]), trials)
}

fn drive() -> (Run, Vec<Trial>) {
    let task = example::task("clients", Model::Drive, Some(&example::CLIENTS), &[1, 16]);
    let trials = example::trials(&task, |at, _| {
        example::drive_metrics([900.0, 6_200.0][at], [1_100, 2_500][at])
    });
    (example::run(vec![task]), trials)
}

/// A sweep in which much went wrong.
fn troubled() -> (Run, Vec<Trial>) {
    let (mut run, mut trials) = example::worker_sweep();
    run.interrupted = true;
    for trial in &mut trials {
        match (trial.point.values().next().map(String::as_str), trial.block) {
            (Some("1"), _) => {
                trial.outcome =
                    Outcome::Saturated { rate: 3_100.0, dimension: "rows/s".to_owned() };
                trial.verdict = Verdict::Unchecked { reason: "it did not finish".to_owned() };
            }
            (Some("8"), 2) => {
                trial.verdict = Verdict::Differs {
                    missing: 1,
                    surplus: 0,
                    changed: 2,
                    examples: vec!["sbtest.sbtest1 id=17: k differs".to_owned()],
                };
            }
            (Some("16"), 3) => {
                trial.outcome = Outcome::Aborted { reason: "Ctrl-C".to_owned() };
                trial.verdict = Verdict::Unchecked { reason: "Ctrl-C".to_owned() };
                trial.metrics.clear();
            }
            _ => {}
        }
    }
    (run, trials)
}

fn terminal_of((run, trials): &(Run, Vec<Trial>), width: u16) -> String {
    terminal::render(&Document::of(run, trials), width, false)
}

#[test]
fn a_worker_sweep_in_a_terminal_of_120() {
    insta::assert_snapshot!(terminal_of(&example::worker_sweep(), 120));
}

#[test]
fn a_worker_sweep_in_markdown() {
    let (run, trials) = example::worker_sweep();
    insta::assert_snapshot!(markdown::render(&Document::of(&run, &trials)));
}

#[test]
fn an_import_sweep_in_a_terminal_of_80() {
    insta::assert_snapshot!(terminal_of(&bulk(), 80));
}

#[test]
fn a_lag_test_in_a_terminal_of_120() {
    insta::assert_snapshot!(terminal_of(&stream(), 120));
}

#[test]
fn a_drive_in_a_terminal_of_200() {
    insta::assert_snapshot!(terminal_of(&drive(), 200));
}

#[test]
fn a_troubled_sweep_in_a_terminal_of_100() {
    insta::assert_snapshot!(terminal_of(&troubled(), 100));
}

#[test]
fn one_report_holds_all_tasks_of_a_run() {
    let (mut run, mut trials) = stream();
    for (other, more) in [example::worker_sweep(), bulk()] {
        run.tasks.extend(other.tasks);
        trials.extend(more);
    }
    let text = terminal_of(&(run, trials), 120);
    for name in ["━━ lag ", "━━ worker-count ", "━━ pool-size "] {
        assert_eq!(text.matches(name).count(), 1, "{name}");
    }
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let (run, trials) = troubled();
    let document = Document::of(&run, &trials);
    let coloured = terminal::render(&document, 120, true);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').expect("each escape ends with m").1;
    }
    plain.push_str(rest);
    let uncoloured = terminal::render(&document, 120, false);
    // Reservations stand between asterisks for want of colour.
    let words = |text: &str| {
        text.split_whitespace().map(|w| w.trim_matches('*').to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(words(&plain), words(&uncoloured));
    assert!(coloured.contains("\u{1b}[31merror"));
}

#[test]
fn a_run_without_tasks_or_trials_still_makes_a_report() {
    let run = example::run(vec![]);
    assert!(markdown::render(&Document::of(&run, &[])).starts_with("# dmbench"));
    let (run, _) = example::worker_sweep();
    assert!(terminal_of(&(run, vec![]), 80).contains("No recommendation"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_gap_in_the_records_panics_or_widens_a_line(
        keep in prop::collection::vec(any::<bool>(), 1..97),
        outcomes in prop::collection::vec(0..5_u8, 1..9),
        width in 60..220_u16,
        level in 0..3_u8,
    ) {
        for (run, mut trials) in [example::worker_sweep(), bulk(), stream(), drive()] {
            let mut at = 0;
            for (i, trial) in trials.iter_mut().enumerate() {
                trial.metrics.retain(|_| {
                    at += 1;
                    keep[at % keep.len()]
                });
                match outcomes[i % outcomes.len()] {
                    0 => trial.outcome = Outcome::Invalid { reason: "a | b".to_owned() },
                    1 => trial.verdict = Verdict::Unchecked { reason: String::new() },
                    2 => trial.findings.push(crate::record::Finding {
                        level: [Level::Note, Level::Warning, Level::Error][usize::from(level)],
                        code: "made-up".to_owned(),
                        text: "text".to_owned(),
                        evidence: String::new(),
                        hint: String::new(),
                    }),
                    _ => {}
                }
            }
            let document = Document::of(&run, &trials);
            let text = terminal::render(&document, width, false);
            // Commands and YAML are never wrapped: they are to be copied.
            for line in text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("dmbench ")) {
                use unicode_width::UnicodeWidthStr as _;
                prop_assert!(line.width() <= usize::from(width), "{line}");
            }
            prop_assert!(markdown::render(&document).ends_with('\n'));
            let value: serde_json::Value =
                serde_json::from_str(&json::render(&run, &trials)).expect("json");
            prop_assert_eq!(&value["schema"], 1);
        }
    }
}
