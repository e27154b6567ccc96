//! A relay on loopback that makes one machine show the shape of a network: a round-trip time, a
//! bandwidth limit, a stall, a cut.
//!
//! Every connection has two directions, each with a thread. A chunk is read as soon as it arrives,
//! gets a due time half a round trip later, and is written then: chunks are under way at the same
//! time, so the delay costs no throughput. What is under way is bounded; beyond that the sender is
//! held back. Plain threads wait, since tokio's timers tick in milliseconds. Opening a connection costs no round trip here, unlike over a network.

mod flow;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// See the module. Dropping it cuts every connection and ends its threads.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
    accepting: Option<JoinHandle<()>>,
}

/// How long the proxy rests when it cannot take a connection.
const REST: Duration = Duration::from_millis(50);

/// What all connections share.
#[derive(Debug)]
struct Network {
    /// Half a round trip, in nanoseconds.
    delay: AtomicU64,
    /// Bytes per second each way; 0 for no limit.
    bandwidth: AtomicU64,
    /// When each direction's wire is free again: towards the server, and back.
    wires: [Mutex<Option<Instant>>; 2],
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stalled: bool,
    closed: bool,
    /// Both sockets of each live connection.
    connections: HashMap<u64, [TcpStream; 2]>,
    /// Connections with one direction ended.
    half_closed: HashSet<u64>,
}

