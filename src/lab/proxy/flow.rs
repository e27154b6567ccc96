//! One direction of one relayed connection: a thread that reads, a thread that writes when due.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::Network;

/// Most bytes read at once. Small enough that connections take turns on a limited wire.
const CHUNK: usize = 32 * 1024;

/// Chunks under way in one direction of one connection: at most 16 MiB.
const UNDER_WAY: usize = 512;

/// Stack of a relaying thread; buffers are on the heap.
const STACK: usize = 128 * 1024;

/// Bytes and when they are due; no bytes for the end of the stream.
struct Chunk {
    bytes: Vec<u8>,
    due: Instant,
}

/// Starts both threads of a direction.
pub(super) fn open(
    network: &Arc<Network>,
    id: u64,
    way: usize,
    from: TcpStream,
    to: TcpStream,
) -> std::io::Result<[JoinHandle<()>; 2]> {
    let (sender, receiver) = sync_channel(UNDER_WAY);
    let thread = |name: &str| std::thread::Builder::new().name(name.into()).stack_size(STACK);
    let reader = {
        let network = Arc::clone(network);
        thread("proxy-read").spawn(move || read(&network, way, from, &sender))?
    };
    let writer = {
        let network = Arc::clone(network);
        thread("proxy-write").spawn(move || write(&network, id, to, &receiver))?
    };
    Ok([reader, writer])
}

fn read(network: &Network, way: usize, mut from: TcpStream, sender: &SyncSender<Chunk>) {
    let mut buffer = vec![0_u8; CHUNK];
    loop {
        // A broken connection ends like one that was closed; its socket is shut both ways anyway.
        let length = from.read(&mut buffer).unwrap_or(0);
        let chunk = Chunk { bytes: buffer[..length].to_vec(), due: network.due(way, length) };
        if sender.send(chunk).is_err() || length == 0 {
            return;
        }
    }
}

fn write(network: &Network, id: u64, mut to: TcpStream, receiver: &Receiver<Chunk>) {
    for chunk in receiver {
        sleep_until(chunk.due);
        if !network.pass(id) {
            return;
        }
        if chunk.bytes.is_empty() {
            network.half_close(id, &to);
            return;
        }
        if to.write_all(&chunk.bytes).is_err() {
            return network.close(id);
        }
    }
}

impl Network {
    /// Passes on the end of a stream; the other direction may go on. The second end closes all.
    fn half_close(&self, id: u64, to: &TcpStream) {
        let _ = to.shutdown(Shutdown::Write);
        let mut state = self.state();
        if !state.half_closed.insert(id) {
            state.half_closed.remove(&id);
            drop(state);
            self.close(id);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a relaying thread is there to wait: tokio's timers tick in whole milliseconds"
)]
fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}
