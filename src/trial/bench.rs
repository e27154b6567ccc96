//! What the trials of a task share: the lab, and the source's input, made once and used again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::event::{Event, Events};
use crate::lab::{Lab, leftover};
use crate::mysql::{Endpoint, Position, Session, owner};
use crate::pipeline::{self, AnyPipeline, Start, Unit, builtin};
use crate::task::Task;
use crate::telemetry::Gauges;
use crate::trial::preflight::SEED_CLIENTS;
use crate::trial::replica::Replica;
use crate::trial::{Error, again};
use crate::workload::{self, Effect};

/// Longest time for a dump or a load: only a bound on a hang.
pub(super) const COPY_LIMIT: Duration = Duration::from_secs(3_600);

/// Schema of the checkpoint table on the target. Not named as DM's own: a DM may use the same target.
pub(super) const META_SCHEMA: &str = leftover::OF_RUNS[1];

/// Everything that trials of one task share.
#[derive(Debug)]
pub struct Bench {
    /// The servers.
    pub lab: Lab,
    /// Where files of trials go (dumps); removed by whoever made it.
    pub scratch: PathBuf,
    /// The dmbench program, which pipelines are started from.
    pub executable: PathBuf,
    /// Name of the run, for the owner tables.
    pub run: String,
    /// The schema that workloads write.
    pub schema: String,
    /// Where progress goes.
    pub events: Events,
    /// Where `/metrics` gets its numbers.
    pub gauges: Gauges,
    input: Option<Input>,
}

/// What the source holds now.
#[derive(Debug)]
struct Input {
    key: String,
    rows: u64,
    bytes: u64,
    dump: Option<(PathBuf, Position)>,
    range: Option<Range>,
}

/// A fixed range of the binlog that every trial replays.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub dump: PathBuf,
    pub from: Position,
    pub to: Position,
    pub effect: Effect,
    pub ops: u64,
}

impl Bench {
    /// A bench on a lab whose source holds nothing yet.
    pub fn new(
        lab: Lab,
        scratch: &Path,
        executable: &Path,
        run: &str,
        schema: &str,
        events: &Events,
        gauges: &Gauges,
    ) -> Bench {
        Bench {
            lab,
            scratch: scratch.to_owned(),
            executable: executable.to_owned(),
            run: run.to_owned(),
            schema: schema.to_owned(),
            events: events.clone(),
            gauges: gauges.clone(),
            input: None,
        }
    }

    /// Fills the source for the task, unless it is so filled already. Gives rows and bytes.
    pub(super) async fn seed(
        &mut self,
        task: &Task,
        cancel: &CancellationToken,
    ) -> Result<(u64, u64), Error> {
        let key = seed_key(task);
        if let Some(input) = &self.input
            && input.key == key
            && input.range.is_none()
        {
            return Ok((input.rows, input.bytes));
        }
        self.input = None;
        let workload = settings(task)?;
        // Each try begins with an empty schema.
        let seeded = again(cancel, async || {
            let prepared = workload::prepare(
                workload,
                &self.lab.source,
                &self.schema,
                &self.run,
                task.repeat.seed,
                SEED_CLIENTS,
                &self.events,
                cancel,
            );
            Ok(prepared.await?)
        })
        .await?;
        let (rows, bytes) = (seeded.rows, seeded.bytes);
        self.input = Some(Input { key, rows, bytes, dump: None, range: None });
        Ok((rows, bytes))
    }

    /// The source has been written to: the next trial must fill it again.
    pub(super) fn spoil(&mut self) {
        self.input = None;
    }

