//! What tasks will ask of the servers, as far as it is known before anything runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pipeline;
use crate::record::Model;
use crate::task::{self, Task, estimate};
use crate::trial::bench::{META_SCHEMA, server_id};
use crate::workload;

/// Connections beside clients, workers and dump threads: probes, markers, the binlog reader, the
/// checkpoint, locks, and the three that verification opens.
const RESERVE: u64 = 8;
/// Connections that fill the source.
pub(in crate::trial) const SEED_CLIENTS: u32 = 16;
/// Bytes of SQL text of a row of sysbench's tables: id, k, 119 and 59 characters, punctuation.
const SYSBENCH_ROW: u64 = 210;
/// Bytes of the longest statement that fills the source, with room.
const SEED_STATEMENT: u64 = 1024 * 1024;

/// What tasks need of a lab. The greatest need of all points counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Schema that the workload writes on the source and the pipeline on the target.
    pub schema: String,
    /// Schema of the checkpoint table on the target.
    pub meta_schema: String,
    /// Whether rows are copied to the target: all models but `drive`.
    pub copies: bool,
    /// Whether the binlog is read: `stream` and `backlog`.
    pub reads_binlog: bool,
    /// Most connections to the source at a time.
    pub source_connections: u64,
    /// Most connections to the target at a time.
    pub target_connections: u64,
    /// How long what is written to the binlog is needed there.
    pub keeps_binlog: Duration,
    /// Bytes of the dumps that lie in the scratch folder at a time.
    pub dump_bytes: u64,
    /// Bytes of the longest statement sent to the source.
    pub source_statement: u64,
    /// Bytes of the longest statement sent to the target.
    pub target_statement: u64,
    /// Folder of dumps.
    pub scratch: PathBuf,
    /// The id under which sync registers as a replica.
    pub server_id: u32,
}

impl Plan {
    /// The plan of tasks that write `schema` and keep dumps under `scratch`. `run` is the run's name,
    /// which decides the replica's id.
    ///
    /// # Errors
    /// When a point of a task is no task, which a loaded task cannot have.
    pub fn of(
        tasks: &[Task],
        schema: &str,
        scratch: &Path,
        run: &str,
    ) -> Result<Plan, task::Error> {
        let mut plan = Plan {
            schema: schema.to_owned(),
            meta_schema: META_SCHEMA.to_owned(),
            copies: false,
            reads_binlog: false,
            source_connections: 0,
            target_connections: 0,
            keeps_binlog: Duration::ZERO,
            dump_bytes: 0,
            source_statement: SEED_STATEMENT,
            target_statement: 0,
            scratch: scratch.to_owned(),
            server_id: server_id(run),
        };
        for task in tasks {
            let expected = estimate::estimate(task)?;
            let needed = match task.model {
                // All its trials replay one range; others begin where the source then stands.
                Model::Backlog => expected.total,
                _ => expected.trials.iter().max().copied().unwrap_or_default(),
            };
            plan.keeps_binlog = plan.keeps_binlog.max(needed);
            for point in task.points() {
                plan.add(&task.at(&point)?);
            }
        }
        Ok(plan)
    }

    /// Raises every need to that of a task without knobs.
    fn add(&mut self, task: &Task) {
        // Every copy that is not timed is made with the defaults.
        let plain = pipeline::builtin::Settings::default();
        let (settings, syncs) = match &task.pipeline {
            pipeline::Settings::Builtin(settings) => {
                (settings.clone(), task.model != Model::Bulk && task.model != Model::Drive)
            }
            pipeline::Settings::Idle {} => (plain.clone(), false),
        };
        let copies = task.model != Model::Drive;
        let clients = match task.model {
            Model::Bulk => 0,
            _ => task.pace.clients,
        };
        let threads = if copies { settings.dump.threads.max(plain.dump.threads) } else { 0 };
        let source = u64::from(clients.max(SEED_CLIENTS).max(threads)) + RESERVE;
        let workers = settings.load.pool_size.max(plain.load.pool_size);
        let workers = if syncs { workers.max(settings.sync.worker_count) } else { workers };
        let target = if copies { u64::from(workers) + RESERVE } else { RESERVE };
        let Some(workload::Settings::Sysbench(sysbench)) = &task.workload else { return };
        let bytes = u64::from(sysbench.tables) * sysbench.table_size * SYSBENCH_ROW;
        self.copies |= copies;
        self.reads_binlog |= syncs;
        self.source_connections = self.source_connections.max(source);
        self.target_connections = self.target_connections.max(target);
        if copies {
            // A bulk trial's own dump may lie beside the one that other trials start from.
            self.dump_bytes = self.dump_bytes.max(2 * bytes);
            let statement = settings.dump.statement_size.max(plain.dump.statement_size);
            self.target_statement = self.target_statement.max(statement + SYSBENCH_ROW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, overrides: &[&str]) -> Plan {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let task = Task::parse(Path::new("t.toml"), text, &overrides).expect("a task");
        Plan::of(&[task], "dmbench", Path::new("out"), "a run").expect("a plan")
    }

    #[test]
    fn the_greatest_need_of_all_points_counts() {
        let lag = task::demo::LAG;
        let few = plan(lag, &["pace.clients=2", "sync.worker-count=2"]);
        assert_eq!((few.source_connections, few.target_connections), (24, 24), "seeding, loading");
        let many = plan(lag, &["pace.clients=[2, 90]", "sync.worker-count=[64, 2]"]);
        assert_eq!((many.source_connections, many.target_connections), (98, 72));
        assert!(many.copies && many.reads_binlog);
        assert_eq!(many.dump_bytes, 2 * 4 * 50_000 * 210);
        let import = plan(task::demo::IMPORT, &["dump.statement-size=3000000"]);
        assert!(import.copies && !import.reads_binlog);
        assert_eq!(import.target_statement, 3_000_210);
    }

    #[test]
    fn the_binlog_is_needed_for_a_trial_or_for_a_whole_backlog() {
        let lag = |blocks: &str| plan(task::demo::LAG, &[blocks]).keeps_binlog;
        assert_eq!(lag("repeat.blocks=1"), lag("repeat.blocks=9"));
        let backlog = |blocks: &str| plan(task::demo::WORKER_COUNT, &[blocks]).keeps_binlog;
        assert!(backlog("repeat.blocks=9") > 4 * backlog("repeat.blocks=1") / 2);
    }
}
