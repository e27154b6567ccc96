//! What the probes saw, as metrics and findings.

use std::time::Duration;

use tokio::time::Instant;

use crate::probe::checkpoint::Standing;
use crate::probe::jobs::{CHECKPOINT_EVERY, POSITION_EVERY};
use crate::probe::ledger::Window;
use crate::probe::line::Failures;
use crate::probe::marker::{POLL_EVERY, Shared};
use crate::probe::state::{State, lock};
use crate::record::{Better, Finding, Level, Metric, name};
use crate::stats::trend::theil_sen;

/// What all probes of a trial saw in its window.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Results, each with n, window and clock.
    pub metrics: Vec<Metric>,
    /// Remarks, failed reads among them.
    pub findings: Vec<Finding>,
    /// Markers of the window that the target had not shown when the probes were stopped; they count
    /// in the lag with their age then.
    pub unseen_markers: u64,
    /// Markers that the source acknowledged since the probes were started, the window's among them:
    /// row changes that the workload did not make.
    pub markers: u64,
    /// The last standing of the checkpoint; `None` where there was no checkpoint row.
    pub standing: Option<Standing>,
}

/// Sums up. `now` is when the probes were told to stop.
pub(super) fn observe(state: &State, now: Instant) -> Observed {
    let mut observed = Observed::default();
    let marks = *lock(&state.marks);
    if let Some(window) = marks.window() {
        if let Some(markers) = &state.markers {
            observed.add_markers(markers, state, window, now);
        }
        observed.add_checkpoints(state, window);
        observed.add_statements(state);
        observed.add_hosts(state, window);
    }
    if let Some(markers) = &state.markers {
        observed.markers = lock(&markers.ledger).acknowledged_count();
    }
    observed.standing =
        lock(&state.checkpoints).latest.as_ref().map(|(_, reading)| reading.standing);
    observed.add_failures("source position", &state.position_failures);
    observed.add_failures("checkpoint", &state.checkpoint_failures);
    observed.add_failures("statement counter", &state.statement_failures);
    if let Some(markers) = &state.markers {
        observed.add_failures("marker write", &markers.writing);
        observed.add_failures("marker poll", &markers.polling);
    }
    if let Some(error) = &*lock(&state.sample_failure) {
        let text = "Not all samples could be written; metrics are not affected.";
        observed.remark(Level::Warning, "samples-incomplete", text, error.to_string());
    }
    observed
}

impl Observed {
    fn remark(&mut self, level: Level, code: &str, text: impl Into<String>, evidence: String) {
        let (code, text) = (code.to_owned(), text.into());
        self.findings.push(Finding { level, code, text, evidence, hint: String::new() });
    }

    fn add_failures(&mut self, what: &str, failures: &Failures) {
        if failures.count() > 0 {
            let text = format!("The {what} probe failed {} times.", failures.count());
            let evidence = failures.last().unwrap_or_default();
            self.remark(Level::Warning, "probe-failed", text, evidence);
        }
    }

    fn add_markers(&mut self, markers: &Shared, state: &State, window: Window, now: Instant) {
        let spans = lock(&markers.spans);
        let resolution = Duration::from_micros(spans.quantile(0.95).unwrap_or(0));
        let clock = format!(
            "marker rows, polled every {} ms; too long by at most {} ms in 95 % of the polls",
            POLL_EVERY.as_millis(),
            whole_ms(resolution)
        );
        drop(spans);
        let mut ledger = lock(&markers.ledger);
        ledger.sample_missed_ages(POLL_EVERY, window.to);
        let lags = ledger.lags(window, now);
        let (n, unseen, ahead) = (lags.lag.n(), lags.unseen, lags.ahead);
        let distribution = |name, histogram| {
            Metric::histogram(name, "us", Better::Lower, histogram)
                .with_window(window.length())
                .with_clock(clock.clone())
        };
        self.metrics.push(distribution(name::LAG_MARKER, lags.lag.clone()));
        self.metrics.push(distribution(name::LAG_AGE, ledger.ages().clone()));
        if let Some(slope) = theil_sen(&lags.series) {
            let number = |name: &str, value: f64, what: &str| {
                Metric::number(name, "s/s", Better::Lower, value)
                    .with_n(u64::from(slope.n))
                    .with_window(window.length())
                    .with_clock(format!("{clock}; {what} of lag over the markers' commits"))
            };
            let bound = "one-sided 95 % bound of the slope";
            self.metrics.push(number(name::LAG_SLOPE, slope.value, "Theil–Sen slope"));
            self.metrics.push(number(name::LAG_SLOPE_LOWER, slope.low, bound));
            self.metrics.push(number(name::LAG_SLOPE_UPPER, slope.high, bound));
        }
        drop(ledger);
        let committed = committed_ops(state);
        if n + committed > 0 {
            let share = n as f64 / (n + committed) as f64;
            self.metrics.push(
                Metric::number(
                    name::MARKER_SHARE,
                    "of committed transactions",
                    Better::Lower,
                    share,
                )
                .with_n(n)
                .with_window(window.length()),
            );
        }
        self.unseen_markers = unseen;
        if unseen > 0 {
            let text = "Some markers had not arrived when the probes were stopped; they count with \
                        their age so far, so that lags are lower bounds.";
            let evidence = format!("{unseen} of {n} markers");
            self.remark(Level::Warning, "markers-unseen", text, evidence);
        }
        if ahead > 0 {
            let text = "Some markers were seen at the target before the source acknowledged their \
                        commit; their lag counts as 0.";
            self.remark(Level::Note, "markers-ahead", text, format!("{ahead} of {n} markers"));
        }
    }

