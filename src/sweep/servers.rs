//! The servers of a run: a sandbox started for it, or the user's own, held by a lock.
//!
//! Of the user's own servers nothing is changed but the schemas that dmbench makes, which are dropped
//! again when the run ends in good order.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::event::Events;
use crate::lab::sandbox::{self, Needs, Sandbox, Settings};
use crate::lab::{Hold, Lab, leftover};
use crate::record::{LabFacts, Trial};
use crate::sweep::{Error, Options, SCHEMA_NAME};
use crate::task::Task;
use crate::trial::{self, Bench, Seat};

/// Servers with what trials share on them.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) bench: Bench,
    ground: Ground,
}

#[derive(Debug)]
enum Ground {
    /// Private ones, started with these settings.
    Private(Box<Sandbox>, Box<Settings>),
    /// The user's own.
    Own(Hold),
}

impl Servers {
    /// Takes hold of the lab that the options name, or starts a sandbox.
    pub(super) async fn have(
        options: &Options,
        folder: &Path,
        run: &str,
        settings: &Settings,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Servers, Error> {
        let scratch = folder.join("scratch");
        let (lab, ground) = match &options.lab {
            Some(lab) => {
                let hold = Hold::take(&lab.source, &lab.target).await?;
                lab.try_as_pipeline().await?;
                (lab.clone(), Ground::Own(hold))
            }
            None => {
                let needs = Needs { target_binlog: false };
                let (place, program) = (folder.join("sandbox"), &options.executable);
                let sandbox =
                    Sandbox::start(settings, needs, &place, program, events, cancel).await?;
                // By its full name: the guard that removes it, even after a kill, runs elsewhere.
                sandbox.remove_at_end(&std::path::absolute(&scratch).unwrap_or(scratch.clone()))?;
                let lab = sandbox.lab().clone();
                (lab, Ground::Private(Box::new(sandbox), Box::new(settings.clone())))
            }
        };
        let (program, gauges) = (&options.executable, &options.gauges);
        let bench = Bench::new(lab, &scratch, program, run, SCHEMA_NAME, events, gauges);
        Ok(Servers { bench, ground })
    }

    /// Whether private servers still run, as far as the system tells. Of others it tells nothing.
    pub(super) fn are_alive(&self) -> bool {
        match &self.ground {
            Ground::Private(sandbox, _) => sandbox.is_alive(),
            Ground::Own(_) => true,
        }
    }

    /// Whether trials with these settings may run here. Own servers are as they are.
    pub(super) fn fit(&self, settings: &Settings) -> bool {
        match &self.ground {
            Ground::Private(_, started) => same_servers(started, settings),
            Ground::Own(_) => true,
        }
    }

    /// Changes the network to what the settings ask for, where dmbench emulates one.
    pub(super) async fn adapt(&mut self, settings: &Settings) -> Result<(), Error> {
        if let Ground::Private(sandbox, set) = &mut self.ground
            && **set != *settings
        {
            sandbox.set_network(settings).await?;
            **set = settings.clone();
            self.bench.lab = sandbox.lab().clone();
        }
        Ok(())
    }

    /// Runs one trial, which is stopped in good order when the hold on the servers is lost.
    pub(super) async fn run(
        &mut self,
        task: &Task,
        seat: &Seat,
        samples: PathBuf,
        cancel: &CancellationToken,
    ) -> Trial {
        let stop = cancel.child_token();
        let gone = match &self.ground {
            Ground::Private(..) => CancellationToken::new(),
            Ground::Own(hold) => hold.gone().clone(),
        };
        let mut running = Box::pin(trial::run(&mut self.bench, task, seat, samples, &stop));
        tokio::select! {
            trial = &mut running => trial,
            () = gone.cancelled() => {
                stop.cancel();
                running.await
            }
        }
    }

    /// Whether the servers are still this run's alone.
    ///
    /// # Errors
    /// When the lock on one of them was lost.
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.ground {
            Ground::Private(..) => Ok(()),
            Ground::Own(hold) => Ok(hold.check()?),
        }
    }

