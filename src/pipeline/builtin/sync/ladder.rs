//! The ladder: how fast each stage of sync is where the next one takes everything.
//!
//! Measured, not asserted: `tests/bench/ladder.sh` fills a server's binlog and runs this in release
//! mode. All of a rung runs on one thread, whose CPU time is what its rate is stated for.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::watch;

use crate::mysql::binlog::{Event, Stream};
use crate::mysql::raw::Raw;
use crate::mysql::{Endpoint, Position, Secret};
use crate::pipeline::builtin::Sync;
use crate::pipeline::builtin::sync::apply::{Applied, Applier, Failure, Timing};
use crate::pipeline::builtin::sync::change::{Change, ChangeStream, RowChange};
use crate::pipeline::builtin::sync::drive::{Parts, drive};
use crate::pipeline::builtin::sync::error::Error;
use crate::pipeline::builtin::sync::memory::{MemoryCheckpoints, NoDefiner};
use crate::pipeline::builtin::sync::plan::plan;
use crate::pipeline::builtin::sync::start::Start;
use crate::pipeline::builtin::sync::statement;
use crate::pipeline::builtin::sync::stream::{LiveChanges, Origin};
use crate::pipeline::{Progress, Unit};

/// No replica of the bench's servers has it.
const SERVER_ID: u32 = 0x7000_0001;

/// A binlog that holds what is to be read, from the environment variable `DMBENCH_LADDER` as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Backlog {
    /// What the backlog was made of.
    script: String,
    source_port: u16,
    target_port: u16,
    user: String,
    password_file: std::path::PathBuf,
    /// The source's schema, of which the target has the tables.
    schema: String,
    file: String,
    offset: u64,
    rounds: usize,
}

impl Backlog {
    fn endpoint(&self, port: u16) -> Endpoint {
        let password = std::fs::read_to_string(&self.password_file).expect("the password's file");
        Endpoint::tcp("127.0.0.1", port, &self.user, Secret::new(password.trim_end()))
    }

    fn source(&self) -> Endpoint {
        self.endpoint(self.source_port)
    }

    fn from(&self) -> Position {
        Position::new(&self.file, self.offset).expect("a position")
    }

    async fn changes(&self) -> LiveChanges {
        let origin = Origin {
            source: self.source(),
            target: self.endpoint(self.target_port),
            schemas: vec![self.schema.clone()],
            server_id: SERVER_ID,
        };
        LiveChanges::open(origin, &self.from()).await.expect("the binlog")
    }
}

/// What a rung read.
#[derive(Debug, Default)]
struct Read {
    rows: u64,
    bytes: u64,
}

/// The binlog's packets as they come.
async fn bytes(backlog: &Backlog) -> Read {
    let mut raw = Raw::connect(&backlog.source()).await.expect("the source");
    let mut read = Read::default();
    let each = |event: &[u8]| read.bytes += event.len() as u64;
    raw.binlog(SERVER_ID, &backlog.from(), each).await.expect("the binlog");
    read
}

/// Events, their rows as bytes.
async fn events(backlog: &Backlog) -> Read {
    let source = backlog.source();
    let mut stream = Stream::open(&source, &backlog.from(), SERVER_ID).await.expect("the binlog");
    while !matches!(stream.next().await.expect("an event"), Event::Idle { .. }) {}
    Read { rows: 0, bytes: stream.byte_count() }
}

/// Rows as values.
async fn decode(backlog: &Backlog) -> Read {
    let mut changes = backlog.changes().await;
    let mut rows = 0;
    loop {
        match changes.next().await.expect("a change") {
            Change::Row(_) => rows += 1,
            Change::Idle { .. } => return Read { rows, bytes: changes.byte_count() },
            _ => {}
        }
    }
}

/// A target that takes everything at once.
struct Nowhere {
    /// Whether the text of the statements is made all the same.
    text: bool,
    sql: Vec<u8>,
}