    fn add_checkpoints(&mut self, state: &State, window: Window) {
        let (mut checkpoints, track) = (lock(&state.checkpoints), lock(&state.track));
        checkpoints.fill(window.to, None, *lock(&state.marks), &track);
        let resolution = track.resolution();
        drop(track);
        let clock = format!(
            "checkpoint row, read every {} ms, against source positions read every {} ms; wrong by \
             at most {} ms",
            CHECKPOINT_EVERY.as_millis(),
            POSITION_EVERY.as_millis(),
            whole_ms(resolution + CHECKPOINT_EVERY)
        );
        for (name, dimension, histogram) in [
            (name::LAG_CHECKPOINT, "us", &checkpoints.lag),
            (name::LAG_BYTES, "bytes", &checkpoints.bytes),
        ] {
            if histogram.n() > 0 {
                let metric = Metric::histogram(name, dimension, Better::Lower, histogram.clone());
                self.metrics.push(metric.with_window(window.length()).with_clock(clock.clone()));
            }
        }
        let count = |wanted| {
            let found = checkpoints.standings.iter().find(|(standing, _)| *standing == wanted);
            found.map_or(0, |(_, count)| *count)
        };
        let all: u64 = checkpoints.standings.iter().map(|(_, count)| count).sum();
        let mut remark = |standing, level, code, text| {
            if count(standing) > 0 {
                let evidence = format!("{} of {all} readings", count(standing));
                self.remark(level, code, text, evidence);
            }
        };
        let text = "The checkpoint was behind and did not move.";
        remark(Standing::Stalled, Level::Warning, "checkpoint-stalled", text);
        let text = "The source did not move for a while: lag has no meaning there.";
        remark(Standing::Idle, Level::Note, "source-idle", text);
        if checkpoints.too_old > 0 {
            let text = "Some checkpoints were older than the track of source positions; their lag \
                        is unknown and left out.";
            let evidence = format!("{} of {all} readings", checkpoints.too_old);
            self.remark(Level::Warning, "checkpoint-before-track", text, evidence);
        }
    }

    fn add_statements(&mut self, state: &State) {
        let statements = lock(&state.statements);
        let (Some(begin), Some(end)) = (statements.begin, statements.end) else {
            if let Some(text) = statements.uncounted {
                self.remark(Level::Note, "statements-not-counted", text, String::new());
            }
            return;
        };
        let length = end.at.saturating_duration_since(begin.at);
        let own = end.own.saturating_sub(begin.own);
        let count = end.all.saturating_sub(begin.all).saturating_sub(own);
        if length.is_zero() {
            return;
        }
        self.metrics.push(
            Metric::number(
                name::TARGET_QPS,
                "statements/s",
                Better::Neither,
                count as f64 / length.as_secs_f64(),
            )
            .with_n(count)
            .with_window(length)
            .with_clock("the target's Com_* counters, without the probes' own statements"),
        );
    }

    fn add_hosts(&mut self, state: &State, window: Window) {
        let hosts = lock(&state.hosts);
        let seconds = window.length().as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        for watched in &hosts.processes {
            let (Some(begin), Some(end)) = (watched.begin, watched.latest) else {
                let text = format!("Process {} could not be watched.", watched.name);
                self.remark(Level::Warning, "process-unseen", text, format!("pid {}", watched.pid));
                continue;
            };
            let per = |metric: &str| format!("{metric}.{}", watched.name);
            let mut add = |metric: &str, dimension: &str, value: f64, clock: &str| {
                self.metrics.push(
                    Metric::number(&per(metric), dimension, Better::Lower, value)
                        .with_window(window.length())
                        .with_clock(clock),
                );
            };
            let cores = (end.cpu_s - begin.cpu_s).max(0.0) / seconds;
            add(name::CPU, "cores", cores, "/proc/PID/stat, ±10 ms");
            let peak = end.peak_memory as f64 / 1e6;
            add(name::MEMORY, "MB", peak, "largest resident set since the process began");
            let rate = |end: Option<u64>, begin: Option<u64>| {
                Some(end?.saturating_sub(begin?) as f64 / 1e6 / seconds)
            };
            for (metric, rate) in [
                (name::DISK_READ, rate(end.read, begin.read)),
                (name::DISK_WRITE, rate(end.written, begin.written)),
            ] {
                if let Some(rate) = rate {
                    add(metric, "MB/s", rate, "/proc/PID/io");
                }
            }
        }
        if let (Some(begin), Some(end)) = (hosts.begin, hosts.end) {
            let cores = (end.cpu_s - begin.cpu_s).max(0.0) / seconds;
            let loopback = end.loopback.saturating_sub(begin.loopback) as f64 / 1e6 / seconds;
            let available = std::thread::available_parallelism().map_or(0, usize::from);
            for (name, dimension, value, clock) in [
                (
                    format!("{}.machine", name::CPU),
                    format!("cores of {available}"),
                    cores,
                    "/proc/stat",
                ),
                (name::NETWORK.to_owned(), "MB/s".to_owned(), loopback, "/proc/net/dev"),
            ] {
                self.metrics.push(
                    Metric::number(&name, &dimension, Better::Neither, value)
                        .with_window(window.length())
                        .with_clock(clock),
                );
            }
        }
    }
}

/// Ops committed in the window.
fn committed_ops(state: &State) -> u64 {
    let marks = *lock(&state.marks);
    match (marks.begin, marks.end) {
        (Some((_, begin)), Some((_, end))) => end.committed_ops.saturating_sub(begin.committed_ops),
        _ => 0,
    }
}

/// Milliseconds rounded up: a resolution is never understated.
fn whole_ms(duration: Duration) -> u128 {
    duration.as_micros().div_ceil(1_000)
}
