//! Records that an earlier build wrote stay readable.

use std::path::Path;

use dmbench::advise;
use dmbench::record::{Model, Store};
use dmbench::report::{self, Document};

#[test]
fn records_of_schema_1_still_make_a_report() {
    let store = Store::open(Path::new("fixtures/records/schema-1"));
    let run = store.run().expect("run.json is understood");
    let trials = store.trials().expect("every trial is understood");
    let planned: usize = run.tasks.iter().map(|t| t.points.len() * t.blocks as usize).sum();
    assert_eq!(trials.len(), planned, "no trial is lost");
    assert!(trials.iter().all(|trial| trial.counts()), "all were verified equal when recorded");

    let advice = advise::advise(&run, &trials);
    let sweep = advice.iter().find(|a| a.model == Model::Backlog).expect("the sweep is there");
    let pick = sweep.pick.as_ref().expect("a sweep of equal trials has a pick");
    assert!(!pick.settled, "one block settles nothing");

    let document = Document::of(&run, &trials);
    for text in [
        report::terminal::render(&document, 100, false),
        report::markdown::render(&document),
        report::json::render(&run, &trials),
    ] {
        assert!(text.contains(&run.id) && text.contains("equal"));
    }
}
