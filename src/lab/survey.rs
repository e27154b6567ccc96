//! What one can tell of a server before a run: identity, encryption, distance, clock, settings.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::lab::facts::server_facts;
use crate::mysql::session::Error;
use crate::mysql::{Endpoint, Session};
use crate::record::ServerFacts;

/// Pings that make a round trip.
const PINGS: u32 = 50;
/// A clock is asked so often; the quickest answer counts.
pub const CLOCK_TRIES: u32 = 5;

/// One server as it was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Survey {
    /// Identity, settings, encryption.
    #[serde(flatten)]
    pub facts: ServerFacts,
    /// How far away it is.
    pub round_trip: RoundTrip,
    /// Its clock against this machine's.
    pub clock: Clock,
}

/// Times of pings, one after the other on one connection, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RoundTrip {
    /// How many.
    pub n: u32,
    /// The middle one.
    pub median_s: f64,
    /// The shortest.
    pub low_s: f64,
    /// The longest.
    pub high_s: f64,
}

/// A server's clock against ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Clock {
    /// Server minus here, in seconds.
    pub offset_s: f64,
    /// Half of the quickest of [`CLOCK_TRIES`] round trips, in seconds: the offset is known no better.
    pub error_s: f64,
}

/// Looks at a server. Reads only.
///
/// # Errors
/// When it cannot be reached or asked.
pub async fn survey(endpoint: &Endpoint) -> Result<Survey, Error> {
    let mut session = Session::connect(endpoint).await?;
    let survey = Survey {
        facts: server_facts(&mut session).await?,
        round_trip: RoundTrip::measure(&mut session).await?,
        clock: Clock::read(&mut session).await?,
    };
    session.close().await;
    Ok(survey)
}

impl RoundTrip {
    async fn measure(session: &mut Session) -> Result<RoundTrip, Error> {
        let mut times = Vec::new();
        for _ in 0..PINGS {
            let began = Instant::now();
            session.ping().await?;
            times.push(began.elapsed());
        }
        times.sort();
        let at = |place: usize| times.get(place).map_or(0.0, Duration::as_secs_f64);
        let last = times.len().saturating_sub(1);
        Ok(RoundTrip { n: PINGS, median_s: at(last / 2), low_s: at(0), high_s: at(last) })
    }
}

impl Clock {
    /// Asks the clock of the session's server.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn read(session: &mut Session) -> Result<Clock, Error> {
        let mut best = Clock { offset_s: 0.0, error_s: f64::INFINITY };
        for _ in 0..CLOCK_TRIES {
            let (began, asked) = (Instant::now(), SystemTime::now());
            let there: Option<f64> = session.value("SELECT UNIX_TIMESTAMP(NOW(6)) + 0e0").await?;
            let error_s = began.elapsed().as_secs_f64() / 2.0;
            let here = asked.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            if let Some(there) = there.filter(|_| error_s < best.error_s) {
                best = Clock { offset_s: there - here - error_s, error_s };
            }
        }
        Ok(best)
    }
}
