//! Interval lines and the end report in the shape of sysbench, so that eyes and scripts that read
//! its output can read this. What sysbench has and dmbench does not count is a dash with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::stats::Histogram;
use crate::workload::{Driven, Script, Snapshot};

/// Lays out the figures of one drive.
#[derive(Debug)]
pub(super) struct Report {
    /// Reads, writes and others (BEGIN, COMMIT) of one op.
    statements: [u64; 3],
    clients: u32,
}

impl Report {
    /// For a script and a number of clients.
    pub(super) fn new(script: Script, clients: u32) -> Report {
        let statements = match script {
            Script::OltpPointSelect => [1, 0, 0],
            Script::OltpInsert | Script::OltpUpdateIndex => [0, 1, 0],
            Script::OltpWriteOnly => [0, 4, 2],
        };
        Report { statements, clients }
    }

    /// One line about `took`, which ended `at` after the start.
    pub(super) fn interval(&self, at: Duration, took: Duration, counted: &Snapshot) -> String {
        let per_sec = |count: u64| count as f64 / took.as_secs_f64();
        let [read, write, other] = self.statements.map(|n| per_sec(n * counted.committed));
        let p95 = counted.service_quantile(0.95).map_or(0.0, |p95| p95.as_secs_f64() * 1e3);
        format!(
            "[ {:.0}s ] thds: {} tps: {:.2} qps: {:.2} (r/w/o: {read:.2}/{write:.2}/{other:.2}) \
             lat (ms,95%): {p95:.2} err/s: {:.2} reconn/s: {:.2}\n",
            at.as_secs_f64(),
            self.clients,
            per_sec(counted.committed),
            read + write + other,
            per_sec(counted.failed + counted.retried),
            per_sec(counted.reconnects),
        )
    }

    /// The report at the end. Counts are of the window, but for those that only the whole drive
    /// knows, which say so.
    pub(super) fn end(&self, driven: &Driven, whole: &Snapshot) -> String {
        let seconds = driven.window.as_secs_f64();
        let ops = driven.window_committed;
        let rate = |count: u64| format!("({:.2} per sec.)", count as f64 / seconds);
        let [read, write, other] = self.statements.map(|n| n * ops);
        let total = read + write + other;
        let mut text = "SQL statistics:\n    queries performed:\n".to_owned();
        for (name, count) in [("read", read), ("write", write), ("other", other), ("total", total)]
        {
            row(&mut text, 8, name, &count.to_string());
        }
        let errors = whole.failed + whole.retried;
        row(&mut text, 4, "transactions", &format!("{ops:<6} {}", rate(ops)));
        row(&mut text, 4, "queries", &format!("{total:<6} {}", rate(total)));
        row(&mut text, 4, "ignored errors", &format!("{errors:<6} (whole drive)"));
        row(&mut text, 4, "reconnects", &format!("{:<6} (whole drive)", whole.reconnects));
        text.push_str("\nGeneral statistics:\n");
        row(&mut text, 4, "total time", &format!("{seconds:.4}s"));
        row(&mut text, 4, "total number of events", &ops.to_string());
        row(
            &mut text,
            4,
            "rows changed",
            &format!("{} (whole drive)", driven.effect.row_changes()),
        );
        latency(&mut text, "Latency (ms)", &driven.service);
        if driven.pacer_lateness.n() > 0 {
            latency(&mut text, "Response from the due time (ms)", &driven.response);
            latency(&mut text, "Delay from the due time to the start (ms)", &driven.delay);
            text.push_str("\nPace:\n");
            let offered = driven.window_offered;
            row(&mut text, 4, "ops due", &format!("{offered:<6} {}", rate(offered)));
            row(&mut text, 4, "most ops waiting", &driven.max_backlog.to_string());
            row(&mut text, 4, "dropped", &driven.dropped_ops.to_string());
            row(&mut text, 4, "not begun at the end", &driven.abandoned_ops.to_string());
        }
        text.push_str("\nThreads fairness:\n");
        row(&mut text, 4, "events (avg/stddev)", "– (clients are not counted apart)");
        trouble(&mut text, driven);
        text
    }
}

