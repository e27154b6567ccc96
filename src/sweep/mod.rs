//! Many trials: all blocks of one task or several, into one run's folder.
//!
//! A sweep starts the sandbox, keeps the order of the plan, writes one record per finished trial, and
//! can go on where it was stopped. It decides nothing about what the results mean.

mod exit;
mod plan;
mod resume;
mod servers;

use std::hash::Hasher as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use exit::exit;
pub use plan::seats;
pub use servers::fits_own_servers;

use crate::error::ErrorClass;
use crate::event::{Event, Events};
use crate::lab::{self, Lab, facts, leftover};
use crate::record::{Outcome, Run, SCHEMA, Store, Trial, store};
use crate::task::{self, Task};
use crate::telemetry::Gauges;
use crate::trial::Seat;
use crate::trial::preflight::{self, Check, Plan};
use servers::Servers;

/// The schema that workloads write on both ends.
pub const SCHEMA_NAME: &str = leftover::OF_RUNS[0];

/// A failure of a sweep as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run's folder could not be written or read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The sandbox could not be started or stopped.
    #[error(transparent)]
    Lab(#[from] lab::Error),
    /// A point does not make a valid task.
    #[error(transparent)]
    Task(#[from] task::Error),
    /// The servers could not be looked at.
    #[error(transparent)]
    Preflight(#[from] preflight::Error),
    /// The servers are not fit for a task.
    #[error("begin task {task}: {}", in_short(checks))]
    Unfit {
        /// Task.
        task: String,
        /// What the servers failed.
        checks: Vec<Check>,
    },
    /// A task varies what only private servers have.
    #[error("run task {task} on own servers: it varies {key}, which only private servers have")]
    Emulates {
        /// Task.
        task: String,
        /// The knob.
        key: String,
    },
    /// A run cannot be resumed as it is.
    #[error("resume {folder}: {why}")]
    Resume {
        /// The run's folder.
        folder: PathBuf,
        /// What changed.
        why: String,
    },
    /// The dmbench program could not be read.
    #[error("read the program {path}: {source}")]
    Program {
        /// The program.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Store(error) => error.class(),
            Error::Lab(error) => error.class(),
            Error::Task(error) => error.class(),
            Error::Preflight(error) => error.class(),
            Error::Unfit { .. } => ErrorClass::Lab,
            Error::Resume { .. } | Error::Emulates { .. } => ErrorClass::User,
            Error::Program { .. } => ErrorClass::Bug,
        }
    }
}

/// How a sweep is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The run's folder; its last part is the run's name.
    pub folder: PathBuf,
    /// The dmbench program itself, for guards and pipelines.
    pub executable: PathBuf,
    /// The command line, without secrets.
    pub command: Vec<String>,
    /// Where `/metrics` gets its numbers.
    pub gauges: Gauges,
    /// The user's own servers; without them each task gets a sandbox.
    pub lab: Option<Lab>,
}

/// A run while its tasks are executed.
#[derive(Debug)]
pub struct Sweep {
    store: Store,
    run: Run,
    trials: Vec<Trial>,
    options: Options,
    servers: Option<Servers>,
    events: Events,
    resumed: bool,
    /// Whether it is yet open if the run may be resumed: nothing is written until that is known.
    is_doubtful: bool,
}

/// A finished run.
#[derive(Debug)]
pub struct Ran {
    /// Its record.
    pub run: Run,
    /// Its trials.
    pub trials: Vec<Trial>,
    /// Its folder.
    pub store: Store,
}