    /// Dumps the filled source, untimed. Gives the folder and the position it stands for.
    pub(super) async fn dump(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(PathBuf, Position), Error> {
        if let Some(Input { dump: Some(dump), .. }) = &self.input {
            return Ok(dump.clone());
        }
        let folder = self.scratch.join("input");
        again(cancel, async || {
            clear(&folder)?;
            self.copy("input", &folder, Start::Dump, Unit::Dump, cancel).await
        })
        .await?;
        let metadata = builtin::dump::Metadata::read(&folder).await;
        let position = metadata
            .map_err(|source| Error::Files {
                what: "read the metadata of",
                path: folder.clone(),
                source,
            })?
            .position;
        let dump = (folder, position);
        if let Some(input) = &mut self.input {
            input.dump = Some(dump.clone());
        }
        Ok(dump)
    }

    /// Makes the target equal to the dump, untimed and without the delay proxy.
    pub(super) async fn restore(
        &self,
        folder: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let load = async || self.copy("restore", folder, Start::Load, Unit::Load, cancel).await;
        again(cancel, load).await
    }

    /// Runs one unit of `builtin` with its defaults, untimed and without the delay proxy.
    async fn copy(
        &self,
        name: &str,
        folder: &Path,
        start: Start,
        unit: Unit,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let plain = pipeline::Settings::Builtin(builtin::Settings::default());
        let pipeline = self.pipeline(&plain, name, folder, true);
        let mut replica = Replica::start(pipeline, start, false).await?;
        match replica.unit_end(unit, COPY_LIMIT, cancel).await? {
            Some(_) => Ok(()),
            None => Err(Error::TooLate {
                what: if unit == Unit::Dump { "the dump's end" } else { "the load's end" },
                seconds: COPY_LIMIT.as_secs_f64(),
            }),
        }
    }

    /// Makes the range of the binlog that a backlog trial replays, unless it is there already.
    pub(super) async fn range(
        &mut self,
        task: &Task,
        cancel: &CancellationToken,
    ) -> Result<Range, Error> {
        let key = range_key(task);
        if let Some(Input { key: known, range: Some(range), .. }) = &self.input
            && *known == key
        {
            return Ok(range.clone());
        }
        self.input = None;
        self.seed(task, cancel).await?;
        let (dump, from) = self.dump(cancel).await?;
        let ops = task.phases.ops.ok_or_else(|| Error::Unfit {
            model: "backlog",
            why: "the task says no phases.ops".to_owned(),
        })?;
        // From here on the source is not as it was filled, whatever becomes of the ops.
        let input = self.input.take();
        self.events.send(Event::Preparing {
            what: format!("committing {ops} ops on the source, to be replayed by every trial"),
        });
        let plan = workload::DrivePlan {
            settings: settings(task)?.clone(),
            pace: task.pace.clone(),
            schema: self.schema.clone(),
            seed: task.repeat.seed,
            stop: workload::Stop { time: None, ops: Some(ops) },
            warm: Duration::ZERO,
        };
        let counters = std::sync::Arc::new(workload::Counters::default());
        let driven =
            workload::drive(&plan, &self.lab.source, &counters, &self.events, cancel).await?;
        if driven.interrupted {
            return Err(Error::Interrupted);
        }
        if driven.committed_ops != ops {
            return Err(Error::Unfit {
                model: "backlog",
                why: format!(
                    "{} of {ops} ops were committed, {} failed, {} of unknown fate",
                    driven.committed_ops,
                    driven.failed_ops(),
                    driven.unknown_ops
                ),
            });
        }
        let to = self.source_position(cancel).await?;
        let range = Range { dump, from, to, effect: driven.effect, ops };
        self.input = input.map(|input| Input { key, range: Some(range.clone()), ..input });
        Ok(range)
    }

    /// A pipeline of the given settings; `direct` leaves out the delay proxies.
    pub(super) fn pipeline(
        &self,
        settings: &pipeline::Settings,
        name: &str,
        folder: &Path,
        direct: bool,
    ) -> AnyPipeline {
        // Own servers have no proxy, but perhaps another address for the pipeline.
        let (source, target) = if direct && !self.lab.is_own() {
            (&self.lab.source, &self.lab.target)
        } else {
            (&self.lab.source_for_pipeline, &self.lab.target_for_pipeline)
        };
        let context = pipeline::Context {
            name: name.to_owned(),
            source: source.clone(),
            target: target.clone(),
            schemas: vec![self.schema.clone()],
            meta_schema: META_SCHEMA.to_owned(),
            folder: folder.to_owned(),
            executable: self.executable.clone(),
            run: self.run.clone(),
            server_id: server_id(&self.run),
        };
        AnyPipeline::new(settings, context)
    }

    /// Removes what trials leave on the target, so that the next one starts from nothing.
    pub(super) async fn clear_target(&self, cancel: &CancellationToken) -> Result<(), Error> {
        again(cancel, async || {
            let mut session = Session::connect(&self.lab.target).await?;
            owner::drop_if_ours(&mut session, &self.schema).await?;
            owner::drop_if_ours(&mut session, META_SCHEMA).await?;
            session.close().await;
            Ok(())
        })
        .await
    }

    /// Where the source stands.
    pub(super) async fn source_position(
        &self,
        cancel: &CancellationToken,
    ) -> Result<Position, Error> {
        again(cancel, async || {
            let mut session = Session::connect(&self.lab.source).await?;
            let position = session.binlog_position().await?;
            session.close().await;
            Ok(position)
        })
        .await
    }

    /// Both ends as probes reach them.
    pub(super) fn ends(&self) -> (&Endpoint, &Endpoint) {
        (&self.lab.source, &self.lab.target)
    }
}

/// The task's workload.
pub(super) fn settings(task: &Task) -> Result<&workload::Settings, Error> {
    task.workload.as_ref().ok_or_else(|| Error::Unfit {
        model: "without a workload",
        why: "the task has no [workload]".to_owned(),
    })
}

/// What decides how the source is filled: the tables, not the script.
fn seed_key(task: &Task) -> String {
    let tables = match &task.workload {
        Some(workload::Settings::Sysbench(s)) => {
            format!("{} {} {:?}", s.tables, s.table_size, s.rand_type)
        }
        None => String::new(),
    };
    format!("seed {} {tables}", task.repeat.seed)
}

/// What decides which range is committed.
fn range_key(task: &Task) -> String {
    format!("{} {:?} {:?} {:?}", seed_key(task), task.workload, task.pace, task.phases.ops)
}

/// Empties a folder.
pub(super) fn clear(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::Files { what: "remove", path: folder.to_owned(), source });
        }
        _ => {}
    }
    std::fs::create_dir_all(folder).map_err(|source| Error::Files {
        what: "make",
        path: folder.to_owned(),
        source,
    })
}

/// A server id for the binlog stream that other readers of the source will hardly have: from the
/// upper half of the range, by the run's name.
pub(super) fn server_id(run: &str) -> u32 {
    let hash =
        run.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash | 0x8000_0000
}
