//! The comparison itself: sessions that take chunk after chunk, and what each chunk comes to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::event::{Event, Events};
use crate::mysql::patience::WORK_LIMIT;
use crate::mysql::{Endpoint, Session};
use crate::trial::verify::Error;
use crate::trial::verify::difference::{Difference, Fate, MOST_EXAMPLES, between};
use crate::trial::verify::plan::Plan;
use crate::trial::verify::reading::{End, bucket_sums, first_rows, in_buckets, rows, sums};
use crate::trial::verify::tables::{Chunk, Survey};

/// Sessions on each end.
const SESSIONS: usize = 3;

/// Rows of a differing chunk that are read directly; a larger chunk is split into buckets first.
const READ_DIRECTLY: u64 = 25_000;

/// Rows in one bucket of a large chunk.
const BUCKET_ROWS: u64 = 2_000;

/// Rows that are read one by one in all. Differences beyond that are only counted roughly.
const MOST_ROWS_READ: u64 = 1_000_000;

/// A session on each end.
#[derive(Debug)]
pub(super) struct SessionPair {
    pub(super) source: Session,
    pub(super) target: Session,
}

impl SessionPair {
    /// Connects to both ends and makes their text output independent of SQL modes.
    pub(super) async fn connect(source: &Endpoint, target: &Endpoint) -> Result<Self, Error> {
        let (source, target) = tokio::try_join!(connect(source), connect(target))?;
        Ok(SessionPair { source, target })
    }
}

/// PAD_CHAR_TO_FULL_LENGTH, PIPES_AS_CONCAT and ANSI_QUOTES would change what expressions mean.
/// Statements differ in their literals, so that none is worth keeping prepared.
async fn connect(endpoint: &Endpoint) -> Result<Session, Error> {
    let mut session = Session::connect_with(endpoint, |opts| opts.stmt_cache_size(0)).await?;
    session.wait_up_to(WORK_LIMIT);
    session.execute("SET SESSION sql_mode = '', net_write_timeout = 600").await?;
    Ok(session)
}

/// What comparing all chunks gave.
#[derive(Debug)]
pub(super) struct Compared {
    /// The sessions that came in.
    pub(super) pair: SessionPair,
    /// Rows compared on the source.
    pub(super) rows: u64,
    /// Counts over all chunks.
    pub(super) difference: Difference,
    /// `schema.table key: what`, in the order of tables and keys.
    pub(super) examples: Vec<String>,
}

/// What the sessions share.
struct Shared {
    plans: Vec<Plan>,
    chunks: Vec<Chunk>,
    next: AtomicUsize,
    rows: AtomicU64,
    may_read: AtomicU64,
    events: Events,
}

/// Compares all chunks of a survey.
pub(super) async fn compare(
    source: &Endpoint,
    target: &Endpoint,
    pair: SessionPair,
    survey: &Survey,
    events: &Events,
) -> Result<Compared, Error> {
    let shared = Arc::new(Shared {
        plans: survey.plans.clone(),
        chunks: survey.chunks.clone(),
        next: AtomicUsize::new(0),
        rows: AtomicU64::new(0),
        may_read: AtomicU64::new(MOST_ROWS_READ),
        events: events.clone(),
    });
    let mut pairs = vec![pair];
    while pairs.len() < SESSIONS.min(survey.chunks.len()) {
        pairs.push(SessionPair::connect(source, target).await?);
    }
    let mut jobs = JoinSet::new();
    for pair in pairs {
        jobs.spawn(take_chunks(pair, Arc::clone(&shared)));
    }
    let mut found = Vec::new();
    let mut kept = None;
    while let Some(joined) = jobs.join_next().await {
        let (pair, differences) = joined.expect("a comparing job neither panics nor is aborted")?;
        found.extend(differences);
        match kept {
            None => kept = Some(pair),
            Some(_) => {
                pair.source.close().await;
                pair.target.close().await;
            }
        }
    }
    found.sort_by_key(|(chunk, _)| *chunk);
    let mut compared = Compared {
        pair: kept.expect("there is at least one pair of sessions"),
        rows: shared.rows.load(Ordering::Relaxed),
        difference: Difference::default(),
        examples: Vec::new(),
    };
    for (chunk, difference) in found {
        compared.add(&shared.plans[shared.chunks[chunk].plan].name, difference);
    }
    Ok(compared)
}

impl Compared {
    fn add(&mut self, table: &str, found: Difference) {
        self.difference.missing += found.missing;
        self.difference.surplus += found.surplus;
        self.difference.changed += found.changed;
        self.difference.at_least |= found.at_least;
        for (key, fate) in found.first {
            if self.examples.len() < MOST_EXAMPLES {
                self.examples.push(format!("{table} {key}: {}", fate.words()));
            }
        }
    }
}

/// Differences by the index of their chunk.
type Found = Vec<(usize, Difference)>;

