//! The loops of the probes: position, checkpoint, statements, samples.
//!
//! Each has sessions of its own, keeps its schedule by skipping what it missed, and ends when
//! cancelled. Nothing here keeps a transaction open.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::mysql::Position;
use crate::mysql::session::Error as SessionError;
use crate::probe::checkpoint::{Reading, Standing, bytes_behind, file_sizes, position};
use crate::probe::line::{Line, is_not_there_yet};
use crate::probe::sample::Sample;
use crate::probe::state::{Stage, State, StatementCount, lock};
use crate::probe::statements;

/// The source's position is read this often.
pub(super) const POSITION_EVERY: Duration = Duration::from_millis(50);

/// The checkpoint row is read this often.
pub(super) const CHECKPOINT_EVERY: Duration = Duration::from_millis(100);

/// A sample is written this often.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Follows the source's position.
pub(super) async fn follow_source(mut line: Line, state: Arc<State>, cancel: CancellationToken) {
    let mut ticks = ticks(POSITION_EVERY);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let asked = Instant::now();
        let answer = tokio::select! {
            () = cancel.cancelled() => return,
            answer = source_position(&mut line) => answer,
        };
        match answer {
            Ok(position) => lock(&state.track).add(asked, Instant::now(), position),
            Err(error) => state.position_failures.add(&error),
        }
    }
}

async fn source_position(line: &mut Line) -> Result<Position, SessionError> {
    let outcome = line.session().await?.binlog_position().await;
    line.note(outcome)
}

/// The checkpoint row at the target, and the source's files to count bytes over.
pub(super) struct CheckpointProbe {
    pub(super) target: Line,
    pub(super) source: Line,
    pub(super) sql: String,
    pub(super) files: Vec<(String, u64)>,
}

impl CheckpointProbe {
    /// Follows the checkpoint row.
    pub(super) async fn run(mut self, state: Arc<State>, cancel: CancellationToken) {
        let mut ticks = ticks(CHECKPOINT_EVERY);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.read(&state) => {}
            }
        }
    }

    async fn read(&mut self, state: &State) {
        let answer = self.checkpoint().await;
        if answer.is_ok() {
            state.executed_by_target();
        }
        let checkpoint = match answer {
            Ok(Some(checkpoint)) => checkpoint,
            Ok(None) => return,
            Err(error) if is_not_there_yet(&error) => return,
            Err(error) => return state.checkpoint_failures.add(&error),
        };
        let now = Instant::now();
        let (source, still_since, time) = {
            let track = lock(&state.track);
            (track.latest().cloned(), track.still_since(), track.time_of(&checkpoint, now))
        };
        let bytes_behind = match &source {
            Some(source) => self.bytes_behind(&checkpoint, source, state).await,
            None => None,
        };
        let mut checkpoints = lock(&state.checkpoints);
        let still = checkpoints.moves.note(&checkpoint, now);
        let at_source = source.is_some_and(|source| checkpoint.reached(&source));
        let source_still = still_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        let rest = checkpoints.moves.longest_rest();
        let reading = Reading {
            position: checkpoint,
            lag: time.map(|time| now.duration_since(time)),
            bytes_behind,
            standing: Standing::of(at_source, source_still, still, rest),
        };
        let marks = *lock(&state.marks);
        checkpoints.take(reading, now, marks, &lock(&state.track));
    }

    /// The row's position; `None` while there is no row or it holds no position yet.
    async fn checkpoint(&mut self) -> Result<Option<Position>, SessionError> {
        let outcome = self.target.session().await?.rows(&self.sql).await;
        let rows = self.target.note(outcome)?;
        let first = rows.first().and_then(|row| {
            let name = row.get::<Option<String>, _>(0)??;
            position(&name, row.get::<Option<u64>, _>(1)??).ok()
        });
        Ok(first)
    }

    async fn bytes_behind(
        &mut self,
        checkpoint: &Position,
        source: &Position,
        state: &State,
    ) -> Option<u64> {
        if let Some(bytes) = bytes_behind(checkpoint, source, &[]) {
            return Some(bytes);
        }
        // The size of a file changes until the next one is begun, so that only sizes read after
        // the source has gone on to its present file are final.
        if self.files.last().is_none_or(|(name, _)| *name != source.file.to_string()) {
            match self.file_sizes().await {
                Ok(files) => self.files = files,
                Err(error) => state.checkpoint_failures.add(&error),
            }
        }
        bytes_behind(checkpoint, source, &self.files)
    }

    async fn file_sizes(&mut self) -> Result<Vec<(String, u64)>, SessionError> {
        let outcome = file_sizes(self.source.session().await?).await;
        self.source.note(outcome)
    }
}

