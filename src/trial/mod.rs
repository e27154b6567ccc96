//! One run of one point.