async fn take_chunks(
    mut pair: SessionPair,
    shared: Arc<Shared>,
) -> Result<(SessionPair, Found), Error> {
    let mut found = Vec::new();
    loop {
        let index = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(chunk) = shared.chunks.get(index) else { return Ok((pair, found)) };
        let plan = &shared.plans[chunk.plan];
        let (rows, difference) = compare_chunk(&mut pair, plan, chunk, &shared.may_read).await?;
        let done = shared.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        shared.events.send(Event::Progress { what: "rows compared", done, of: None });
        if !difference.is_empty() {
            found.push((index, difference));
        }
    }
}

/// Rows of the source in the chunk, and what differs.
async fn compare_chunk(
    pair: &mut SessionPair,
    plan: &Plan,
    chunk: &Chunk,
    may_read: &AtomicU64,
) -> Result<(u64, Difference), Error> {
    let condition = &chunk.condition;
    let (ours, theirs) = (End { plan, side: &plan.source }, End { plan, side: &plan.target });
    let (s, t) = tokio::try_join!(
        sums(&mut pair.source, ours, condition),
        sums(&mut pair.target, theirs, condition)
    )?;
    if s == t {
        return Ok((s.rows, Difference::default()));
    }
    let difference = if t.rows == 0 {
        one_sided(&mut pair.source, ours, condition, s.rows, Fate::Missing).await?
    } else if s.rows == 0 {
        one_sided(&mut pair.target, theirs, condition, t.rows, Fate::Surplus).await?
    } else if s.rows.max(t.rows) <= READ_DIRECTLY || !plan.exact.is_empty() {
        if take(may_read, s.rows.max(t.rows)) {
            pair_rows(pair, ours, condition, theirs, condition).await?
        } else {
            Difference::from_counts(s.rows, t.rows)
        }
    } else {
        let count = (s.rows.max(t.rows) / BUCKET_ROWS).clamp(2, 4_096);
        compare_buckets(pair, plan, condition, count, may_read).await?
    };
    Ok((s.rows, difference))
}

/// Whether so many rows may still be read one by one; counts them if so.
fn take(may_read: &AtomicU64, rows: u64) -> bool {
    let less = |left: u64| left.checked_sub(rows);
    may_read.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

/// All rows of a chunk are at one end only: the count is known, a few keys are read to show them.
async fn one_sided(
    session: &mut Session,
    end: End<'_>,
    condition: &str,
    count: u64,
    fate: Fate,
) -> Result<Difference, Error> {
    let mut difference = Difference::default();
    for row in first_rows(session, end, condition, MOST_EXAMPLES).await? {
        difference.add(fate, &row.key, 1);
    }
    match fate {
        Fate::Missing => difference.missing = count,
        Fate::Surplus | Fate::Changed => difference.surplus = count,
    }
    Ok(difference)
}

async fn pair_rows(
    pair: &mut SessionPair,
    ours: End<'_>,
    our_condition: &str,
    theirs: End<'_>,
    their_condition: &str,
) -> Result<Difference, Error> {
    let (s, t) = tokio::try_join!(
        rows(&mut pair.source, ours, our_condition),
        rows(&mut pair.target, theirs, their_condition)
    )?;
    Ok(between(s, t))
}

/// Splits a large chunk by a hash of its keys, which needs no order that both ends agree on, and
/// reads the rows of the buckets that differ.
async fn compare_buckets(
    pair: &mut SessionPair,
    plan: &Plan,
    condition: &str,
    count: u64,
    may_read: &AtomicU64,
) -> Result<Difference, Error> {
    let (ours, theirs) = (End { plan, side: &plan.source }, End { plan, side: &plan.target });
    let (mut s, mut t) = tokio::try_join!(
        bucket_sums(&mut pair.source, ours, condition, count),
        bucket_sums(&mut pair.target, theirs, condition, count)
    )?;
    let (mut to_read, mut left_s, mut left_t) = (Vec::new(), 0, 0);
    for bucket in 0..count {
        let (s, t) = (s.remove(&bucket).unwrap_or_default(), t.remove(&bucket).unwrap_or_default());
        if s == t {
            continue;
        }
        if take(may_read, s.rows.max(t.rows)) {
            to_read.push(bucket);
        } else {
            left_s += s.rows;
            left_t += t.rows;
        }
    }
    let our_condition = in_buckets(ours, condition, count, &to_read);
    let their_condition = in_buckets(theirs, condition, count, &to_read);
    let mut difference = if to_read.is_empty() {
        Difference::default()
    } else {
        pair_rows(pair, ours, &our_condition, theirs, &their_condition).await?
    };
    if left_s + left_t > 0 {
        let left = Difference::from_counts(left_s, left_t);
        difference.missing += left.missing;
        difference.surplus += left.surplus;
        difference.changed += left.changed;
        difference.at_least = true;
    }
    Ok(difference)
}
