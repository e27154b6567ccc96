//! One run of one point.

pub mod verify;