impl Proxy {
    /// Listens on a free port of loopback and relays to `server`.
    ///
    /// # Errors
    /// When there is no port or no thread to be had.
    pub fn start(server: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let network = Arc::new(Network {
            delay: AtomicU64::new(0),
            bandwidth: AtomicU64::new(0),
            wires: [Mutex::new(None), Mutex::new(None)],
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = {
            let network = Arc::clone(&network);
            std::thread::Builder::new()
                .name("proxy-accept".to_owned())
                .spawn(move || network.accept(&listener, server))?
        };
        Ok(Proxy { address, network, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds this much to each round trip, half of it each way, from the next chunk on.
    pub fn set_round_trip(&self, round_trip: Duration) {
        let half = u64::try_from(round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        self.network.delay.store(half, Ordering::Relaxed);
    }

    /// Lets at most this many MB (10⁶ bytes) per second through each way, over all connections.
    pub fn set_bandwidth(&self, megabytes_per_sec: Option<u32>) {
        let bytes = u64::from(megabytes_per_sec.unwrap_or(0)) * 1_000_000;
        self.network.bandwidth.store(bytes, Ordering::Relaxed);
    }

    /// Holds everything back (nothing is lost) until called with `false`.
    pub fn stall(&self, stalled: bool) {
        self.network.state().stalled = stalled;
        self.network.changed.notify_all();
    }

    /// Drops all connections, with what is under way. New ones are accepted.
    pub fn cut(&self) {
        self.network.cut();
    }

    /// Live connections.
    pub fn connection_count(&self) -> usize {
        self.network.state().connections.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.state().closed = true;
        self.network.cut();
        // Wakes the accepting thread, which then sees that the proxy is closed.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Network {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        let mut state = self.state();
        state.half_closed.clear();
        for (_, sockets) in state.connections.drain() {
            sockets.iter().for_each(shut);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, server: SocketAddr) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for id in 0.. {
            let client = listener.accept();
            if self.state().closed {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            // A server that does not answer: the client sees a closed connection, as it would over a
            // network.
            let client = match client {
                Ok((client, _)) => client,
                // The client is gone already, or there is no file for it: trying at once would keep a
                // core busy until one is closed.
                Err(error) => {
                    tracing::warn!("the delay proxy could not take a connection: {error}");
                    drop(self.changed.wait_timeout(self.state(), REST));
                    continue;
                }
            };
            let Ok(server) = TcpStream::connect(server) else { continue };
            threads.extend(self.open(id, client, server).unwrap_or_default());
        }
        self.cut();
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn open(
        self: &Arc<Self>,
        id: u64,
        client: TcpStream,
        server: TcpStream,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let sockets = [client.try_clone()?, server.try_clone()?];
        self.state().connections.insert(id, sockets);
        let mut threads = Vec::with_capacity(2);
        for (way, from, to) in [(0, &client, &server), (1, &server, &client)] {
            let opened = flow::open(self, id, way, from.try_clone()?, to.try_clone()?);
            threads.push(opened.inspect_err(|_| self.close(id))?);
        }
        Ok(threads)
    }

    /// Ends one connection both ways.
    fn close(&self, id: u64) {
        let mut state = self.state();
        state.half_closed.remove(&id);
        if let Some(sockets) = state.connections.remove(&id) {
            sockets.iter().for_each(shut);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// When a chunk that arrives now is due at the other side: after the wire has carried what came
    /// before it and itself, and half a round trip later.
    fn due(&self, way: usize, bytes: usize) -> Instant {
        let now = Instant::now();
        let bandwidth = self.bandwidth.load(Ordering::Relaxed);
        let carried = if bandwidth == 0 {
            now
        } else {
            let mut free = self.wires[way].lock().unwrap_or_else(PoisonError::into_inner);
            let start = free.map_or(now, |free| free.max(now));
            let carried = start + Duration::from_secs_f64(bytes as f64 / bandwidth as f64);
            *free = Some(carried);
            carried
        };
        carried + Duration::from_nanos(self.delay.load(Ordering::Relaxed))
    }

    /// Waits while the network is stalled. Returns whether the connection still exists.
    fn pass(&self, id: u64) -> bool {
        let mut state = self.state();
        while state.stalled && state.connections.contains_key(&id) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.connections.contains_key(&id)
    }
}

fn shut(socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A server that sends back what it gets, on a thread per connection, until its peer closes.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("known");
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let _ = io::copy(&mut &socket, &mut &socket);
                    let _ = socket.shutdown(Shutdown::Write);
                });
            }
        });
        address
    }

    fn client(proxy: &Proxy) -> TcpStream {
        let client = TcpStream::connect(proxy.address()).expect("the proxy accepts");
        client.set_nodelay(true).expect("set");
        // Bounds a hang only.
        client.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        client
    }

    fn round_trip(client: &mut TcpStream) -> Duration {
        let began = Instant::now();
        client.write_all(b"x").expect("written");
        client.read_exact(&mut [0]).expect("echoed");
        began.elapsed()
    }

    #[test]
    fn a_round_trip_is_never_shorter_than_asked() {
        let proxy = Proxy::start(echo()).expect("started");
        let mut client = client(&proxy);
        for asked in [Duration::from_millis(2), Duration::from_micros(500)] {
            proxy.set_round_trip(asked);
            for _ in 0..32 {
                assert!(round_trip(&mut client) >= asked);
            }
        }
    }

    #[test]
    fn chunks_are_under_way_at_the_same_time() {
        const CHUNKS: usize = 100;
        let proxy = Proxy::start(echo()).expect("started");
        let mut client = client(&proxy);
        proxy.set_round_trip(Duration::from_millis(400));
        let began = Instant::now();
        for _ in 0..CHUNKS {
            client.write_all(&[7; 1000]).expect("written");
        }
        let mut back = vec![0; CHUNKS * 1000];
        client.read_exact(&mut back).expect("echoed");
        assert!(began.elapsed() >= Duration::from_millis(400));
        // One after the other would take 40 s.
        assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    }

    #[test]
    fn bytes_arrive_unchanged_in_whatever_chunks() {
        let proxy = Proxy::start(echo()).expect("started");
        proxy.set_round_trip(Duration::from_micros(200));
        let mut client = client(&proxy);
        let sent: Vec<u8> =
            (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let writer = {
            let (mut client, sent) = (client.try_clone().expect("cloned"), sent.clone());
            std::thread::spawn(move || {
                let (mut rest, mut size) = (&sent[..], 1_usize);
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(size.min(rest.len()));
                    client.write_all(now).expect("written");
                    rest = later;
                    size = size * 31 % 70_001 + 1;
                }
                client.shutdown(Shutdown::Write).expect("shut");
            })
        };
        let mut back = Vec::new();
        client.read_to_end(&mut back).expect("read to the end, which the proxy passes on");
        writer.join().expect("written");
        assert!(back == sent, "{} bytes sent, {} came back", sent.len(), back.len());
    }

    #[test]
    fn a_wire_carries_no_more_than_its_bandwidth() {
        let proxy = Proxy::start(echo()).expect("started");
        proxy.set_bandwidth(Some(1));
        let mut client = client(&proxy);
        let began = Instant::now();
        client.write_all(&vec![1; 200_000]).expect("written");
        client.read_exact(&mut vec![0; 200_000]).expect("echoed");
        assert!(began.elapsed() >= Duration::from_millis(200));
    }

    #[test]
    fn a_stall_holds_and_loses_nothing() {
        let proxy = Proxy::start(echo()).expect("started");
        let mut client = client(&proxy);
        round_trip(&mut client);
        proxy.stall(true);
        client.write_all(b"held").expect("written");
        client.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
        let error = client.read(&mut [0; 4]).expect_err("nothing comes through");
        assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
        client.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        proxy.stall(false);
        let mut back = [0; 4];
        client.read_exact(&mut back).expect("comes through now");
        assert_eq!(&back, b"held");
    }

    #[test]
    fn a_cut_drops_connections_and_new_ones_work() {
        let proxy = Proxy::start(echo()).expect("started");
        let mut first = client(&proxy);
        round_trip(&mut first);
        proxy.stall(true);
        proxy.cut();
        assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)));
        assert_eq!(proxy.connection_count(), 0);
        proxy.stall(false);
        round_trip(&mut client(&proxy));
    }

    #[test]
    fn dropping_a_proxy_ends_its_connections_and_threads() {
        let proxy = Proxy::start(echo()).expect("started");
        let mut client = client(&proxy);
        round_trip(&mut client);
        let address = proxy.address();
        drop(proxy);
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
        assert!(TcpStream::connect(address).is_err());
    }
}
