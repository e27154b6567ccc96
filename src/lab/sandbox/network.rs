//! The network between a pipeline and the servers: delay proxies, and what they do when measured.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;

use super::settings::Settings;
use crate::lab::proxy::Proxy;
use crate::lab::{Error, Lab};
use crate::mysql::{Address, Endpoint, Session};

/// Pings of one measurement.
const PINGS: usize = 65;

/// The proxies that exist; made when first asked for and kept until the sandbox ends.
#[derive(Debug, Default)]
pub(super) struct Network {
    source: Option<Proxy>,
    target: Option<Proxy>,
}

/// What one end's network is to be like.
struct Wanted {
    end: &'static str,
    round_trip: Duration,
    bandwidth: Option<u32>,
}

impl Network {
    /// Sets both proxies, measures them, and writes endpoints and `emulated` of the lab.
    pub(super) async fn set(&mut self, settings: &Settings, lab: &mut Lab) -> Result<(), Error> {
        let source =
            Wanted { end: "source", round_trip: settings.source_round_trip, bandwidth: None };
        let target = Wanted {
            end: "target",
            round_trip: settings.target_round_trip,
            bandwidth: settings.target_bandwidth,
        };
        lab.source_for_pipeline =
            source.set(&mut self.source, &lab.source, &mut lab.emulated).await?;
        lab.target_for_pipeline =
            target.set(&mut self.target, &lab.target, &mut lab.emulated).await?;
        Ok(())
    }
}

impl Wanted {
    /// Returns the endpoint that a pipeline uses: the server's own where nothing is asked for.
    async fn set(
        &self,
        proxy: &mut Option<Proxy>,
        server: &Endpoint,
        emulated: &mut BTreeMap<String, String>,
    ) -> Result<Endpoint, Error> {
        let (round_trip_key, bandwidth_key) =
            (format!("{}-round-trip", self.end), format!("{}-bandwidth", self.end));
        emulated.remove(&round_trip_key);
        emulated.remove(&bandwidth_key);
        if self.round_trip.is_zero() && self.bandwidth.is_none() {
            return Ok(server.clone());
        }
        let relay = match proxy {
            Some(relay) => relay,
            None => proxy.insert(self.start(server)?),
        };
        relay.set_round_trip(self.round_trip);
        relay.set_bandwidth(self.bandwidth);
        let address = relay.address();
        let through = Endpoint {
            address: Address::Tcp { host: address.ip().to_string(), port: address.port() },
            ..server.clone()
        };
        let (direct, measured) = (median_ping(server).await?, median_ping(&through).await?);
        let text = format!(
            "{} asked, {} measured (direct {}; median of {PINGS} pings)",
            in_ms(self.round_trip),
            in_ms(measured),
            in_ms(direct)
        );
        emulated.insert(round_trip_key, text);
        if let Some(bandwidth) = self.bandwidth {
            emulated.insert(bandwidth_key, format!("{bandwidth} MB/s each way"));
        }
        Ok(through)
    }

    fn start(&self, server: &Endpoint) -> Result<Proxy, Error> {
        let Address::Tcp { port, .. } = server.address else {
            let why = format!("the {} of a sandbox listens on TCP", self.end);
            return Err(Error::Settings { why });
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Proxy::start(address).map_err(|source| Error::Proxy { end: self.end, source })
    }
}

/// The median time that a server takes to answer a ping over one connection.
async fn median_ping(endpoint: &Endpoint) -> Result<Duration, Error> {
    let mut session = Session::connect(endpoint).await?;
    let mut times = Vec::with_capacity(PINGS);
    for _ in 0..PINGS {
        let began = Instant::now();
        let answer = session.conn().ping().await;
        answer.map_err(|source| session.statement_error("(ping)", source))?;
        times.push(began.elapsed());
    }
    session.close().await;
    times.sort_unstable();
    Ok(times[PINGS / 2])
}

/// As `2 ms`, `2.07 ms`.
fn in_ms(time: Duration) -> String {
    let text = format!("{:.2}", time.as_secs_f64() * 1e3);
    format!("{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_without_idle_zeros() {
        for (micros, text) in [(2_000, "2 ms"), (2_071, "2.07 ms"), (50, "0.05 ms"), (0, "0 ms")] {
            assert_eq!(in_ms(Duration::from_micros(micros)), text);
        }
        assert_eq!(in_ms(Duration::from_millis(100)), "100 ms");
    }
}
