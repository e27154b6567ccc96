//! What is under test: a way of getting what is written on the source to the target.
//!
//! `builtin` is our DM-like pipeline in a process of its own, `idle` does nothing and measures the
//! generator and the probes themselves. A pipeline knows nothing of workloads, probes or trials.

mod any;
pub mod builtin;
mod error;
mod idle;
mod progress;
mod settings;

pub use any::{AnyPipeline, Context, How, Start};
pub use error::Error;
pub use idle::Idle;
pub use progress::{Progress, Retries, Stage, State, Unit, UnitEvent};
pub use settings::Settings;
