//! dmbench answers questions about replicating MySQL to TiDB with numbers one can defend.

pub mod advise;
pub mod cli;
pub mod error;
pub mod event;
pub mod lab;
pub mod mysql;
pub mod pipeline;
pub mod probe;
pub mod record;
pub mod report;
pub mod stats;
pub mod sweep;
pub mod task;
pub mod telemetry;
pub mod trial;
pub mod workload;