    /// Stops private servers; drops this run's schemas on others, unless another run may be there.
    /// Without `tidy` nothing that the run left before is removed.
    pub(super) async fn release(self, tidy: bool) -> Result<(), Error> {
        let Servers { bench, ground } = self;
        let released = match ground {
            Ground::Private(sandbox, _) => sandbox.stop().await,
            Ground::Own(hold) => {
                let tidied = match hold.check() {
                    Ok(()) if tidy => drop_schemas(&bench).await,
                    _ => Ok(()),
                };
                hold.release().await;
                tidied
            }
        };
        if tidy {
            let _ = std::fs::remove_dir_all(&bench.scratch);
        }
        Ok(released?)
    }
}

/// Drops what this run made, and only that.
async fn drop_schemas(bench: &Bench) -> Result<(), crate::lab::Error> {
    for end in [&bench.lab.source, &bench.lab.target] {
        let found = leftover::find(end).await?;
        let of_run = found.iter().filter(|found| found.run == bench.run);
        let schemas: Vec<&str> = of_run.map(|found| found.schema.as_str()).collect();
        leftover::remove(end, &schemas).await?;
    }
    Ok(())
}

/// Whether two settings differ in nothing but the network, which can be changed while servers run.
fn same_servers(a: &Settings, b: &Settings) -> bool {
    let proxied = |s: &Settings| {
        (
            !s.target_round_trip.is_zero() || s.target_bandwidth.is_some(),
            !s.source_round_trip.is_zero(),
        )
    };
    let b_network = Settings {
        target_round_trip: b.target_round_trip,
        source_round_trip: b.source_round_trip,
        target_bandwidth: b.target_bandwidth,
        ..a.clone()
    };
    b_network == *b && proxied(a) == proxied(b)
}

/// Checks that a task can be run on servers that dmbench does not start. Its `[sandbox]` describes
/// private ones and is left aside; varied, it would make trials that do not differ.
///
/// # Errors
/// [`Error::Emulates`].
pub fn fits_own_servers(task: &Task) -> Result<(), Error> {
    let varied = task.knobs.iter().find(|range| range.knob.name.starts_with("sandbox."));
    match varied {
        None => Ok(()),
        Some(range) => Err(Error::Emulates {
            task: task.name.clone(),
            key: range.knob.name.clone().into_owned(),
        }),
    }
}

/// Whether a run may go on with what it would find: as [`same_lab`], as far as that can be told before
/// anything is started or connected to.
///
/// # Errors
/// When there is no server program to be had.
pub(super) fn could_be_same(
    before: &LabFacts,
    lab: Option<&Lab>,
    settings: &Settings,
) -> Result<Result<(), String>, Error> {
    let kind = lab.map_or(Lab::SANDBOX, |lab| &lab.kind);
    if before.kind != kind {
        return Ok(Err(other_kind(before, kind)));
    }
    let now = match lab {
        Some(lab) => [lab.source.addresses(), lab.target.addresses()],
        None => {
            let chosen = sandbox::choose(settings)?;
            [chosen.source.to_string(), chosen.target.to_string()]
        }
    };
    let ends = [("source", &before.source), ("target", &before.target)];
    for ((end, before), now) in ends.into_iter().zip(now) {
        // A program may say more of its version than its server does.
        let (before, is_same) = match lab {
            Some(_) => (&before.address, before.address == now),
            None => (&before.server, now.starts_with(&before.server)),
        };
        if !is_same {
            return Ok(Err(format!("the {end} was {before} and is {now} now")));
        }
    }
    Ok(Ok(()))
}

fn other_kind(before: &LabFacts, now: &str) -> String {
    format!("it was begun on lab \"{}\", not on \"{now}\"", before.kind)
}

/// Whether a run may go on with servers: those of a sandbox are new ones of the same versions.
pub(super) fn same_lab(before: &LabFacts, now: &LabFacts) -> Result<(), String> {
    if before.kind != now.kind {
        return Err(other_kind(before, &now.kind));
    }
    let now_is_own = now.kind == Lab::OWN;
    for (end, before, now) in
        [("source", &before.source, &now.source), ("target", &before.target, &now.target)]
    {
        if before.version != now.version {
            return Err(format!("the {end} was {} and is {} now", before.server, now.server));
        }
        if now_is_own && before.address != now.address {
            return Err(format!("the {end} was {} and is {} now", before.address, now.address));
        }
    }
    Ok(())
}
