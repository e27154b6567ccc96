//! Arithmetic on what was measured: no I/O, no clock, no formatting.
//!
//! A value travels with n, low, high and the method that gave them. The independent unit is the
//! trial, never the second; what is compared is compared within blocks; the pick of a sweep follows
//! the knee rule. It is *not* the place that says what a figure means (`advise`) or how it looks
//! (`report`).

pub mod estimate;
mod histogram;
pub mod knee;
pub mod outlier;
pub mod paired;
pub mod trend;

pub use estimate::{Estimate, Method};
pub use histogram::Histogram;
pub use trend::Slope;
