//! What Prometheus can read while trials run: every series and label, the registry, the endpoint.
//!
//! The numbers of a report never come from here; this is for watching. It listens on loopback only
//! and only when asked to, and knows nothing of trials: others set the [`Gauges`].

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::{
    Encoder as _, Gauge, GaugeVec, IntCounter, IntGauge, Opts, Registry, TextEncoder,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorClass;

/// Names of series.
pub mod series {
    /// Ops that the workload's clients had acknowledged, of the current trial.
    pub const COMMITTED_OPS: &str = "dmbench_committed_ops_total";
    /// Row changes that the workload's clients had acknowledged, of the current trial.
    pub const COMMITTED_ROWS: &str = "dmbench_committed_rows_total";
    /// Ops that were due, of the current trial.
    pub const OFFERED_OPS: &str = "dmbench_offered_ops_total";
    /// Row changes whose effect is durable at the target, of the current trial.
    pub const APPLIED_ROWS: &str = "dmbench_applied_rows_total";
    /// The target's age in seconds; label `clock`.
    pub const LAG: &str = "dmbench_lag_seconds";
    /// Bytes of binlog between the source's end and what is applied.
    pub const BACKLOG: &str = "dmbench_backlog_bytes";
    /// 1 for the phase that the trial is in, 0 for all others; label `phase`.
    pub const PHASE: &str = "dmbench_phase";
    /// Number of the trial in the run, from 1; 0 before the first.
    pub const TRIAL: &str = "dmbench_trial";
    /// Trials of the run.
    pub const TRIALS: &str = "dmbench_trials";
    /// Cores that a process used over the last sample; label `process`.
    pub const PROCESS_CPU: &str = "dmbench_process_cpu_cores";

    /// All of them.
    pub const ALL: [&str; 10] = [
        COMMITTED_OPS,
        COMMITTED_ROWS,
        OFFERED_OPS,
        APPLIED_ROWS,
        LAG,
        BACKLOG,
        PHASE,
        TRIAL,
        TRIALS,
        PROCESS_CPU,
    ];
}

/// Names of labels.
pub mod label {
    /// Which clock told the lag: `marker` or `checkpoint`.
    pub const CLOCK: &str = "clock";
    /// Phase of a trial, such as `measure`.
    pub const PHASE: &str = "phase";
    /// `source`, `target`, `pipeline`, `generator`, or `machine` for all there are.
    pub const PROCESS: &str = "process";

    /// All of them.
    pub const ALL: [&str; 3] = [CLOCK, PHASE, PROCESS];
}

/// A failure of the endpoint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not loopback.
    #[error("serve metrics on {address}: it is not an address of loopback")]
    NotLoopback {
        /// As asked.
        address: SocketAddr,
    },
    /// The port cannot be had.
    #[error("serve metrics on {address}: {source}")]
    Bind {
        /// As asked.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::NotLoopback { .. } => ErrorClass::User,
            Error::Bind { .. } => ErrorClass::Lab,
        }
    }
}

/// The registry with everything in it.
#[derive(Debug)]
struct Series {
    registry: Registry,
    committed_ops: IntCounter,
    committed_rows: IntCounter,
    offered_ops: IntCounter,
    applied_rows: IntCounter,
    lag: GaugeVec,
    backlog: IntGauge,
    phase: GaugeVec,
    trial: IntGauge,
    trials: IntGauge,
    cpu: GaugeVec,
    /// Phases seen so far, so that the one that ended can be set to 0.
    phases: Mutex<BTreeSet<String>>,
}

/// A handle to set the series by. Cheap to clone; setting never waits and never fails.
#[derive(Debug, Clone)]
pub struct Gauges(Arc<Series>);

impl Default for Gauges {
    fn default() -> Self {
        Gauges::new()
    }
}

