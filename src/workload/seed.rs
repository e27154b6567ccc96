//! Makes the tables and the rows they begin with, in parallel over tables and ranges of ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::keys::Keys;
use super::settings::Settings;
use super::sysbench;
use crate::error::ErrorClass;
use crate::event::{Event, Events};
use crate::mysql::patience::WORK_LIMIT;
use crate::mysql::{Endpoint, Session, owner};

/// Rows in one INSERT: with about 200 bytes of text each, near 512 KiB.
const CHUNK_ROWS: u64 = 2_600;
/// How often an INSERT is tried when the server says that trying again may help.
const TRIES: u32 = 20;

/// What a preparation made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeded {
    /// Rows inserted, as the server counted them.
    pub rows: u64,
    /// Bytes of SQL text that carried them.
    pub bytes: u64,
    /// How long it took, secondary indexes included.
    pub took: Duration,
}

/// A step of the preparation; the steps of one kind may be taken in any order.
#[derive(Debug, Clone, Copy)]
enum Step {
    Table(u32),
    Rows { table: u32, first: u64, last: u64 },
    Index(u32),
}

struct Ground {
    endpoint: Endpoint,
    schema: String,
    seed: u64,
    keys: Keys,
    events: Events,
    cancel: CancellationToken,
    rows: AtomicU64,
    bytes: AtomicU64,
    all_rows: u64,
}

/// Makes the schema anew (it must be ours or not be there), then tables, rows, and the secondary
/// index last, with `clients` sessions. The same settings and seed make the same rows, whatever
/// `clients` is. Sends [`Event::Progress`] in rows.
///
/// # Errors
/// When the settings make no sense, the schema is somebody else's, the server refuses, or `cancel`
/// is cancelled; the schema then holds a part.
#[expect(clippy::too_many_arguments, reason = "each is named in the same order everywhere")]
pub async fn prepare(
    settings: &Settings,
    endpoint: &Endpoint,
    schema: &str,
    run: &str,
    seed: u64,
    clients: u32,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Seeded, Error> {
    let Settings::Sysbench(settings) = settings;
    sysbench::check(settings)?;
    let began = Instant::now();
    let mut session = Session::connect(endpoint).await?;
    owner::recreate(&mut session, schema, run).await?;
    session.close().await;
    let ground = Arc::new(Ground {
        endpoint: endpoint.clone(),
        schema: schema.to_owned(),
        seed,
        keys: Keys::new(settings.rand_type, settings.table_size),
        events: events.clone(),
        cancel: cancel.clone(),
        rows: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        all_rows: u64::from(settings.tables) * settings.table_size,
    });
    let tables = 1..=settings.tables;
    take_steps(&ground, clients, tables.clone().map(Step::Table).collect()).await?;
    take_steps(&ground, clients, row_steps(settings.tables, settings.table_size)).await?;
    take_steps(&ground, clients, tables.map(Step::Index).collect()).await?;
    Ok(Seeded {
        rows: ground.rows.load(Ordering::Relaxed),
        bytes: ground.bytes.load(Ordering::Relaxed),
        took: began.elapsed(),
    })
}

/// Chunks of all tables, the first of each table first, so that few clients meet in one table and
/// each table grows at its end.
fn row_steps(tables: u32, table_size: u64) -> Vec<Step> {
    (1..=table_size)
        .step_by(CHUNK_ROWS as usize)
        .flat_map(|first| {
            let last = table_size.min(first + CHUNK_ROWS - 1);
            (1..=tables).map(move |table| Step::Rows { table, first, last })
        })
        .collect()
}

async fn take_steps(ground: &Arc<Ground>, clients: u32, steps: Vec<Step>) -> Result<(), Error> {
    let steps = Arc::new(steps);
    let next = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for _ in 0..(clients.max(1) as usize).min(steps.len()) {
        let (ground, steps, next) = (ground.clone(), steps.clone(), next.clone());
        running.spawn(async move {
            let mut session = Session::connect(&ground.endpoint).await?;
            session.wait_up_to(WORK_LIMIT);
            let mut sql = Vec::new();
            while let Some(step) = steps.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                ground.take(*step, &mut session, &mut sql).await?;
            }
            session.close().await;
            Ok::<(), Error>(())
        });
    }
    // The first error drops the set, which ends the others.
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

impl Ground {
    async fn take(
        &self,
        step: Step,
        session: &mut Session,
        sql: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let statement = match step {
            Step::Table(table) => sysbench::create_table_sql(&self.schema, table),
            Step::Index(table) => sysbench::create_index_sql(&self.schema, table),
            Step::Rows { table, first, last } => {
                sql.clear();
                let table_name = sysbench::quoted(&self.schema, table);
                sql.extend_from_slice(
                    format!("INSERT INTO {table_name} (id, k, c, pad) VALUES ").as_bytes(),
                );
                for id in first..=last {
                    if id > first {
                        sql.push(b',');
                    }
                    sysbench::push_row_sql(sql, self.seed, table, id, &self.keys);
                }
                String::from_utf8(std::mem::take(sql)).expect("digits and a quoted name")
            }
        };
        let rows = self.execute(session, &statement).await?;
        if let Step::Rows { .. } = step {
            self.bytes.fetch_add(statement.len() as u64, Ordering::Relaxed);
            let done = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
            let of = Some(self.all_rows);
            self.events.send(Event::Progress { what: "rows seeded", done, of });
            *sql = statement.into_bytes();
        }
        Ok(())
    }

    async fn execute(&self, session: &mut Session, statement: &str) -> Result<u64, Error> {
        for tried in 1.. {
            if self.cancel.is_cancelled() {
                break;
            }
            let done = tokio::select! {
                done = session.execute(statement) => done,
                () = self.cancel.cancelled() => break,
            };
            match done {
                Ok(rows) => return Ok(rows),
                // A lost connection leaves open whether the rows are there: that is an error here.
                Err(error)
                    if error.class() == ErrorClass::Transient
                        && !error.is_disconnect()
                        && tried < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Interrupted)
    }
}
