//! The sync unit's checkpoint: a row in the target, in a table laid out like DM's.
//!
//! `{meta schema}`.`{name}_syncer_checkpoint` holds one global row (`id = 'dmbench'`, `is_global =
//! 1`), which tools that read DM's checkpoints understand. Table points, which DM keeps beside it,
//! are not written: the global position is always a transaction's end before which everything is
//! applied. What DM keeps of a table in `table_info` is `null` in the global row; a DDL that is about
//! to run stands there as [`PendingDdl`], so that a crash around it can be told from one before it.

use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;
use crate::mysql::session::{Error as SessionError, quote_name};
use crate::mysql::{Endpoint, ParsePositionError, Position, Session, owner};

/// `id` of our row.
pub const ROW_ID: &str = "dmbench";

/// A failure around the checkpoint. Texts read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target refused a statement.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The meta schema is not ours.
    #[error(transparent)]
    Owner(#[from] owner::Error),
    /// The row holds no position.
    #[error("read the checkpoint in {table}: {source}")]
    Position {
        /// Table.
        table: String,
        /// What is wrong.
        source: ParsePositionError,
    },
    /// The row holds a DDL that cannot be understood.
    #[error("read the pending DDL in {table}: {source}")]
    Pending {
        /// Table.
        table: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// An offset does not fit the column.
    #[error("save checkpoint {position}: offsets beyond 4 GiB do not fit DM's table")]
    TooFar {
        /// The position.
        position: Position,
    },
}

impl Error {
    /// What may be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Session(error) => error.class(),
            Error::Owner(error) => error.class(),
            Error::Position { .. } | Error::Pending { .. } | Error::TooFar { .. } => {
                ErrorClass::Lab
            }
        }
    }
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Everything before is applied.
    pub position: Position,
    /// Up to here rows may be applied already although they stand behind `position`; `None` when
    /// that is not known. Equal to `position` after an orderly end.
    pub exit_safe: Option<Position>,
    /// The DDL that stands at `position` and that may be executed already.
    pub pending: Option<PendingDdl>,
}

/// A DDL that was about to be executed, and what its tables were like then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PendingDdl {
    /// Its end in the binlog.
    pub end: Position,
    /// The tables that it names, as they were before.
    pub tables: Vec<TableMark>,
}

/// A table of the target as it is at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableMark {
    /// Schema.
    pub schema: String,
    /// Name.
    pub table: String,
    /// A hash of its definition; `None` where there is no such table.
    pub definition: Option<String>,
    /// The server's number for it, which stays when it is renamed; `None` where the server does not
    /// tell.
    pub id: Option<u64>,
}

/// What `table_info` of the global row holds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Extra {
    pending_ddl: Option<PendingDdl>,
}

/// Where checkpoints are kept.
///
/// Contract: `save` returns `Ok` only when the checkpoint survives a crash of this process, and
/// replaces the one before as a whole. `load` gives the last one saved.
pub(crate) trait Checkpoints: Send + 'static {
    /// The last checkpoint, or `None` when there is none yet.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&mut self) -> impl Future<Output = Result<Option<Checkpoint>, Error>> + Send;

    /// Keeps a checkpoint.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&mut self, checkpoint: &Checkpoint) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes it usable after an error.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn recover(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The table's name without its schema.
pub fn table_name(name: &str) -> String {
    format!("{name}_syncer_checkpoint")
}

/// Checkpoints in a table of the target.
#[derive(Debug)]
pub(crate) struct TableCheckpoints {
    endpoint: Endpoint,
    session: Session,
    table: String,
}

