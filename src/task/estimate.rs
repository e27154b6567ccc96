//! How long a task will take, before anything has run.
//!
//! An estimate from constants of one small machine (2 cores, servers and dmbench beside each other):
//! good enough to tell a minute from an hour. It is not a prediction of what a trial will measure,
//! and no figure of it enters a record.

use std::time::Duration;

use crate::record::Model;
use crate::task::{Error, Task};
use crate::{pipeline, workload};

/// Of what the estimate is, for people.
pub const BASIS: &str = "estimated from typical rates of a 2-core machine with full durability, \
                         not measured here: seeding, committing, waiting, verifying";

/// Rows per second that parallel seeding writes.
const SEED_ROWS: f64 = 45_000.0;
/// Rows per second of a dump.
const DUMP_ROWS: f64 = 250_000.0;
/// Rows per second of a load on a quiet network.
const LOAD_ROWS: f64 = 40_000.0;
/// Ops per second of 16 closed clients.
const CLOSED_OPS: f64 = 2_500.0;
/// Row changes per second of one sync worker without added round trip, and of all together.
const WORKER_ROWS: f64 = 3_000.0;
const SYNC_ROWS: f64 = 12_000.0;
/// Rows per second that verification reads on both ends.
const VERIFY_ROWS: f64 = 200_000.0;
/// Start of a pair of servers.
const SERVERS: Duration = Duration::from_secs(12);
/// Making and dropping schemas, starting the pipeline, settling.
const OVERHEAD: f64 = 2.5;

/// Expected lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Starting servers and making what all trials share.
    pub before: Duration,
    /// A trial of each point, in the order of [`Task::points`].
    pub trials: Vec<Duration>,
    /// Everything: all trials of all blocks with what comes before.
    pub total: Duration,
}

/// Estimates a task.
///
/// # Errors
/// When a point of it is no task, which a loaded task cannot have.
pub fn estimate(task: &Task) -> Result<Estimate, Error> {
    let mut trials = Vec::new();
    let mut before = SERVERS;
    for point in task.points() {
        let at = task.at(&point)?;
        trials.push(Duration::from_secs_f64(trial(&at)));
        before = before.max(SERVERS + Duration::from_secs_f64(shared(&at)));
    }
    let one_block: Duration = trials.iter().sum();
    let total = before + one_block * task.repeat.blocks;
    Ok(Estimate { before, trials, total })
}

fn rows(task: &Task) -> f64 {
    match &task.workload {
        Some(workload::Settings::Sysbench(s)) => f64::from(s.tables) * s.table_size as f64,
        None => 0.0,
    }
}

fn changes_per_op(task: &Task) -> f64 {
    task.workload.as_ref().map_or(0.0, |workload| workload.row_changes_per_op() as f64)
}

fn ops_per_sec(task: &Task) -> f64 {
    let closed = CLOSED_OPS * (f64::from(task.pace.clients) / 16.0).min(1.0);
    task.pace.rate.unwrap_or(closed).min(CLOSED_OPS * 2.0)
}

/// Seconds of work that is done once for all trials: the backlog's range with its dump.
fn shared(task: &Task) -> f64 {
    match (task.model, task.phases.ops) {
        (Model::Backlog, Some(ops)) => {
            rows(task) / SEED_ROWS + rows(task) / DUMP_ROWS + ops as f64 / ops_per_sec(task)
        }
        _ => 0.0,
    }
}

/// Seconds of one trial.
fn trial(task: &Task) -> f64 {
    let rows = rows(task);
    let verify = |more: f64| (rows + more) / VERIFY_ROWS;
    let fixed = (task.phases.warm + task.phases.measure).as_secs_f64();
    let copy = rows / DUMP_ROWS + rows / LOAD_ROWS;
    let work = match task.model {
        Model::Bulk => rows / SEED_ROWS + copy + verify(0.0),
        Model::Backlog => {
            let changes = task.phases.ops.unwrap_or(0) as f64 * changes_per_op(task);
            let replay = (changes / sync_rate(task)).min(task.phases.drain_limit.as_secs_f64());
            rows / LOAD_ROWS + replay + verify(changes)
        }
        Model::Stream | Model::Sustain => {
            let changes = fixed * ops_per_sec(task) * changes_per_op(task);
            rows / SEED_ROWS + copy + fixed + verify(changes) + 2.0
        }
        Model::Drive => {
            let timed = match task.phases.ops {
                Some(ops) => fixed.min(ops as f64 / ops_per_sec(task)),
                None => fixed,
            };
            rows / SEED_ROWS + timed
        }
    };
    OVERHEAD + work
}

/// Row changes per second that sync should reach: workers times one worker's rate, which a round
/// trip per transaction lowers, up to what the machine can do.
fn sync_rate(task: &Task) -> f64 {
    let pipeline::Settings::Builtin(builtin) = &task.pipeline else { return SYNC_ROWS };
    let sync = &builtin.sync;
    // A worker waits for a round trip per statement and the commit.
    let wait = task.sandbox.target_round_trip + task.sandbox.target_commit_delay;
    let per_row = 1.0 / WORKER_ROWS + wait.as_secs_f64();
    (f64::from(sync.worker_count) / per_row).min(SYNC_ROWS)
}
