//! One direction of one relayed connection: a thread that reads what arrives and writes what is due.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

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

/// Starts the thread of a direction.
pub(super) fn open(
    network: &Arc<Network>,
    id: u64,
    way: usize,
    from: TcpStream,
    to: TcpStream,
) -> io::Result<JoinHandle<()>> {
    let network = Arc::clone(network);
    let thread = std::thread::Builder::new().name("proxy-relay".into()).stack_size(STACK);
    thread.spawn(move || relay(&network, id, way, from, to))
}

fn relay(network: &Network, id: u64, way: usize, mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0_u8; CHUNK];
    let mut under_way: VecDeque<Chunk> = VecDeque::new();
    let mut ended = false;
    loop {
        while let Some(chunk) = under_way.pop_front_if(|chunk| chunk.due <= Instant::now()) {
            if !network.pass(id) {
                return;
            }
            if chunk.bytes.is_empty() {
                return network.half_close(id, &to);
            }
            if to.write_all(&chunk.bytes).is_err() {
                return network.close(id);
            }
        }
        let due = under_way.front().map(|chunk| chunk.due);
        let from_too = (!ended && under_way.len() < UNDER_WAY).then_some(&from);
        if wait(from_too, due) {
            // A broken connection ends like one that was closed; its socket is shut both ways anyway.
            let length = from.read(&mut buffer).unwrap_or(0);
            ended = length == 0;
            let due = network.due(way, length);
            under_way.push_back(Chunk { bytes: buffer[..length].to_vec(), due });
        }
    }
}

/// Waits until there is something to read or `due` has come; answers whether there is something to
/// read. Tokio's timers tick in whole milliseconds, the kernel's do not.
fn wait(from: Option<&TcpStream>, due: Option<Instant>) -> bool {
    let left = due.map(|due| due.saturating_duration_since(Instant::now()));
    let mut sockets: Vec<_> =
        from.into_iter().map(|from| PollFd::new(from, PollFlags::IN)).collect();
    match poll(&mut sockets, left.map(timespec).as_ref()) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        // Reading tells what is wrong with the socket.
        Err(_) => from.is_some(),
    }
}

fn timespec(duration: Duration) -> Timespec {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() }
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
