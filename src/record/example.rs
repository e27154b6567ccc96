//! Runs and trials for tests of what is made from records: `advise` and `report`.
//!
//! Figures are made up but hang together (rows = rate × time); all are fixed, so that snapshots hold.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::record::{
    Better, Cost, Knob, LabFacts, Limits, Machine, Metric, Model, Outcome, Phase, PhaseSpan, Point,
    Run, SCHEMA, ServerFacts, TaskFacts, Trial, Verdict, name,
};
use crate::stats::Histogram;

/// `sync.worker-count`, as the pipeline declares it.
pub(crate) const WORKER_COUNT: Knob = Knob::new(
    "pipeline.sync.worker-count",
    "connections",
    "16",
    Some("syncers.global.worker-count"),
    Cost::Rising,
    "workers, each with a connection to the target",
);

/// `load.pool-size`, as the pipeline declares it.
pub(crate) const POOL_SIZE: Knob = Knob::new(
    "pipeline.load.pool-size",
    "connections",
    "16",
    Some("loaders.global.pool-size"),
    Cost::Rising,
    "connections that write the target",
);

/// `pace.clients`, as the workload declares it.
pub(crate) const CLIENTS: Knob =
    Knob::new("pace.clients", "connections", "16", None, Cost::Rising, "client connections");

/// A point of one knob.
pub(crate) fn point(knob: &Knob, value: impl ToString) -> Point {
    Point::from([(knob.name.to_string(), value.to_string())])
}

fn began() -> Timestamp {
    "2026-11-30T21:04:00Z".parse().expect("a constant instant")
}

fn server(version: &str, port: u16) -> ServerFacts {
    let settings = [
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("sync_binlog", "1"),
    ];
    ServerFacts {
        server: version.to_owned(),
        version: version.to_owned(),
        address: format!("127.0.0.1:{port}"),
        settings: settings.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        tls: None,
    }
}

/// A run of the given tasks.
pub(crate) fn run(tasks: Vec<TaskFacts>) -> Run {
    Run {
        schema: SCHEMA,
        id: "2026-11-30T21-04-demo".to_owned(),
        began: began(),
        ended: Some(began() + SignedDuration::from_secs(205)),
        interrupted: false,
        dmbench: "0.1.0".to_owned(),
        binary_hash: "f00d".to_owned(),
        command: ["dmbench", "demo"].map(str::to_owned).to_vec(),
        machine: Machine {
            system: "Debian GNU/Linux 13".to_owned(),
            kernel: "6.12.0".to_owned(),
            cpu: "Example CPU @ 2.20GHz".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            filesystem: "ext4".to_owned(),
        },
        tasks,
    }
}

/// A task of one knob (or none).
pub(crate) fn task(name: &str, model: Model, knob: Option<&Knob>, values: &[u32]) -> TaskFacts {
    TaskFacts {
        name: name.to_owned(),
        question: format!("What does {name} tell?"),
        model,
        pipeline: "builtin".to_owned(),
        workload: "sysbench oltp_insert, 4 × 50,000 rows, uniform".to_owned(),
        text: String::new(),
        overrides: Vec::new(),
        hash: "abc".to_owned(),
        knobs: knob.into_iter().cloned().collect(),
        points: match knob {
            Some(knob) => values.iter().map(|v| point(knob, v)).collect(),
            None => vec![Point::new()],
        },
        blocks: 3,
        seed: 42,
        limits: Limits::default(),
        lab: Some(LabFacts {
            kind: "sandbox".to_owned(),
            source: server("MySQL 9.7.1", 40001),
            target: server("MySQL 9.7.1", 40002),
            emulated: BTreeMap::from([(
                "target-round-trip".to_owned(),
                "2 ms asked, 2.09 ms measured".to_owned(),
            )]),
        }),
        findings: Vec::new(),
    }
}

