//! What is kept: the records of runs and trials, and the store that reads and writes them.
//!
//! Every report, finding and recommendation is made from these types alone. Every JSON file begins
//! with `"schema": 1`. Nothing here measures or decides.

mod clock;
#[cfg(test)]
pub(crate) mod example;
mod knob;
mod metric;
mod outcome;
mod run;
pub mod store;
mod trial;

pub use clock::resolution_us;
pub use knob::{Cost, Knob};
pub use metric::{Better, Metric, Value, name};
pub use outcome::{Finding, Level, Outcome, Verdict};
pub use run::{LabFacts, Limits, Machine, Run, ServerFacts, TaskFacts};
pub use store::Store;
pub use trial::{Model, Phase, PhaseSpan, Point, Replayed, Trial, trial_label};

/// Version of the JSON files that this build writes.
pub const SCHEMA: u32 = 1;