impl Sweep {
    /// A new run in a new folder.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn begin(options: Options, events: &Events) -> Result<Sweep, Error> {
        let store = Store::create(&options.folder)?;
        let run = Run {
            schema: SCHEMA,
            id: name_of(&options.folder),
            began: Timestamp::now(),
            ended: None,
            interrupted: false,
            dmbench: env!("CARGO_PKG_VERSION").to_owned(),
            binary_hash: program_hash(&options.executable)?,
            command: options.command.clone(),
            machine: facts::machine(&options.folder),
            tasks: Vec::new(),
        };
        store.save_run(&run)?;
        Ok(Sweep {
            store,
            run,
            trials: Vec::new(),
            options,
            servers: None,
            events: events.clone(),
            resumed: false,
            is_doubtful: false,
        })
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        self.store.folder()
    }

    /// What is known so far, for advice between tasks.
    pub fn so_far(&self) -> (&Run, &[Trial]) {
        (&self.run, &self.trials)
    }

    /// Runs all trials of a task. Ends early, in good order, when cancelled.
    ///
    /// # Errors
    /// When the sandbox cannot be had, or records cannot be written. A trial that fails is no error
    /// here: it has a record that says so.
    pub async fn run_task(&mut self, task: &Task, cancel: &CancellationToken) -> Result<(), Error> {
        self.enlist(task)?;
        let of = task.points().len() as u32 * task.repeat.blocks;
        let seats: Vec<Seat> = self.missing(task).collect();
        let mut is_noted = false;
        for seat in &seats {
            if cancel.is_cancelled() {
                break;
            }
            let at_point = task.at(&seat.point)?;
            let started = self.provide(&at_point, cancel).await?;
            // Servers do not change while they run: they are asked once a task and start.
            if started || !is_noted {
                self.look_ahead(task, cancel).await?;
                self.note_lab(&task.name).await?;
                is_noted = true;
            }
            self.reach(cancel).await?;
            self.run_trial(&at_point, seat, of, cancel).await?;
        }
        self.store.save_run(&self.run)?;
        Ok(())
    }

    /// Stops the servers and completes the run's record.
    ///
    /// # Errors
    /// When servers do not stop or the record cannot be written.
    pub async fn finish(mut self, cancel: &CancellationToken) -> Result<Ran, Error> {
        let stopped = self.release().await;
        self.run.ended = Some(Timestamp::now());
        self.run.interrupted = cancel.is_cancelled();
        if !self.is_doubtful || self.run.interrupted {
            self.store.save_run(&self.run)?;
        }
        stopped?;
        self.trials.sort_by(|a, b| (&a.task, a.order).cmp(&(&b.task, b.order)));
        Ok(Ran { run: self.run, trials: self.trials, store: self.store })
    }

    /// Makes sure that both servers answer, so that trials are not spent on a lab that is gone.
    async fn reach(&self, cancel: &CancellationToken) -> Result<(), Error> {
        let Some(Servers { bench, .. }) = &self.servers else { return Ok(()) };
        tokio::select! {
            reached = bench.lab.reach() => Ok(reached?),
            () = cancel.cancelled() => Ok(()),
        }
    }

    async fn run_trial(
        &mut self,
        task: &Task,
        seat: &Seat,
        of: u32,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let Some(servers) = &mut self.servers else { return Ok(()) };
        let label = label(seat);
        self.options.gauges.begin_trial(seat.order, of);
        self.events.send(Event::TrialBegan { label: label.clone(), number: seat.order, of });
        let samples = self.store.samples_path(&label);
        let mut trial = servers.run(task, seat, samples, cancel).await;
        let held = servers.check();
        if let Err(error) = &held {
            trial.outcome = Outcome::Aborted { reason: format!("failed to {error}") };
        }
        self.store.save_trial(&trial)?;
        self.events.send(Event::TrialEnded {
            label,
            outcome: trial.outcome.clone(),
            verdict: trial.verdict.clone(),
            figure: figure(&trial),
        });
        self.trials.push(trial);
        held
    }

    /// Notes the task in the run's record, or checks that it is the one noted.
    fn enlist(&mut self, task: &Task) -> Result<(), Error> {
        self.accepts(task)?;
        if self.run.tasks.iter().any(|known| known.name == task.name) {
            return Ok(());
        }
        if self.options.lab.is_some() && task.sandbox != lab::sandbox::Settings::default() {
            let text = format!("[sandbox] of task {} is left aside on own servers", task.name);
            self.events.send(Event::Remark { text });
        }
        self.run.tasks.push(task.facts());
        self.store.save_run(&self.run)?;
        Ok(())
    }

    /// Provides servers for a task at a point: those that run, when only the network differs. Says
    /// whether they are new.
    async fn provide(&mut self, task: &Task, cancel: &CancellationToken) -> Result<bool, Error> {
        if self.servers.as_ref().is_some_and(|servers| !servers.are_alive()) {
            let text = "a server of the sandbox has ended: both are started again".to_owned();
            self.events.send(Event::Remark { text });
            self.release().await?;
        }
        let fit = self.servers.as_ref().is_some_and(|servers| servers.fit(&task.sandbox));
        if !fit {
            self.release().await?;
            let (folder, run) = (self.store.folder(), &self.run.id);
            let servers =
                Servers::have(&self.options, folder, run, &task.sandbox, &self.events, cancel);
            self.servers = Some(servers.await?);
        }
        if let Some(servers) = &mut self.servers {
            servers.adapt(&task.sandbox).await?;
        }
        Ok(!fit)
    }

    /// Checks the servers before anything is written to them for a task. What is worth a word goes to
    /// the log and into the run's record.
    async fn look_ahead(&mut self, task: &Task, cancel: &CancellationToken) -> Result<(), Error> {
        let Some(Servers { bench, .. }) = &self.servers else { return Ok(()) };
        let plan =
            Plan::of(std::slice::from_ref(task), &bench.schema, &bench.scratch, &self.run.id)?;
        let (source, target) = (&bench.lab.source, &bench.lab.target);
        let mut checks = match preflight::inspect(source, target, &plan, cancel).await {
            Err(preflight::Error::Interrupted) => return Ok(()),
            checks => checks?,
        };
        checks.retain(|check| check.level > preflight::Level::Pass);
        let findings = checks.iter().map(Check::finding).collect();
        for check in checks.iter().filter(|check| check.level == preflight::Level::Warn) {
            tracing::warn!("{check}");
        }
        if let Some(known) = self.run.tasks.iter_mut().find(|known| known.name == task.name) {
            known.findings = findings;
        }
        checks.retain(|check| check.level == preflight::Level::Fail);
        if checks.is_empty() {
            return Ok(());
        }
        self.store.save_run(&self.run)?;
        Err(Error::Unfit { task: task.name.clone(), checks })
    }

    /// Notes what the servers are in the run's record of a task, or checks on resuming that they are
    /// those noted.
    async fn note_lab(&mut self, task: &str) -> Result<(), Error> {
        if let Some(facts) = self.compare_lab(task).await?
            && let Some(known) = self.run.tasks.iter_mut().find(|known| known.name == task)
        {
            known.lab.get_or_insert(facts);
        }
        self.store.save_run(&self.run)?;
        Ok(())
    }

    async fn release(&mut self) -> Result<(), Error> {
        match self.servers.take() {
            Some(servers) => servers.release(!self.is_doubtful).await,
            None => Ok(()),
        }
    }
}