/// A finished and verified trial without metrics.
pub(crate) fn trial(task: &TaskFacts, point: &Point, block: u32, order: u32) -> Trial {
    let spans = [
        (Phase::Seed, 0.0, 4.0),
        (Phase::Warm, 4.0, 2.0),
        (Phase::Measure, 6.0, 10.0),
        (Phase::Verify, 16.0, 1.5),
    ];
    let configuration = [("pipeline.sync.batch", "100"), ("workload.tables", "4")];
    Trial {
        schema: SCHEMA,
        task: task.name.clone(),
        task_hash: task.hash.clone(),
        model: task.model,
        point: point.clone(),
        block,
        order,
        order_in_block: (order - 1) % task.points.len() as u32 + 1,
        seed: task.seed,
        began: began() + SignedDuration::from_secs(i64::from(order) * 20),
        phases: spans.map(|(phase, began_s, took_s)| PhaseSpan { phase, began_s, took_s }).to_vec(),
        configuration: configuration
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .chain(point.iter().map(|(k, v)| (k.clone(), v.clone())))
            .collect(),
        emulated: BTreeMap::new(),
        replayed: None,
        source_end: Some("binlog.000003:8812".to_owned()),
        outcome: match task.model {
            Model::Stream | Model::Sustain => Outcome::Sustained { rate: 1000.0 },
            _ => Outcome::Finished { rate: 1000.0, dimension: "rows/s".to_owned() },
        },
        verdict: match task.model {
            Model::Drive => Verdict::Unchecked { reason: "nothing was replicated".to_owned() },
            _ => Verdict::Equal { tables: 4, rows: 200_000 },
        },
        findings: Vec::new(),
        metrics: Vec::new(),
    }
}

/// A distribution of `n` values around `center` µs with a tail to about four times it.
pub(crate) fn spread(center: u64, n: u64) -> Histogram {
    let mut histogram = Histogram::default();
    for i in 0..n {
        // Steps through the unit interval evenly in a scattered order.
        let u = ((i * 7919) % n) as f64 / n as f64;
        histogram.record((center as f64 * (0.6 + 0.5 * u + 3.0 * u.powi(24))) as u64);
    }
    histogram
}

/// Metrics of a model `backlog` trial at `rate` rows/s.
pub(crate) fn backlog_metrics(rate: f64, transaction_us: u64) -> Vec<Metric> {
    let number = |n, d, b, v| Metric::number(n, d, b, v);
    let n = (rate / 10.0) as u64;
    vec![
        number(name::SYNC_ROWS_RATE, "rows/s", Better::Higher, rate),
        number(name::SYNC_APPLIED_BYTES_RATE, "MB/s of binlog", Better::Higher, rate * 260.0 / 1e6),
        Metric::histogram(
            name::SYNC_TRANSACTION,
            "us",
            Better::Lower,
            spread(transaction_us, n.max(1)),
        ),
        Metric::histogram(
            name::TARGET_STATEMENT,
            "us",
            Better::Lower,
            spread(transaction_us / 40, n.max(1) * 10),
        ),
        number(name::SYNC_ROWS_PER_TRANSACTION, "rows", Better::Neither, 92.4),
        number(name::SYNC_CONFLICTS, "per 1,000 rows", Better::Lower, 0.42),
        number(name::TARGET_QPS, "statements/s", Better::Neither, rate * 1.03),
        number("cpu.source", "cores", Better::Neither, 0.12),
        number("cpu.target", "cores", Better::Neither, 0.61),
        number("cpu.pipeline", "cores", Better::Neither, 0.44).with_clock("/proc/PID/stat, ±10 ms"),
        number("cpu.machine", "cores of 2", Better::Neither, 1.21).with_clock("/proc/stat"),
        number("memory.pipeline", "MB", Better::Lower, 61.0),
        number("memory.target", "MB", Better::Lower, 702.0),
        number("disk-write.target", "MB/s", Better::Lower, 21.5),
    ]
}

/// Metrics of a model `bulk` trial that imports 200,000 rows.
pub(crate) fn bulk_metrics(dump_rows: f64, load_rows: f64, transaction_us: u64) -> Vec<Metric> {
    let number = |n, d, b, v| Metric::number(n, d, b, v);
    let (rows, row_bytes) = (200_000.0, 193.0);
    vec![
        number(name::DUMP_ROWS_RATE, "rows/s", Better::Higher, dump_rows),
        number(
            name::DUMP_BYTES_RATE,
            "MB/s of SQL text",
            Better::Higher,
            dump_rows * row_bytes / 1e6,
        ),
        number(name::DUMP_TIME, "s", Better::Lower, rows / dump_rows),
        number(name::DUMP_BYTES, "MB of SQL text", Better::Neither, rows * row_bytes / 1e6),
        number(name::LOAD_ROWS_RATE, "rows/s", Better::Higher, load_rows),
        number(
            name::LOAD_BYTES_RATE,
            "MB/s of SQL text",
            Better::Higher,
            load_rows * row_bytes / 1e6,
        ),
        number(name::LOAD_TIME, "s", Better::Lower, rows / load_rows),
        number(name::LOAD_ROWS_PER_STATEMENT, "rows", Better::Neither, 4878.0),
        Metric::histogram(name::LOAD_TRANSACTION, "us", Better::Lower, spread(transaction_us, 41)),
        number("cpu.target", "cores", Better::Neither, 0.9),
    ]
}

