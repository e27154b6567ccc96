//! The process around the units, seen from both sides.
//!
//! The system under test has a process of its own, so that generator and probes cannot slow it
//! unseen, its CPU and memory can be told, and it can be killed. [`run_child`] is the inside,
//! [`Child`] the parent's hold on it. The child ends when its standard input does.

mod inside;
mod parent;
mod units;
mod wire;

pub use inside::run_child;
pub use parent::Child;
pub use wire::Order;
