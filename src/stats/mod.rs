//! Arithmetic on what was measured: no I/O, no clock, no formatting.

mod histogram;

pub use histogram::Histogram;