/// Metrics of a model `stream` trial at `rate` ops/s with markers around `lag_us`.
pub(crate) fn stream_metrics(rate: f64, lag_us: u64) -> Vec<Metric> {
    let number = |n, d, b, v| Metric::number(n, d, b, v);
    let histogram = |n, d, h| Metric::histogram(n, d, Better::Lower, h);
    vec![
        number(name::OFFERED, "ops/s", Better::Neither, rate),
        number(name::ACHIEVED, "ops/s", Better::Higher, rate * 0.999),
        number(name::SYNC_ROWS_RATE, "rows/s", Better::Higher, rate * 0.999),
        number(name::SYNC_APPLIED_BYTES_RATE, "MB/s of binlog", Better::Higher, rate * 300.0 / 1e6),
        histogram(name::LAG_MARKER, "us", spread(lag_us, 400))
            .with_clock("marker rows every 50 ms, polled every 2 ms"),
        histogram(name::LAG_CHECKPOINT, "us", spread(1_000_000, 200))
            .with_clock("checkpoint row, flushed every 1 s"),
        histogram(name::LAG_BYTES, "bytes", spread((rate * 300.0) as u64, 200)),
        number(name::LAG_SLOPE, "s/s", Better::Lower, 0.0004),
        number(name::MARKER_SHARE, "share", Better::Lower, 0.004),
        number(name::DRAIN_TIME, "s", Better::Lower, 0.31),
        histogram(name::SERVICE, "us", spread(900, 20_000)),
        histogram(name::RESPONSE, "us", spread(1_000, 20_000)),
        histogram(name::DELAY, "us", spread(80, 20_000)),
        histogram(name::SYNC_TRANSACTION, "us", spread(9_000, 1_200)),
        histogram(name::TARGET_STATEMENT, "us", spread(400, 12_000)),
        number(name::TARGET_QPS, "statements/s", Better::Neither, rate * 1.2),
        number("cpu.source", "cores", Better::Neither, 0.3),
        number("cpu.target", "cores", Better::Neither, 0.4),
        number("cpu.pipeline", "cores", Better::Neither, 0.2),
        number("cpu.generator", "cores", Better::Neither, 0.25),
    ]
}

/// Metrics of a model `drive` trial.
pub(crate) fn drive_metrics(rate: f64, service_us: u64) -> Vec<Metric> {
    let histogram = |n, h| Metric::histogram(n, "us", Better::Lower, h);
    vec![
        Metric::number(name::OFFERED, "ops/s", Better::Neither, rate),
        Metric::number(name::ACHIEVED, "ops/s", Better::Higher, rate),
        Metric::number(name::COMMITTED_ROWS, "rows", Better::Neither, rate * 10.0),
        histogram(name::DELAY, spread(1, 12_000)),
        histogram(name::SERVICE, spread(service_us, 12_000)),
        histogram(name::RESPONSE, spread(service_us, 12_000)),
    ]
}

/// All trials of a task: `metrics(index of the point, block)` gives each one's metrics.
pub(crate) fn trials(task: &TaskFacts, metrics: impl Fn(usize, u32) -> Vec<Metric>) -> Vec<Trial> {
    let mut all = Vec::new();
    for block in 1..=task.blocks {
        for place in 0..task.points.len() {
            // Not the order of the points: blocks are shuffled in a real run.
            let at = (place + block as usize) % task.points.len();
            let mut trial = trial(task, &task.points[at], block, all.len() as u32 + 1);
            trial.metrics = metrics(at, block);
            all.push(trial);
        }
    }
    all
}

/// A sweep over worker counts as one expects it: it rises, then stays flat from 8 on.
pub(crate) fn worker_sweep() -> (Run, Vec<Trial>) {
    let task = task("worker-count", Model::Backlog, Some(&WORKER_COUNT), &[1, 2, 4, 8, 16]);
    let rates = [3_100.0, 6_050.0, 11_400.0, 16_200.0, 16_600.0];
    let trials = trials(&task, |at, block| {
        // Up to ± 2 % for each trial, in no order.
        let noise = 1.0 + 0.01 * (f64::from((at as u32 * 3 + block * block * 2) % 5) - 2.0);
        backlog_metrics(rates[at] * noise, 29_000 + 2_000 * at as u64)
    });
    (run(vec![task]), trials)
}