/// Reads the target's statement counters when the window begins and when it ends.
pub(super) async fn count_statements(mut line: Line, state: Arc<State>, cancel: CancellationToken) {
    let mut stage = state.stage.subscribe();
    loop {
        let now = *stage.borrow_and_update();
        if now != Stage::Before {
            let answer = tokio::select! {
                () = cancel.cancelled() => return,
                answer = statement_count(&mut line) => answer,
            };
            match answer {
                Ok(all) => note_statements(&state, now, all),
                Err(error) => state.statement_failures.add(&error),
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = stage.changed() => if changed.is_err() { return },
        }
    }
}

async fn statement_count(line: &mut Line) -> Result<Option<u64>, SessionError> {
    let outcome = statements::count(line.session().await?).await;
    line.note(outcome)
}

fn note_statements(state: &State, stage: Stage, all: Option<u64>) {
    let mut counts = lock(&state.statements);
    counts.uncounted = all.is_none().then_some(statements::NO_COUNTERS);
    let own = state.own_statements.load(Ordering::Relaxed);
    let count = all.map(|all| StatementCount { at: Instant::now(), all, own });
    match stage {
        Stage::Within => counts.begin = count,
        Stage::Before | Stage::After => counts.end = count,
    }
}

/// Opens the samples file.
pub(super) async fn open_samples(path: &Path) -> std::io::Result<File> {
    File::create(path).await
}

/// Reads the host and writes a sample, again and again.
pub(super) async fn write_samples(
    mut file: Option<File>,
    state: Arc<State>,
    cancel: CancellationToken,
) {
    let mut ticks = ticks(SAMPLE_EVERY);
    let mut failed_before = 0;
    loop {
        let ended = tokio::select! {
            () = cancel.cancelled() => true,
            _ = ticks.tick() => false,
        };
        if *state.stage.borrow() != Stage::After {
            lock(&state.hosts).read();
        }
        let sample = sample(&state, &mut failed_before);
        (state.counters.on_sample)(&sample);
        let outcome = match &mut file {
            Some(file) => append(file, &sample).await,
            None => Ok(()),
        };
        if let Err(error) = outcome {
            file = None;
            *lock(&state.sample_failure) = Some(error);
        }
        if ended {
            return;
        }
    }
}

async fn append(file: &mut File, sample: &Sample) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(sample).map_err(std::io::Error::other)?;
    line.push(b'\n');
    file.write_all(&line).await?;
    file.flush().await
}

fn sample(state: &State, failed_before: &mut u64) -> Sample {
    let now = Instant::now();
    let counts = state.counts();
    let reading = lock(&state.checkpoints).latest.clone().map(|(_, reading)| reading);
    let ledger = state.markers.as_ref().map(|markers| lock(&markers.ledger));
    let mut cpu_s: std::collections::BTreeMap<String, f64> = lock(&state.hosts)
        .processes
        .iter()
        .filter_map(|watched| Some((watched.name.clone(), watched.latest?.cpu_s)))
        .collect();
    cpu_s.insert("machine".into(), crate::probe::host::machine().cpu_s);
    let probes = [
        Some(&state.position_failures),
        Some(&state.checkpoint_failures),
        Some(&state.statement_failures),
        state.markers.as_ref().map(|markers| &markers.writing),
        state.markers.as_ref().map(|markers| &markers.polling),
    ];
    let failed_reads = probes.iter().flatten().map(|failures| failures.count()).sum();
    let failing = failed_reads > std::mem::replace(failed_before, failed_reads);
    Sample {
        t_s: now.duration_since(state.started).as_secs_f64(),
        counts: state.counts_now(),
        committed_ops: counts.committed_ops,
        applied_rows: counts.applied_rows,
        source: lock(&state.track).latest().map(ToString::to_string),
        checkpoint: reading.as_ref().map(|reading| reading.position.to_string()),
        checkpoint_lag_us: reading.as_ref().and_then(|reading| Some(reading.lag?.as_micros())),
        bytes_behind: reading.as_ref().and_then(|reading| reading.bytes_behind),
        standing: reading.map(|reading| reading.standing),
        marker_age_us: ledger.as_ref().and_then(|l| Some(l.age(now)?.as_micros())),
        markers: ledger.as_ref().map(|l| l.acknowledged_count()),
        markers_unseen: ledger.as_ref().map(|l| l.outstanding()),
        cpu_s,
        failed_reads,
        error: if failing { probes.iter().flatten().find_map(|f| f.last()) } else { None },
    }
}