/// What the servers failed, in one line.
fn in_short(checks: &[Check]) -> String {
    let first = checks.first().map_or_else(String::new, |check| check.finding().text);
    match checks.len() {
        0 | 1 => first,
        more => format!("{first}, and {} more checks fail", more - 1),
    }
}

fn label(seat: &Seat) -> String {
    crate::record::trial_label(&seat.task, seat.order, seat.block, &seat.point)
}

/// The one figure to show when a trial ends.
fn figure(trial: &Trial) -> String {
    match &trial.outcome {
        Outcome::Finished { rate, dimension } | Outcome::Saturated { rate, dimension } => {
            format!("{rate:.0} {dimension}")
        }
        Outcome::Sustained { rate } => format!("{rate:.0} ops/s"),
        Outcome::Bounded { reason }
        | Outcome::GeneratorBound { reason }
        | Outcome::Aborted { reason }
        | Outcome::Invalid { reason } => reason.clone(),
    }
}

fn name_of(folder: &Path) -> String {
    folder.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A hash of the program, to be compared by the same program only.
fn program_hash(path: &Path) -> Result<String, Error> {
    let bytes =
        std::fs::read(path).map_err(|source| Error::Program { path: path.to_owned(), source })?;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&bytes);
    Ok(format!("{:016x}", hasher.finish()))
}
