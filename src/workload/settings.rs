//! What a task may say about its workload and its pace.

use serde::{Deserialize, Serialize};

use crate::record::{Cost, Knob};

/// A sysbench script by its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Script {
    /// One SELECT by primary key.
    OltpPointSelect,
    /// One INSERT.
    OltpInsert,
    /// One UPDATE of the indexed column.
    OltpUpdateIndex,
    /// One transaction of two UPDATEs, a DELETE and an INSERT of the same id.
    OltpWriteOnly,
}

impl Script {
    /// How many rows each op changes.
    pub fn row_changes(self) -> u64 {
        match self {
            Script::OltpPointSelect => 0,
            Script::OltpInsert | Script::OltpUpdateIndex => 1,
            Script::OltpWriteOnly => 4,
        }
    }
}

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RandType {
    /// Every key alike.
    Uniform,
    /// Zipf's law with exponent 0.8, hot keys scattered over the range.
    Zipfian,
}

/// The `[workload]` part of a task. Names are sysbench's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Settings {
    /// sysbench's tables and scripts.
    Sysbench(Sysbench),
}

impl Settings {
    /// How many rows each op changes.
    pub fn row_changes_per_op(&self) -> u64 {
        let Settings::Sysbench(sysbench) = self;
        sysbench.script.row_changes()
    }
}

/// sysbench's tables and scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sysbench {
    /// Which script runs.
    #[serde(default = "Sysbench::default_script")]
    pub script: Script,
    /// Number of tables.
    #[serde(default = "Sysbench::default_tables")]
    pub tables: u32,
    /// Rows in each table at the start.
    #[serde(default = "Sysbench::default_table_size")]
    pub table_size: u64,
    /// How keys are chosen.
    #[serde(default = "Sysbench::default_rand_type")]
    pub rand_type: RandType,
}

impl Sysbench {
    fn default_script() -> Script {
        Script::OltpInsert
    }

    fn default_tables() -> u32 {
        4
    }

    fn default_table_size() -> u64 {
        50_000
    }

    fn default_rand_type() -> RandType {
        RandType::Uniform
    }
}

/// When ops are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaceKind {
    /// The next op of a client is due when its last one has ended.
    Closed,
    /// Ops are due at equal distances.
    Uniform,
    /// Ops are due at exponentially distributed distances.
    Poisson,
}

/// The `[pace]` part of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PaceSettings {
    /// When ops are due.
    pub kind: PaceKind,
    /// Ops per second of all clients together; for `uniform` and `poisson` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Connections.
    #[serde(default = "PaceSettings::default_clients")]
    pub clients: u32,
}

impl PaceSettings {
    fn default_clients() -> u32 {
        16
    }
}

impl Default for PaceSettings {
    fn default() -> Self {
        PaceSettings { kind: PaceKind::Closed, rate: None, clients: Self::default_clients() }
    }
}

/// What a task may vary of workload and pace.
pub const KNOBS: [Knob; 7] = [
    Knob::new("workload.script", "", "oltp_insert", None, Cost::None, "sysbench script"),
    Knob::new("workload.tables", "tables", "4", None, Cost::None, "number of tables"),
    Knob::new("workload.table-size", "rows", "50000", None, Cost::None, "rows in each table"),
    Knob::new("workload.rand-type", "", "uniform", None, Cost::None, "how keys are chosen"),
    Knob::new("pace.kind", "", "closed", None, Cost::None, "when ops are due"),
    Knob::new("pace.rate", "ops/s", "", None, Cost::None, "ops due per second"),
    Knob::new("pace.clients", "connections", "16", None, Cost::Rising, "client connections"),
];