/// The figures that most readers of JSON look for; times in ms.
pub(super) fn figures(driven: &Driven) -> serde_json::Value {
    let times = |times: &Histogram| {
        let ms = |micros: Option<u64>| micros.map(|us| us as f64 / 1e3);
        serde_json::json!({
            "p50-ms": ms(times.quantile(0.5)),
            "p95-ms": ms(times.quantile(0.95)),
            "p99-ms": ms(times.quantile(0.99)),
            "max-ms": ms(times.max()),
            "n": times.n(),
        })
    };
    serde_json::json!({
        "offered-per-s": driven.offered_per_sec(),
        "committed-per-s": driven.achieved_per_sec(),
        "rows-changed": driven.effect.row_changes(),
        "service": times(&driven.service),
        "response": times(&driven.response),
        "delay": times(&driven.delay),
    })
}

/// What went wrong, where something did.
fn trouble(text: &mut String, driven: &Driven) {
    let by_code = |counts: &BTreeMap<u16, u64>| {
        let each = counts.iter().map(|(code, n)| match code {
            0 => format!("{n} of the connection"),
            code => format!("{n} with code {code}"),
        });
        each.collect::<Vec<_>>().join(", ")
    };
    for (what, counts) in [
        ("given up", &driven.failed),
        ("tried again", &driven.retried),
        ("connections lost", &driven.lost),
    ] {
        if !counts.is_empty() {
            let _ = writeln!(text, "{what}: {}", by_code(counts));
        }
    }
    if driven.unknown_ops > 0 {
        let _ = writeln!(text, "commits of unknown fate: {}", driven.unknown_ops);
    }
    if driven.odd_ops > 0 {
        let _ = writeln!(text, "ops that changed an unexpected number of rows: {}", driven.odd_ops);
    }
    if driven.interrupted {
        text.push_str("interrupted\n");
    }
}

fn row(text: &mut String, indent: usize, name: &str, value: &str) {
    let name = format!("{:indent$}{name}:", "");
    let _ = writeln!(text, "{name:<41}{}", value.trim_end());
}

/// sysbench's group of latencies; µs in, ms out.
fn latency(text: &mut String, title: &str, times: &Histogram) {
    let ms = |micros: Option<f64>| micros.map_or("–".to_owned(), |us| format!("{:.2}", us / 1e3));
    let whole = |micros: Option<u64>| ms(micros.map(|us| us as f64));
    let _ = writeln!(text, "\n{title}:");
    for (name, value) in [
        ("min", whole(times.min())),
        ("avg", ms(times.mean())),
        ("max", whole(times.max())),
        ("95th percentile", whole(times.quantile(0.95))),
        ("99th percentile", whole(times.quantile(0.99))),
        ("sum", ms((times.n() > 0).then_some(times.sum() as f64))),
    ] {
        let _ = writeln!(text, "{:>41}{value:>12}", format!("{name}:"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Effect;

    fn counted(committed: u64, failed: u64, retried: u64, reconnects: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.committed = committed;
        (snapshot.failed, snapshot.retried, snapshot.reconnects) = (failed, retried, reconnects);
        snapshot
    }

    fn driven() -> Driven {
        let mut service = Histogram::default();
        for micros in [900, 1_000, 1_100, 9_000] {
            service.record(micros);
        }
        Driven {
            offered_ops: 4,
            committed_ops: 4,
            failed: BTreeMap::from([(1213, 1)]),
            unknown_ops: 0,
            dropped_ops: 0,
            abandoned_ops: 0,
            odd_ops: 0,
            retried: BTreeMap::from([(0, 2)]),
            lost: BTreeMap::new(),
            reconnects: 0,
            effect: Effect { inserted: 16, ..Effect::default() },
            window: Duration::from_secs(2),
            window_offered: 4,
            window_committed: 4,
            delay: service.clone(),
            service: service.clone(),
            response: service.clone(),
            pacer_lateness: service,
            max_backlog: 3,
            interrupted: true,
        }
    }

    #[test]
    fn the_end_report_has_the_groups_of_sysbench() {
        let whole = counted(0, 1, 2, 0);
        insta::assert_snapshot!(Report::new(Script::OltpWriteOnly, 16).end(&driven(), &whole));
    }

    #[test]
    fn an_interval_line_is_that_of_sysbench() {
        let counted = counted(500, 5, 0, 1);
        let line = Report::new(Script::OltpWriteOnly, 16).interval(
            Duration::from_secs(20),
            Duration::from_secs(10),
            &counted,
        );
        assert_eq!(
            line,
            "[ 20s ] thds: 16 tps: 50.00 qps: 300.00 (r/w/o: 0.00/200.00/100.00) lat (ms,95%): \
             0.00 err/s: 0.50 reconn/s: 0.10\n"
        );
    }
}
