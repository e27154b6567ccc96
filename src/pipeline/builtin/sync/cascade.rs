//! Rows that a source changes by a foreign key without a trace in its binlog.
//!
//! `ON DELETE CASCADE` and the like are carried out by InnoDB itself on MariaDB and on MySQL before
//! 9.6: the parent's row is in the binlog, the children's are not. Workers apply without checking
//! foreign keys, so the target would keep the children. A parent's change that may have done so ends
//! replication instead of letting both ends drift apart unseen.

use crate::mysql::binlog::Row;
use crate::mysql::session::Error as SessionError;
use crate::mysql::{Endpoint, Session};

/// Which changes of a parent table change children unseen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cascade {
    /// Deleting a row does.
    pub(super) on_delete: bool,
    /// Changing one of these columns does.
    pub(super) on_update: Vec<usize>,
}

impl Cascade {
    /// Why a change of this table cannot be replicated; `None` when it can.
    pub(super) fn refusal(
        &self,
        before: Option<&Row>,
        after: Option<&Row>,
    ) -> Option<&'static str> {
        match (before, after) {
            (Some(_), None) if self.on_delete => {
                Some("rows that its ON DELETE changes in other tables are not in the binlog")
            }
            (Some(before), Some(after))
                if self.on_update.iter().any(|&c| before[c] != after[c]) =>
            {
                Some("rows that its ON UPDATE changes in other tables are not in the binlog")
            }
            _ => None,
        }
    }
}

/// Answers for a source.
#[derive(Debug)]
pub(super) struct Cascades {
    source: Endpoint,
    /// `None` where the source writes all it changes.
    session: Option<Session>,
}

impl Cascades {
    /// Asks the source whether it hides cascades.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub(super) async fn open(source: &Endpoint) -> Result<Cascades, SessionError> {
        let mut session = Session::connect(source).await?;
        let sql = "SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'";
        let row = session.rows(sql).await?.into_iter().next();
        let native: Option<String> = row.and_then(|row| row.get(1));
        let session = if native.as_deref() == Some("OFF") {
            session.close().await;
            None
        } else {
            Some(session)
        };
        Ok(Cascades { source: source.clone(), session })
    }

    /// What the changes of a table with these columns do unseen.
    ///
    /// # Errors
    /// When the source refuses the question.
    pub(super) async fn of(
        &mut self,
        schema: &str,
        table: &str,
        columns: &[&str],
    ) -> Result<Option<Cascade>, SessionError> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let answer = match ask(session, schema, table).await {
            Err(error) if error.is_disconnect() => {
                *session = Session::connect(&self.source).await?;
                ask(session, schema, table).await?
            }
            answer => answer?,
        };
        let acts = |rule: &str| !matches!(rule, "RESTRICT" | "NO ACTION");
        let mut cascade = Cascade::default();
        for (column, on_delete, on_update) in answer {
            cascade.on_delete |= acts(&on_delete);
            let position = columns.iter().position(|known| known.eq_ignore_ascii_case(&column));
            if acts(&on_update) {
                cascade.on_update.extend(position);
            }
        }
        Ok(Some(cascade).filter(|cascade| *cascade != Cascade::default()))
    }
}

/// Columns that other tables refer to, with what deleting and updating does there.
async fn ask(
    session: &mut Session,
    schema: &str,
    table: &str,
) -> Result<Vec<(String, String, String)>, SessionError> {
    let sql = "SELECT k.referenced_column_name, r.delete_rule, r.update_rule \
               FROM information_schema.key_column_usage k \
               JOIN information_schema.referential_constraints r \
               ON r.constraint_schema = k.constraint_schema AND r.table_name = k.table_name \
               AND r.constraint_name = k.constraint_name \
               WHERE k.referenced_table_schema = ? AND k.referenced_table_name = ?";
    let rows = session.rows_with(sql, (schema, table)).await?;
    Ok(rows.into_iter().map(mysql_async::from_row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::value::Value;

    #[test]
    fn only_what_reaches_other_tables_is_refused() {
        let cascade = Cascade { on_delete: true, on_update: vec![0] };
        let row = |id, other| vec![Value::Int(id), Value::Int(other)];
        assert_eq!(cascade.refusal(None, Some(&row(1, 1))), None);
        assert_eq!(cascade.refusal(Some(&row(1, 1)), Some(&row(1, 2))), None);
        assert!(cascade.refusal(Some(&row(1, 1)), Some(&row(2, 1))).is_some());
        assert!(cascade.refusal(Some(&row(1, 1)), None).is_some());
        assert_eq!(Cascade::default().refusal(Some(&row(1, 1)), None), None);
    }
}
