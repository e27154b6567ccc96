//! Private servers on loopback, started and stopped by dmbench itself.

mod settings;

pub use settings::{Durability, KNOBS, Program, Settings};
