//! What a task may say about its sandbox.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::{Cost, Knob};

/// A server program that a sandbox can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// Oracle's `mysqld`.
    Mysql,
    /// `mariadbd`.
    Mariadb,
    /// `tidb-server`; as target only.
    Tidb,
}

/// What survives a crash of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Every commit: `sync_binlog=1`, `innodb_flush_log_at_trx_commit=1`.
    Full,
    /// About a second may be lost: `sync_binlog=0`, `innodb_flush_log_at_trx_commit=2`.
    Relaxed,
}

/// The `[sandbox]` part of a task: what the private servers and the network to them are like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Program of the source; the best one found where not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Program>,
    /// Program of the target; the best one found where not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Program>,
    /// Round-trip time added between the pipeline and the target; 0 for a direct connection.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub target_round_trip: Duration,
    /// Round-trip time added between the pipeline and the source; 0 for a direct connection.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub source_round_trip: Duration,
    /// Time added to each commit on a MySQL or MariaDB target, to stand in for TiDB's commit.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub target_commit_delay: Duration,
    /// Most MB per second each way between the pipeline and the target; unlimited where not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_bandwidth: Option<u32>,
    /// What survives a crash, on both ends.
    pub durability: Durability,
    /// InnoDB buffer pool of each server, in MiB.
    pub buffer_pool: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            source: None,
            target: None,
            target_round_trip: Duration::ZERO,
            source_round_trip: Duration::ZERO,
            target_commit_delay: Duration::ZERO,
            target_bandwidth: None,
            durability: Durability::Full,
            buffer_pool: 512,
        }
    }
}

/// What a task may vary. Only the network can change between trials of one sandbox; a change of
/// anything else starts new servers.
pub const KNOBS: [Knob; 8] = [
    Knob::new("sandbox.source", "", "", None, Cost::None, "program of the source"),
    Knob::new("sandbox.target", "", "", None, Cost::None, "program of the target"),
    Knob::new(
        "sandbox.target-round-trip",
        "ms",
        "0",
        None,
        Cost::None,
        "round trip added between pipeline and target",
    ),
    Knob::new(
        "sandbox.source-round-trip",
        "ms",
        "0",
        None,
        Cost::None,
        "round trip added between pipeline and source",
    ),
    Knob::new(
        "sandbox.target-commit-delay",
        "ms",
        "0",
        None,
        Cost::None,
        "time added to each commit on the target",
    ),
    Knob::new(
        "sandbox.target-bandwidth",
        "MB/s",
        "",
        None,
        Cost::None,
        "most MB per second each way between pipeline and target",
    ),
    Knob::new("sandbox.durability", "", "full", None, Cost::None, "what survives a crash"),
    Knob::new("sandbox.buffer-pool", "MiB", "512", None, Cost::None, "buffer pool of each server"),
];