impl TableCheckpoints {
    /// Connects; makes the meta schema and the table where they are missing.
    ///
    /// # Errors
    /// [`owner::Error::NotOurs`] when the schema exists and is somebody else's, or what the target
    /// refuses.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        meta_schema: &str,
        name: &str,
        run: &str,
    ) -> Result<TableCheckpoints, Error> {
        let mut session = Session::connect(endpoint).await?;
        owner::ensure(&mut session, meta_schema, run).await?;
        let table = format!("{}.{}", quote_name(meta_schema), quote_name(&table_name(name)));
        session
            .execute(&format!(
                "CREATE TABLE IF NOT EXISTS {table} (
  `id` varchar(32) NOT NULL,
  `cp_schema` varchar(128) NOT NULL,
  `cp_table` varchar(128) NOT NULL,
  `binlog_name` varchar(128) DEFAULT NULL,
  `binlog_pos` int unsigned DEFAULT NULL,
  `binlog_gtid` text DEFAULT NULL,
  `exit_safe_binlog_name` varchar(128) DEFAULT '',
  `exit_safe_binlog_pos` int unsigned DEFAULT '0',
  `exit_safe_binlog_gtid` text DEFAULT NULL,
  `table_info` json NOT NULL,
  `is_global` tinyint(1) DEFAULT NULL,
  `create_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  UNIQUE KEY `uk_id_schema_table` (`id`,`cp_schema`,`cp_table`)
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
            ))
            .await?;
        Ok(TableCheckpoints { endpoint: endpoint.clone(), session, table })
    }

    /// The table, with its schema, in backquotes.
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    fn position(
        &self,
        name: Option<String>,
        offset: Option<u64>,
    ) -> Result<Option<Position>, Error> {
        match name {
            None => Ok(None),
            Some(name) if name.is_empty() => Ok(None),
            Some(name) => Position::new(&name, offset.unwrap_or(4))
                .map(Some)
                .map_err(|source| Error::Position { table: self.table.clone(), source }),
        }
    }
}

impl Checkpoints for TableCheckpoints {
    async fn load(&mut self) -> Result<Option<Checkpoint>, Error> {
        let sql = format!(
            "SELECT binlog_name, binlog_pos, exit_safe_binlog_name, exit_safe_binlog_pos, \
             CAST(table_info AS CHAR) FROM {} WHERE id = ? AND is_global = 1",
            self.table
        );
        let rows = self.session.rows_with(&sql, (ROW_ID,)).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        let text = |column: usize| row.get::<Option<String>, usize>(column).flatten();
        let number = |column: usize| row.get::<Option<u64>, usize>(column).flatten();
        let exit_safe = self.position(text(2), number(3))?;
        let extra = text(4);
        let extra: Option<Extra> = serde_json::from_str(extra.as_deref().unwrap_or("null"))
            .map_err(|source| Error::Pending { table: self.table.clone(), source })?;
        let pending = extra.and_then(|extra| extra.pending_ddl);
        let position = self.position(text(0), number(1))?;
        Ok(position.map(|position| Checkpoint { position, exit_safe, pending }))
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let offset = |position: &Position| {
            u32::try_from(position.offset).map_err(|_| Error::TooFar { position: position.clone() })
        };
        let (exit_name, exit_offset) = match &checkpoint.exit_safe {
            Some(exit) => (exit.file.to_string(), offset(exit)?),
            None => (String::new(), 0),
        };
        let sql = format!(
            "INSERT INTO {} (id, cp_schema, cp_table, binlog_name, binlog_pos, binlog_gtid, \
             exit_safe_binlog_name, exit_safe_binlog_pos, exit_safe_binlog_gtid, table_info, is_global) \
             VALUES (?, '', '', ?, ?, '', ?, ?, '', ?, 1) ON DUPLICATE KEY UPDATE \
             binlog_name = VALUES(binlog_name), binlog_pos = VALUES(binlog_pos), \
             exit_safe_binlog_name = VALUES(exit_safe_binlog_name), \
             exit_safe_binlog_pos = VALUES(exit_safe_binlog_pos), table_info = VALUES(table_info)",
            self.table
        );
        let position = &checkpoint.position;
        let extra = checkpoint.pending.clone().map(|ddl| Extra { pending_ddl: Some(ddl) });
        let extra = serde_json::to_string(&extra)
            .map_err(|source| Error::Pending { table: self.table.clone(), source })?;
        let params =
            (ROW_ID, position.file.to_string(), offset(position)?, exit_name, exit_offset, extra);
        self.session.rows_with(&sql, params).await?;
        Ok(())
    }

    async fn recover(&mut self) -> Result<(), Error> {
        self.session = Session::connect(&self.endpoint).await?;
        Ok(())
    }
}
