//! How far the pipeline's checkpoint row is behind the source, in time and in bytes.
//!
//! A checkpoint moves when it is flushed, so this lag is a sawtooth with the flush interval in it:
//! it tells "caught up" and bytes behind, and is shown beside the markers, never instead of them.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::mysql::session::{Error as SessionError, Session, quote_name};
use crate::mysql::{ParsePositionError, Position};

/// Whether the pipeline keeps up, as far as positions tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The source does not move and the checkpoint is at its position: lag has no meaning.
    Idle,
    /// The source moves and the checkpoint is at its position.
    CaughtUp,
    /// The checkpoint is behind and moves.
    Lagging,
    /// The checkpoint is behind and does not move.
    Stalled,
}

/// A source that has not moved for this long is idle.
const STILL: Duration = Duration::from_secs(1);

/// A checkpoint that has not moved for this long may be stalled, if it usually moves more often.
const STALLED: Duration = Duration::from_secs(10);

impl Standing {
    /// The standing from what is seen: whether the checkpoint is at the source's position, for how
    /// long each of both has not moved, and the longest time that the checkpoint rested between two
    /// moves so far (a checkpoint flushed every 30 s rests for 30 s and is not stalled).
    pub fn of(
        at_source: bool,
        source_still: Duration,
        checkpoint_still: Duration,
        longest_rest: Duration,
    ) -> Standing {
        match at_source {
            true if source_still >= STILL => Standing::Idle,
            true => Standing::CaughtUp,
            false if checkpoint_still > STALLED.max(3 * longest_rest) => Standing::Stalled,
            false => Standing::Lagging,
        }
    }
}

/// One reading of the checkpoint row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    /// The position in the row.
    pub(super) position: Position,
    /// How long ago the source was there; `None` where the track does not reach back that far.
    pub(super) lag: Option<Duration>,
    /// Bytes from the checkpoint to the source's last known position.
    pub(super) bytes_behind: Option<u64>,
    /// Whether it keeps up.
    pub(super) standing: Standing,
}

/// When the checkpoint moved.
#[derive(Debug, Default)]
pub(super) struct Moves {
    last: Option<(Position, Instant)>,
    longest_rest: Duration,
}

impl Moves {
    /// Notes the position read at `at`; returns for how long it has rested there.
    pub(super) fn note(&mut self, position: &Position, at: Instant) -> Duration {
        match &self.last {
            Some((known, since)) if known == position => at.saturating_duration_since(*since),
            Some((_, since)) => {
                self.longest_rest = self.longest_rest.max(at.saturating_duration_since(*since));
                self.last = Some((position.clone(), at));
                Duration::ZERO
            }
            None => {
                self.last = Some((position.clone(), at));
                Duration::ZERO
            }
        }
    }

    /// The longest rest between two moves.
    pub(super) fn longest_rest(&self) -> Duration {
        self.longest_rest
    }
}

/// The statement that reads the position of the global checkpoint row.
pub(super) fn select(meta_schema: &str, table: &str) -> String {
    let (schema, table) = (quote_name(meta_schema), quote_name(table));
    format!("SELECT binlog_name, binlog_pos FROM {schema}.{table} WHERE is_global = 1")
}

/// A position from the row's columns. DM writes `mysql-bin|000001.000003` for the third file of the
/// first relay directory; the source's own name is `mysql-bin.000003`.
pub(super) fn position(name: &str, offset: u64) -> Result<Position, ParsePositionError> {
    if let Some((base, rest)) = name.split_once('|')
        && let Some((relay, number)) = rest.split_once('.')
        && relay.bytes().all(|b| b.is_ascii_digit())
    {
        return Position::new(&format!("{base}.{number}"), offset);
    }
    Position::new(name, offset)
}

/// Names and sizes of the source's binlog files, in order.
pub(super) async fn file_sizes(session: &mut Session) -> Result<Vec<(String, u64)>, SessionError> {
    let rows = session.rows("SHOW BINARY LOGS").await?;
    let file = |row: mysql_async::Row| Some((row.get::<String, _>(0)?, row.get::<u64, _>(1)?));
    Ok(rows.into_iter().filter_map(file).collect())
}

/// Bytes from `checkpoint` to `source`, over the files between them. `None` where a file is gone.
pub(super) fn bytes_behind(
    checkpoint: &Position,
    source: &Position,
    files: &[(String, u64)],
) -> Option<u64> {
    if checkpoint.reached(source) {
        return Some(0);
    }
    if let Some(bytes) = source.bytes_since(checkpoint) {
        return Some(bytes);
    }
    let index_of = |file: String| files.iter().position(|(name, _)| *name == file);
    let from = index_of(checkpoint.file.to_string())?;
    let to = index_of(source.file.to_string())?;
    let between: u64 = files.get(from..to)?.iter().map(|(_, size)| size).sum();
    (between + source.offset).checked_sub(checkpoint.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Position {
        text.parse().expect("position")
    }

    #[test]
    fn relay_names_of_dm_become_the_sources_own() {
        let read = |name: &str| position(name, 7).map(|p| p.to_string());
        assert_eq!(read("mysql-bin|000001.000003").as_deref(), Ok("mysql-bin.000003:7"));
        assert_eq!(read("mysql-bin.000003").as_deref(), Ok("mysql-bin.000003:7"));
        assert_eq!(read("odd|name.000003").as_deref(), Ok("odd|name.000003:7"));
        assert!(read("").is_err());
    }

    #[test]
    fn bytes_behind_add_up_over_files() {
        let files: Vec<(String, u64)> = [("b.000001", 1_000), ("b.000002", 500), ("b.000003", 70)]
            .map(|(name, size)| (name.to_owned(), size))
            .into();
        let behind = |from, to| bytes_behind(&at(from), &at(to), &files);
        assert_eq!(behind("b.000003:20", "b.000003:70"), Some(50));
        assert_eq!(behind("b.000001:900", "b.000003:70"), Some(100 + 500 + 70));
        assert_eq!(behind("b.000002:500", "b.000003:4"), Some(4));
        assert_eq!(behind("b.000003:70", "b.000003:60"), Some(0), "the source's sample is older");
        assert_eq!(behind("b.000000:4", "b.000003:70"), None, "purged");
    }

    #[test]
    fn rest_is_told_from_stall() {
        let s = Duration::from_secs;
        let of = |at, source, checkpoint, rest| Standing::of(at, s(source), s(checkpoint), s(rest));
        assert_eq!(of(true, 5, 5, 1), Standing::Idle);
        assert_eq!(of(true, 0, 5, 1), Standing::CaughtUp);
        assert_eq!(of(false, 60, 2, 1), Standing::Lagging);
        assert_eq!(of(false, 0, 11, 1), Standing::Stalled);
        assert_eq!(of(false, 0, 40, 30), Standing::Lagging, "flushed every 30 s");
        assert_eq!(of(false, 0, 91, 30), Standing::Stalled);
    }

    #[test]
    fn the_longest_rest_is_between_moves() {
        let start = Instant::now();
        let mut moves = Moves::default();
        let after = |s| start + Duration::from_secs(s);
        assert_eq!(moves.note(&at("b.000001:4"), after(0)), Duration::ZERO);
        assert_eq!(moves.note(&at("b.000001:4"), after(3)), Duration::from_secs(3));
        assert_eq!(moves.note(&at("b.000001:9"), after(4)), Duration::ZERO);
        assert_eq!(moves.note(&at("b.000001:9"), after(60)), Duration::from_secs(56));
        assert_eq!(moves.longest_rest(), Duration::from_secs(4));
    }
}
