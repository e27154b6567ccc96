//! The servers of a cluster that are one to their clients, as TiDB's are.
//!
//! A connection goes where this process has the fewest open. A server that could not be connected to is
//! passed over for [`PASSED_OVER`], until all others fail too. What this *is not*: a pool, or a check
//! that the servers are one cluster.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::ErrorClass;
use crate::mysql::session::Error;
use crate::mysql::{Address, Endpoint};

/// So long a server that could not be connected to comes last.
const PASSED_OVER: Duration = Duration::from_secs(10);

/// Addresses with what this process knows of them, which all clones share.
#[derive(Debug, Clone)]
pub struct Cluster(Arc<[Member]>);

#[derive(Debug)]
struct Member {
    address: Address,
    open: AtomicUsize,
    failed: Mutex<Option<Instant>>,
}

impl Cluster {
    /// A cluster of servers at these addresses, in this order.
    pub fn new(addresses: impl IntoIterator<Item = Address>) -> Cluster {
        let member =
            |address| Member { address, open: AtomicUsize::new(0), failed: Mutex::new(None) };
        Cluster(addresses.into_iter().map(member).collect())
    }

    /// The addresses, in the order given.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.0.iter().map(|member| &member.address)
    }

    /// Its members, the best to connect to first.
    fn turns(&self) -> Vec<usize> {
        let mut turns: Vec<usize> = (0..self.0.len()).collect();
        turns.sort_by_key(|&at| {
            let member = &self.0[at];
            (member.is_passed_over(), member.open.load(Ordering::Relaxed))
        });
        turns
    }

    /// Counts a connection to a member, for as long as the seat is kept.
    fn seat(&self, at: usize) -> Seat {
        self.0[at].open.fetch_add(1, Ordering::Relaxed);
        Seat { cluster: self.clone(), at }
    }
}

impl PartialEq for Cluster {
    fn eq(&self, other: &Cluster) -> bool {
        self.addresses().eq(other.addresses())
    }
}

impl Eq for Cluster {}

/// As `address, address`.
impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, address) in self.addresses().enumerate() {
            write!(f, "{}{address}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Member {
    fn is_passed_over(&self) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|at| at.elapsed() < PASSED_OVER)
    }
}

/// A search for a server that can be connected to: one of a cluster, each tried at most once, or the
/// endpoint's only one.
pub(super) struct Search {
    at: Endpoint,
    seat: Option<Seat>,
    left: std::vec::IntoIter<usize>,
}

impl Search {
    pub(super) fn of(endpoint: &Endpoint) -> Search {
        let turns = endpoint.cluster.as_ref().map(Cluster::turns).unwrap_or_default();
        let mut search = Search { at: endpoint.clone(), seat: None, left: turns.into_iter() };
        search.next();
        search
    }

    /// Where to try now.
    pub(super) fn at(&self) -> &Endpoint {
        &self.at
    }

    /// Goes on to the next server where the failure may be this one's alone.
    ///
    /// # Errors
    /// The failure, where it is not, or where no server is left.
    pub(super) fn failed(&mut self, error: Error) -> Result<(), Error> {
        let is_its_own = error.class() == ErrorClass::Transient;
        if let Some(seat) = self.seat.as_ref().filter(|_| is_its_own) {
            seat.set_failed(Some(Instant::now()));
        }
        if is_its_own && self.next() { Ok(()) } else { Err(error) }
    }

    /// The server that was connected to, and the seat to keep for as long as the connection.
    pub(super) fn found(self) -> (Endpoint, Option<Seat>) {
        if let Some(seat) = &self.seat {
            seat.set_failed(None);
        }
        (self.at, self.seat)
    }

    fn next(&mut self) -> bool {
        let (Some(cluster), Some(at)) = (&self.at.cluster, self.left.next()) else { return false };
        self.seat = Some(cluster.seat(at));
        self.at.address = cluster.0[at].address.clone();
        true
    }
}

/// An open connection to one of a cluster's servers.
#[derive(Debug)]
pub(super) struct Seat {
    cluster: Cluster,
    at: usize,
}

impl Seat {
    fn set_failed(&self, at: Option<Instant>) {
        let failed = &self.cluster.0[self.at].failed;
        *failed.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.cluster.0[self.at].open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Secret;

    fn endpoint() -> Endpoint {
        let at = |port| Address::Tcp { host: "h".to_owned(), port };
        Endpoint {
            cluster: Some(Cluster::new([at(1), at(2), at(3)])),
            ..Endpoint::tcp("h", 1, "bench", Secret::default())
        }
    }

    fn failure(source: mysql_async::Error) -> Error {
        Error::Connect { endpoint: String::new(), tried: Duration::ZERO, source: Box::new(source) }
    }

    fn refused() -> Error {
        failure(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
    }

    /// Connects, if the server is not `dead`.
    fn connect(endpoint: &Endpoint, dead: &[&str]) -> Result<(String, Option<Seat>), Error> {
        let mut search = Search::of(endpoint);
        while dead.contains(&&*search.at().address.to_string()) {
            search.failed(refused())?;
        }
        let (at, seat) = search.found();
        Ok((at.address.to_string(), seat))
    }

    #[test]
    fn connections_go_where_the_fewest_are() {
        let endpoint = endpoint();
        let open = || connect(&endpoint, &[]).expect("connected");
        let mut seats: Vec<_> = (0..6).map(|_| open()).collect();
        let places: Vec<_> = seats.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(places, ["h:1", "h:2", "h:3", "h:1", "h:2", "h:3"]);
        seats.remove(4);
        assert_eq!(open().0, "h:2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_failed_comes_last_for_a_while() {
        let endpoint = endpoint();
        let at = |dead: &[&str]| connect(&endpoint, dead).map(|(at, _)| at).expect("connected");
        assert_eq!(at(&["h:1"]), "h:2");
        assert_eq!(at(&[]), "h:2");
        assert_eq!(at(&["h:2", "h:3"]), "h:1", "the last resort");
        tokio::time::advance(PASSED_OVER).await;
        assert_eq!(at(&[]), "h:1");
        connect(&endpoint, &["h:1", "h:2", "h:3"]).expect_err("nobody is there");
    }

    #[test]
    fn what_every_server_would_refuse_is_tried_once() {
        let endpoint = endpoint();
        let mut search = Search::of(&endpoint);
        let denied = mysql_async::ServerError {
            code: 1045,
            message: String::new(),
            state: "28000".to_owned(),
        };
        search.failed(failure(denied.into())).expect_err("it ends the search");
        assert_eq!(connect(&endpoint, &[]).expect("connected").0, "h:2", "a seat is still taken");
        drop(search);
        assert_eq!(connect(&endpoint, &[]).expect("connected").0, "h:1");
        let alone = Endpoint { cluster: None, ..endpoint };
        connect(&alone, &["h:1"]).expect_err("there is no other");
    }
}
