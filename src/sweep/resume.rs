//! Going on with a run that was stopped: what may be resumed, and which trials are missing.
//!
//! A run's figures are compared with each other, so its tasks, its servers and dmbench itself must be
//! those that it was begun with. Whatever is refused stays as it was, to the byte.

use tokio_util::sync::CancellationToken;

use crate::event::Events;
use crate::lab::{self, facts};
use crate::record::{LabFacts, Outcome, Store};
use crate::sweep::servers::{Servers, could_be_same, fits_own_servers, same_lab};
use crate::sweep::{Error, Options, Sweep, program_hash, seats};
use crate::task::Task;
use crate::trial::Seat;

impl Sweep {
    /// Goes on with a run that was stopped: trials that ended are kept, the others are run again.
    /// Nothing is written before [`Sweep::confirm`].
    ///
    /// # Errors
    /// When the folder holds no run, or dmbench is not the one that began it.
    pub fn resume(options: Options, events: &Events) -> Result<Sweep, Error> {
        let store = Store::open(&options.folder);
        let mut run = store.run()?;
        if run.binary_hash != program_hash(&options.executable)? {
            return Err(Error::Resume {
                folder: options.folder,
                why: format!("it was begun by another build of dmbench {}", run.dmbench),
            });
        }
        run.ended = None;
        run.interrupted = false;
        let mut trials = store.trials()?;
        trials.retain(|trial| !matches!(trial.outcome, Outcome::Aborted { .. }));
        let events = events.clone();
        Ok(Sweep {
            store,
            run,
            trials,
            options,
            servers: None,
            events,
            resumed: true,
            is_doubtful: true,
        })
    }

    /// Makes sure that a resumed run may go on: its tasks have not changed, and its servers are those
    /// that it knows. A refusal leaves its folder as it was. For a new run there is nothing to do.
    ///
    /// # Errors
    /// [`Error::Resume`] where it may not; as [`Sweep::run_task`] when servers cannot be had.
    pub async fn confirm(
        &mut self,
        tasks: &[Task],
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        if !self.is_doubtful {
            return Ok(());
        }
        for task in tasks {
            self.accepts(task)?;
            if let Some(before) = self.known_lab(&task.name) {
                could_be_same(before, self.options.lab.as_ref(), &task.sandbox)?
                    .map_err(|why| self.refusal(why))?;
            }
        }
        // The servers of the trial that comes next; those of later tasks when their turn comes.
        let next = tasks.iter().find_map(|task| Some((task, self.missing(task).next()?)));
        if let Some((task, seat)) = next
            && !cancel.is_cancelled()
        {
            self.provide(&task.at(&seat.point)?, cancel).await?;
            self.compare_lab(&task.name).await?;
        }
        self.is_doubtful = false;
        Ok(())
    }

    /// Seats of a task whose trials have yet to be run, in order.
    pub(super) fn missing(&self, task: &Task) -> impl Iterator<Item = Seat> + use<'_> {
        let (name, points) = (task.name.clone(), task.points());
        let seats = seats(&name, &task.hash, &points, task.repeat.blocks, task.repeat.seed);
        let has =
            |seat: &Seat| self.trials.iter().any(|t| t.task == seat.task && t.order == seat.order);
        seats.into_iter().filter(move |seat| !has(seat))
    }

    fn known_lab(&self, task: &str) -> Option<&LabFacts> {
        self.run.tasks.iter().find(|known| known.name == task)?.lab.as_ref()
    }

    fn refusal(&self, why: String) -> Error {
        Error::Resume { folder: self.store.folder().to_owned(), why }
    }

    /// Checks that a task is the one that the run knows by its name, if it knows one. Changes nothing,
    /// so that a refusal leaves the run as it was.
    ///
    /// # Errors
    /// [`Error::Resume`] when the task has changed; [`Error::Emulates`] when it varies what own
    /// servers are not.
    pub fn accepts(&self, task: &Task) -> Result<(), Error> {
        if self.options.lab.is_some() {
            fits_own_servers(task)?;
        }
        match self.run.tasks.iter().find(|known| known.name == task.name) {
            Some(known) if known.hash != task.hash => {
                Err(self.refusal(format!("task {} has changed since", task.name)))
            }
            _ => Ok(()),
        }
    }

    /// What the servers are now; on resuming, they must be those that the run knows for the task.
    pub(super) async fn compare_lab(&self, task: &str) -> Result<Option<LabFacts>, Error> {
        let Some(Servers { bench, .. }) = &self.servers else { return Ok(None) };
        let facts = facts::lab_facts(&bench.lab).await.map_err(lab::Error::from)?;
        if let Some(before) = self.known_lab(task)
            && self.resumed
        {
            same_lab(before, &facts).map_err(|why| self.refusal(why))?;
        }
        Ok(Some(facts))
    }
}
