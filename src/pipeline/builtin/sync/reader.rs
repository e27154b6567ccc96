//! The reader: takes changes from the stream and hands them on in chunks.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::pipeline::builtin::sync::change::{Change, ChangeStream};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::stage::{Counters, StageCounters, count};

/// Bytes that rows under way may take in memory, from the reader to the target.
pub(super) const ROOM: usize = 64 << 20;

/// The reader's surroundings.
pub(super) struct Reader {
    pub(super) chunks: mpsc::Sender<Vec<Change>>,
    /// Changes in one chunk at most: passing them one by one would cost more than decoding them.
    pub(super) chunk: usize,
    /// One permit a byte.
    pub(super) room: Arc<Semaphore>,
    pub(super) counters: Arc<Counters>,
}

impl Reader {
    /// Reads until the receiver is gone.
    ///
    /// # Errors
    /// What the stream says.
    pub(super) async fn run(self, mut stream: impl ChangeStream) -> Result<(), Error> {
        let counters = &self.counters.reader;
        let mut chunk = Vec::with_capacity(self.chunk);
        let mut began = Instant::now();
        loop {
            let change = {
                let mut next = pin!(stream.next());
                let ready = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
                match ready {
                    Poll::Ready(change) => change?,
                    Poll::Pending => {
                        counters.add_busy(began.elapsed());
                        if !self.send(&mut chunk, counters).await {
                            return Ok(());
                        }
                        let waited = Instant::now();
                        let change = next.await?;
                        counters.add_blocked_in(waited.elapsed());
                        began = Instant::now();
                        change
                    }
                }
            };
            counters.set_bytes(stream.byte_count());
            let change = match change {
                Change::Row(mut row) => {
                    counters.add_items(1);
                    let size = row.size().min(ROOM) as u32;
                    row.room = match Arc::clone(&self.room).try_acquire_many_owned(size) {
                        Ok(room) => Some(room),
                        Err(_) => {
                            // What this reader holds must go on, or nobody ever makes room.
                            counters.add_busy(began.elapsed());
                            if !self.send(&mut chunk, counters).await {
                                return Ok(());
                            }
                            let waited = Instant::now();
                            let room = Arc::clone(&self.room).acquire_many_owned(size).await;
                            counters.add_blocked_out(waited.elapsed());
                            began = Instant::now();
                            room.ok()
                        }
                    };
                    Change::Row(row)
                }
                Change::Ddl(mut ddl) => {
                    let (sender, executed) = oneshot::channel();
                    ddl.executed = Some(sender);
                    chunk.push(Change::Ddl(ddl));
                    counters.add_busy(began.elapsed());
                    if !self.send(&mut chunk, counters).await || executed.await.is_err() {
                        return Ok(());
                    }
                    stream.forget_tables();
                    began = Instant::now();
                    continue;
                }
                other => other,
            };
            chunk.push(change);
            if chunk.len() >= self.chunk {
                counters.add_busy(began.elapsed());
                if !self.send(&mut chunk, counters).await {
                    return Ok(());
                }
                began = Instant::now();
            }
        }
    }

    /// Hands the chunk on; `false` when nobody wants it.
    async fn send(&self, chunk: &mut Vec<Change>, counters: &StageCounters) -> bool {
        if chunk.is_empty() {
            return true;
        }
        let full = std::mem::replace(chunk, Vec::with_capacity(self.chunk));
        let read = full.iter().rev().find_map(|change| match change {
            Change::Row(_) => None,
            Change::Ddl(ddl) => Some(&ddl.end),
            Change::Commit { end } | Change::Passed { end } | Change::Idle { end } => Some(end),
        });
        if let Some(read) = read {
            self.counters.read.set(read.clone());
        }
        let waited = Instant::now();
        count(&self.counters.chunks, 1);
        let sent = self.chunks.send(full).await.is_ok();
        counters.add_blocked_out(waited.elapsed());
        sent
    }
}