impl Gauges {
    /// A registry of its own with all series at 0.
    pub fn new() -> Gauges {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help).expect("a constant name is valid");
            registry.register(Box::new(counter.clone())).expect("each name is registered once");
            counter
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help).expect("a constant name is valid");
            registry.register(Box::new(gauge.clone())).expect("each name is registered once");
            gauge
        };
        let labelled = |name: &str, help: &str, label: &str| {
            let gauges =
                GaugeVec::new(Opts::new(name, help), &[label]).expect("a constant name is valid");
            registry.register(Box::new(gauges.clone())).expect("each name is registered once");
            gauges
        };
        Gauges(Arc::new(Series {
            committed_ops: counter(series::COMMITTED_OPS, "Ops acknowledged to the workload."),
            committed_rows: counter(series::COMMITTED_ROWS, "Row changes acknowledged."),
            offered_ops: counter(series::OFFERED_OPS, "Ops that were due."),
            applied_rows: counter(series::APPLIED_ROWS, "Row changes durable at the target."),
            lag: labelled(series::LAG, "Age of the target in seconds.", label::CLOCK),
            backlog: gauge(series::BACKLOG, "Bytes of binlog not yet applied."),
            phase: labelled(series::PHASE, "1 for the phase the trial is in.", label::PHASE),
            trial: gauge(series::TRIAL, "Number of the trial in the run."),
            trials: gauge(series::TRIALS, "Trials of the run."),
            cpu: labelled(series::PROCESS_CPU, "Cores used by a process.", label::PROCESS),
            phases: Mutex::new(BTreeSet::new()),
            registry,
        }))
    }

    /// A trial began: its number from 1, how many there are. Counters start again, lag is unknown.
    pub fn begin_trial(&self, number: u32, of: u32) {
        let series = &self.0;
        for counter in [
            &series.committed_ops,
            &series.committed_rows,
            &series.offered_ops,
            &series.applied_rows,
        ] {
            counter.reset();
        }
        series.lag.reset();
        series.cpu.reset();
        series.backlog.set(0);
        series.trial.set(number.into());
        series.trials.set(of.into());
    }

    /// A phase began, by its word, such as `measure`.
    pub fn begin_phase(&self, phase: &str) {
        let mut phases = self.0.phases.lock().unwrap_or_else(PoisonError::into_inner);
        phases.insert(phase.to_owned());
        for known in phases.iter() {
            let is_now = f64::from(u8::from(known == phase));
            self.gauge(&self.0.phase, known).set(is_now);
        }
    }

    /// Totals of the workload since the trial began.
    pub fn set_workload(&self, offered_ops: u64, committed_ops: u64, committed_rows: u64) {
        raise(&self.0.offered_ops, offered_ops);
        raise(&self.0.committed_ops, committed_ops);
        raise(&self.0.committed_rows, committed_rows);
    }

    /// Total of applied row changes since the trial began.
    pub fn set_applied_rows(&self, rows: u64) {
        raise(&self.0.applied_rows, rows);
    }

    /// The target's age by a clock, such as `marker`.
    pub fn set_lag(&self, clock: &str, lag: Duration) {
        self.gauge(&self.0.lag, clock).set(lag.as_secs_f64());
    }

    /// Bytes of binlog not yet applied.
    pub fn set_backlog_bytes(&self, bytes: u64) {
        self.0.backlog.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Cores used by `source`, `target`, `pipeline`, `generator` (with probes and delay proxy), or all
    /// of the `machine`.
    pub fn set_process_cpu(&self, process: &str, cores: f64) {
        self.gauge(&self.0.cpu, process).set(cores);
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut bytes = Vec::new();
        // Writing to memory cannot fail, and a gauge that cannot be shown is not worth a panic.
        let _ = TextEncoder::new().encode(&self.0.registry.gather(), &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn gauge(&self, gauges: &GaugeVec, value: &str) -> Gauge {
        gauges.with_label_values(&[value])
    }
}

/// Raises a counter to a total; a lower total means that counting began again.
fn raise(counter: &IntCounter, total: u64) {
    let now = counter.get();
    if total < now {
        counter.reset();
        counter.inc_by(total);
    } else {
        counter.inc_by(total - now);
    }
}

/// The `/metrics` endpoint, bound and not yet served.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    /// Takes the port; 0 takes any that is free.
    ///
    /// # Errors
    /// When the address is not loopback or the port cannot be had.
    pub async fn bind(address: SocketAddr) -> Result<Endpoint, Error> {
        if !address.ip().is_loopback() {
            return Err(Error::NotLoopback { address });
        }
        let bind_error = |source| Error::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        Ok(Endpoint { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `cancel`. A client that misbehaves is dropped and nobody is told.
    pub async fn serve(self, gauges: Gauges, cancel: CancellationToken) {
        /// A scraper or two and a browser; more must wait.
        const MOST_CLIENTS: usize = 16;
        let mut clients = JoinSet::new();
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                Some(_) = clients.join_next(), if !clients.is_empty() => {}
                accepted = self.listener.accept(), if clients.len() < MOST_CLIENTS => {
                    if let Ok((stream, _)) = accepted {
                        let gauges = gauges.clone();
                        clients.spawn(async move {
                            let _ = tokio::time::timeout(LONGEST, answer(stream, &gauges)).await;
                        });
                    }
                }
            }
        }
    }
}

/// Longest time for one request with its answer.
const LONGEST: Duration = Duration::from_secs(5);

async fn answer(mut stream: TcpStream, gauges: &Gauges) -> io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0_u8; 1024];
    while !request.windows(4).any(|bytes| bytes == b"\r\n\r\n") && request.len() < 16 * 1024 {
        match stream.read(&mut part).await? {
            0 => return Ok(()),
            read => request.extend_from_slice(&part[..read]),
        }
    }
    let is_ours = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?");
    let (status, body) = match is_ours {
        true => ("200 OK", gauges.text()),
        false => ("404 Not Found", "the series are at /metrics\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Gauges {
        let gauges = Gauges::new();
        gauges.begin_trial(3, 10);
        gauges.begin_phase("warm");
        gauges.begin_phase("measure");
        gauges.set_workload(12, 10, 40);
        gauges.set_workload(15, 14, 56);
        gauges.set_applied_rows(50);
        gauges.set_lag("marker", Duration::from_millis(250));
        gauges.set_backlog_bytes(4096);
        gauges.set_process_cpu("pipeline", 0.5);
        gauges
    }

    #[test]
    fn every_series_and_label_is_exported_under_its_name() {
        let text = filled().text();
        for line in [
            "dmbench_committed_ops_total 14",
            "dmbench_committed_rows_total 56",
            "dmbench_offered_ops_total 15",
            "dmbench_applied_rows_total 50",
            "dmbench_lag_seconds{clock=\"marker\"} 0.25",
            "dmbench_backlog_bytes 4096",
            "dmbench_phase{phase=\"measure\"} 1",
            "dmbench_phase{phase=\"warm\"} 0",
            "dmbench_trial 3",
            "dmbench_trials 10",
            "dmbench_process_cpu_cores{process=\"pipeline\"} 0.5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        let types: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        for name in series::ALL {
            assert!(types.contains(&name), "{name}");
        }
        assert_eq!(types.len(), series::ALL.len(), "a series without a constant");
    }

    #[test]
    fn a_new_trial_counts_from_nothing() {
        let gauges = filled();
        gauges.begin_trial(4, 10);
        let text = gauges.text();
        assert!(text.contains("dmbench_committed_ops_total 0"), "{text}");
        assert!(!text.contains("dmbench_lag_seconds{"), "{text}");
    }

    #[tokio::test]
    async fn the_endpoint_answers_on_loopback_only() {
        let outside = Endpoint::bind("0.0.0.0:0".parse().expect("address")).await;
        assert!(matches!(outside, Err(Error::NotLoopback { .. })));

        let endpoint = Endpoint::bind("127.0.0.1:0".parse().expect("address")).await.expect("bind");
        let (address, cancel) = (endpoint.address(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(endpoint.serve(filled(), cancel.clone()));
        for (path, status) in [("/metrics", "200 OK"), ("/", "404 Not Found")] {
            let mut stream = TcpStream::connect(address).await.expect("connect");
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("answer");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
            assert_eq!(answer.contains("dmbench_trial 3"), path == "/metrics");
        }
        cancel.cancel();
        tasks.join_next().await.expect("one task").expect("no panic");
    }
}
