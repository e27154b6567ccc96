//! Inside the pipeline's process: obeys standard input, runs the units, reports on standard output.

use std::io::BufRead;
use std::sync::mpsc as thread_channel;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::pipeline::builtin::child::units::{Control, Units};
use crate::pipeline::builtin::child::wire::{Command, Message, Order};
use crate::pipeline::{Error, How, Progress, Unit};

/// Between two readings of the same state: the resolution of every time at which a position was
/// reached.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);

/// Between two looks for a change of state.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How long after the end of standard input the process may live on. Its parent is gone then, and
/// nobody else will end it.
const ORPHAN_GRACE: Duration = Duration::from_secs(3);

/// Runs the pipeline that standard input describes and reports on standard output until it ends as
/// asked, fails, or standard input ends. Call it once per process.
///
/// # Errors
/// [`Error::Line`] when the first line is no order; [`Error::Unit`] when a unit failed, after the
/// parent was told.
pub async fn run_child() -> Result<(), Error> {
    let (lines, _alive) = stdin_lines();
    obey_lines(lines).await
}

async fn obey_lines(mut lines: mpsc::Receiver<String>) -> Result<(), Error> {
    let first = lines.recv().await.unwrap_or_default();
    let order: Order = serde_json::from_str(&first)
        .map_err(|e| Error::Line { why: format!("the first line is no order: {e}") })?;
    let (messages, outbox) = mpsc::channel(256);
    let mut writer = JoinSet::new();
    writer.spawn(write_messages(outbox));
    let progress = watch::Sender::new(Progress::new(Unit::Dump));
    let ended = CancellationToken::new();
    let mut reporter = JoinSet::new();
    reporter.spawn(report_progress(progress.subscribe(), messages.clone(), ended.clone()));
    let control = Control::new(!order.held);
    let units = Units { order, progress, messages: messages.clone(), control: control.clone() };
    let outcome = tokio::select! {
        outcome = units.run() => outcome,
        () = obey(&mut lines, &control) => Ok(()),
    };
    let failure = outcome.err();
    ended.cancel();
    while reporter.join_next().await.is_some() {}
    let _ = messages.send(Message::Ended { failure: failure.clone() }).await;
    drop((messages, units));
    while writer.join_next().await.is_some() {}
    match failure {
        Some(failure) => Err(Error::Unit { class: failure.class(), text: failure.text }),
        None => Ok(()),
    }
}

/// Reads standard input on a thread of its own: a read that waits cannot be taken back, and the
/// runtime would wait for one of its own threads at the end. The thread also is the last resort: it
/// kills the process when that outlives its standard input.
fn stdin_lines() -> (mpsc::Receiver<String>, thread_channel::Sender<()>) {
    let (sender, receiver) = mpsc::channel(16);
    let (alive, over) = thread_channel::channel::<()>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
        drop(sender);
        if over.recv_timeout(ORPHAN_GRACE) == Err(thread_channel::RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    });
    (receiver, alive)
}

/// Passes commands on. Returns when the parent is gone.
async fn obey(lines: &mut mpsc::Receiver<String>, control: &Control) {
    while let Some(line) = lines.recv().await {
        match serde_json::from_str(&line) {
            Ok(Command::Release) => control.release(),
            Ok(Command::Stop { how: How::Drain }) => control.drain(),
            Ok(Command::Stop { how: How::Now }) => control.cancel(),
            Err(error) => tracing::warn!("passed over a line that is no command: {error}"),
        }
    }
}

/// Sends a reading at once when unit or state changed, else every 100 ms while there is news, and
/// the last one at the end.
async fn report_progress(
    mut progress: watch::Receiver<Progress>,
    messages: mpsc::Sender<Message>,
    ended: CancellationToken,
) {
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut sent = None;
    let mut news = true;
    let mut over = false;
    while !over {
        let tick = tokio::select! {
            () = ended.cancelled() => { over = true; true }
            changed = progress.changed() => { over = changed.is_err(); news = true; false }
            _ = ticks.tick() => true,
        };
        let reading = {
            let now = progress.borrow_and_update();
            let kind = Some((now.unit, now.state));
            let due = (kind != sent) || over || (tick && news);
            due.then(|| {
                sent = kind;
                now.clone()
            })
        };
        if let Some(reading) = reading {
            news = false;
            if messages.send(Message::Progress(Box::new(reading))).await.is_err() {
                return;
            }
        } else if !tick {
            // Counters may change thousands of times a second: look at most every 10 ms.
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

async fn write_messages(mut outbox: mpsc::Receiver<Message>) {
    let mut stdout = tokio::io::stdout();
    while let Some(message) = outbox.recv().await {
        let mut line = serde_json::to_vec(&message).expect("messages are plain data");
        line.push(b'\n');
        if stdout.write_all(&line).await.is_err() || stdout.flush().await.is_err() {
            return;
        }
    }
}