impl Applier for Nowhere {
    async fn apply(
        &mut self,
        batch: &[RowChange],
        replay: bool,
        _: &mut Timing,
    ) -> Result<Applied, Failure> {
        if self.text {
            for step in plan(batch, false, replay) {
                self.sql.clear();
                statement::write(step, &mut self.sql);
                std::hint::black_box(&self.sql);
            }
        }
        tokio::task::yield_now().await;
        Ok(Applied { statements: batch.len() as u64, mismatched: 0 })
    }

    async fn recover(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// The whole unit, with 16 workers, before a target that takes everything.
async fn unit(backlog: &Backlog, text: bool) -> Read {
    let start = Start {
        position: backlog.from(),
        replay_until: None,
        safe_for: None,
        pending: None,
        owed: None,
    };
    let appliers = (0..16).map(|_| Nowhere { text, sql: Vec::new() }).collect();
    let stream = backlog.changes().await;
    let checkpoints = MemoryCheckpoints::default();
    let parts = Parts { stream, appliers, definer: NoDefiner, checkpoints };
    let (progress, mut watched) = watch::channel(Progress::new(Unit::Sync));
    let mut source = crate::mysql::Session::connect(&backlog.source()).await.expect("the source");
    let end = source.binlog_position().await.expect("its position");
    let drain = async {
        let reached = |p: &Progress| p.applied.as_ref().is_some_and(|a| a.reached(&end));
        watched.wait_for(reached).await.expect("progress");
    };
    let synced = drive(&Sync::default(), start, parts, &progress, drain).await.expect("applied");
    Read { rows: synced.rows, bytes: synced.bytes }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = stat.split_whitespace().next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds"))
}

#[derive(Debug, Clone, Copy)]
enum Rung {
    Bytes,
    Events,
    Decode,
    Conflict,
    Text,
}

impl Rung {
    const ALL: [(Rung, &str); 5] = [
        (Rung::Bytes, "packets, bytes dropped"),
        (Rung::Events, "+ events"),
        (Rung::Decode, "+ rows decoded"),
        (Rung::Conflict, "+ conflicts, 16 queues, null target"),
        (Rung::Text, "+ statements as text"),
    ];

    async fn climb(self, backlog: &Backlog) -> Read {
        match self {
            Rung::Bytes => bytes(backlog).await,
            Rung::Events => events(backlog).await,
            Rung::Decode => decode(backlog).await,
            Rung::Conflict => unit(backlog, false).await,
            Rung::Text => unit(backlog, true).await,
        }
    }
}

/// `median [least–greatest]`.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let [least, .., most] = values[..] else { return format!("{:.digits$}", values[0]) };
    format!("{:.digits$} [{least:.digits$}–{most:.digits$}]", values[values.len() / 2])
}

#[tokio::test]
#[ignore = "a measurement, which tests/bench/ladder.sh runs"]
async fn ladder() {
    let json = std::env::var("DMBENCH_LADDER").expect("DMBENCH_LADDER says where the backlog is");
    let backlog: Backlog = serde_json::from_str(&json).expect("DMBENCH_LADDER");
    let rows = decode(&backlog).await.rows;
    let mut times = vec![(Vec::new(), Vec::new(), 0_u64); Rung::ALL.len()];
    for _ in 0..backlog.rounds {
        for ((rung, name), (rates, wall, bytes)) in Rung::ALL.into_iter().zip(&mut times) {
            let (began, busy) = (Instant::now(), cpu());
            let read = rung.climb(&backlog).await;
            assert!(read.rows == 0 || read.rows == rows, "{name}: {} of {rows}", read.rows);
            rates.push(rows as f64 / (cpu() - busy).as_secs_f64() / 1e3);
            wall.push(rows as f64 / began.elapsed().as_secs_f64() / 1e3);
            *bytes = read.bytes;
        }
    }
    let mut out = std::io::stdout().lock();
    for ((_, name), (rates, wall, bytes)) in Rung::ALL.into_iter().zip(times) {
        let (rates, wall) = (spread(rates, 0), spread(wall, 0));
        let (script, mega) = (&backlog.script, bytes as f64 / 1e6);
        writeln!(out, "| {script} | {name} | {rates} | {wall} | {mega:.1} |").expect("printed");
    }
}
