//! A pipeline while a trial runs it: waiting for what it says.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;
use crate::mysql::Position;
use crate::mysql::patience::RETRY_LIMIT;
use crate::pipeline::{AnyPipeline, How, Progress, Start, State, Unit, UnitEvent};
use crate::trial::Error;

/// How long a pipeline may take to connect, read schemas and open its stream.
/// It tries for [`RETRY_LIMIT`] itself, and says why it failed.
const START_LIMIT: Duration = RETRY_LIMIT.saturating_add(Duration::from_secs(30));

/// How long a pipeline that reported its failure may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// What a unit reported when it ended.
#[derive(Debug, Clone)]
pub(super) struct UnitEnd {
    pub took: Duration,
    pub rows: u64,
    pub bytes: u64,
    pub statements: u64,
    pub transaction: crate::stats::Histogram,
    pub statement: crate::stats::Histogram,
}

/// A running pipeline. Ended by [`Replica::drain`] or [`Replica::halt`]; dropping it kills it.
#[derive(Debug)]
pub(super) struct Replica {
    pipeline: AnyPipeline,
    progress: watch::Receiver<Progress>,
    remarks: Vec<(Unit, String)>,
}

/// Waits until a pipeline fails or is gone: never, for one that works.
pub(super) async fn failure(mut progress: watch::Receiver<Progress>) -> Error {
    loop {
        if let Some(error) = failed(&progress.borrow_and_update()) {
            return error;
        }
        if progress.changed().await.is_err() {
            return ended("it is gone".to_owned());
        }
    }
}

fn failed(progress: &Progress) -> Option<Error> {
    (progress.state == State::Failed).then(|| {
        let why = progress.error.clone().unwrap_or_else(|| "it gave no reason".to_owned());
        ended(why)
    })
}

/// A pipeline that ended under a measurement: trying again would measure something else.
fn ended(why: String) -> Error {
    Error::PipelineEnded { why, class: ErrorClass::Lab }
}

impl Replica {
    /// Starts the pipeline. Ctrl-C does not kill it: an interrupted trial may still drain.
    pub(super) async fn start(
        mut pipeline: AnyPipeline,
        start: Start,
        held: bool,
    ) -> Result<Replica, Error> {
        pipeline.start(start, held, &CancellationToken::new()).await?;
        let progress = pipeline.progress();
        Ok(Replica { pipeline, progress, remarks: Vec::new() })
    }

    /// The process to watch, where the pipeline has one.
    pub(super) fn process_id(&self) -> Option<u32> {
        self.pipeline.process_id()
    }

    /// A handle to the latest progress.
    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// What the pipeline's units remarked since the last call.
    pub(super) fn remarks(&mut self) -> Vec<(Unit, String)> {
        std::mem::take(&mut self.remarks)
    }

    /// Lets a held pipeline go.
    pub(super) async fn release(&mut self) -> Result<(), Error> {
        Ok(self.pipeline.release().await?)
    }

    /// Waits until sync is ready to work, held or not.
    pub(super) async fn ready(&mut self, cancel: &CancellationToken) -> Result<(), Error> {
        let ready = |p: &Progress| p.unit == Unit::Sync && p.state != State::Starting;
        match self.wait(ready, START_LIMIT, cancel).await? {
            Some(_) => Ok(()),
            None => Err(Error::TooLate {
                what: "the pipeline ready",
                seconds: START_LIMIT.as_secs_f64(),
            }),
        }
    }

    /// Waits until everything up to `end` is applied. `None` when the limit passes first.
    pub(super) async fn applied(
        &mut self,
        end: &Position,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Option<Instant>, Error> {
        self.wait(|p| p.applied.as_ref().is_some_and(|a| a.reached(end)), limit, cancel).await
    }

    /// Waits until a progress satisfies `enough`; gives the time at which it was seen.
    async fn wait(
        &mut self,
        enough: impl Fn(&Progress) -> bool,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Option<Instant>, Error> {
        let deadline = tokio::time::sleep(limit);
        tokio::pin!(deadline);
        loop {
            let failed = {
                let now = self.progress.borrow_and_update();
                if enough(&now) {
                    return Ok(Some(Instant::now()));
                }
                if now.state == State::Failed { Some(now.error.clone()) } else { None }
            };
            if let Some(why) = failed {
                return Err(self.ended(why).await);
            }
            tokio::select! {
                changed = self.progress.changed() => if changed.is_err() {
                    return Err(self.ended(None).await);
                },
                () = &mut deadline => return Ok(None),
                () = cancel.cancelled() => return Err(Error::Interrupted),
            }
        }
    }

    /// What to say of a pipeline that ended by itself. Waits for its process, which knows the class.
    async fn ended(&mut self, why: Option<String>) -> Error {
        let stopped = tokio::time::timeout(END_LIMIT, self.pipeline.stop(How::Drain)).await;
        let (told, class) = match stopped {
            Ok(Err(error)) => (Some(error.to_string()), error.class()),
            Ok(Ok(())) | Err(_) => (None, ErrorClass::Lab),
        };
        let why = why.or(told).unwrap_or_else(|| "it gave no reason".to_owned());
        Error::PipelineEnded { why, class }
    }

    /// Waits for the end of a unit. `None` when the limit passes first.
    pub(super) async fn unit_end(
        &mut self,
        wanted: Unit,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Option<UnitEnd>, Error> {
        let deadline = tokio::time::sleep(limit);
        tokio::pin!(deadline);
        loop {
            let event = tokio::select! {
                event = self.pipeline.next_event() => event,
                () = &mut deadline => return Ok(None),
                () = cancel.cancelled() => {
                    // Killed, it could leave the source waiting for its lock, with all writers behind.
                    let _ = self.pipeline.stop(How::Now).await;
                    return Err(Error::Interrupted);
                }
            };
            match event {
                Some(UnitEvent::Ended { error: Some(why), .. }) => {
                    return Err(self.ended(Some(why)).await);
                }
                Some(UnitEvent::Ended {
                    unit,
                    took_s,
                    rows,
                    bytes,
                    statements,
                    transaction,
                    statement,
                    ..
                }) if unit == wanted => {
                    return Ok(Some(UnitEnd {
                        took: Duration::from_secs_f64(took_s),
                        rows,
                        bytes,
                        statements,
                        transaction: *transaction,
                        statement: *statement,
                    }));
                }
                Some(UnitEvent::Remark { unit, text }) => self.remarks.push((unit, text)),
                Some(UnitEvent::Began { .. } | UnitEvent::Ended { .. }) => {}
                None => {
                    let why = self.progress.borrow().error.clone();
                    return Err(self.ended(why).await);
                }
            }
        }
    }

    /// Asks sync to end at what it has and gives its last report.
    pub(super) async fn drain(
        &mut self,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Option<UnitEnd>, Error> {
        tokio::select! {
            stopped = self.pipeline.stop(How::Drain) => stopped?,
            () = tokio::time::sleep(limit) => {
                self.pipeline.stop(How::Now).await?;
                return Ok(None);
            }
            () = cancel.cancelled() => return Err(Error::Interrupted),
        }
        self.unit_end(Unit::Sync, limit, cancel).await
    }

    /// Ends it at once.
    pub(super) async fn halt(mut self) -> Result<(), Error> {
        Ok(self.pipeline.stop(How::Now).await?)
    }
}
