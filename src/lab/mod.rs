//! Where a trial runs: the private servers of a sandbox.

pub mod sandbox;
