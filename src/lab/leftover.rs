//! What runs left on a server, and its removal: schemas that hold dmbench's owner table, nothing else.

use crate::lab::Error;
use crate::mysql::{Endpoint, Session, owner};

/// Schemas that every run drops and makes anew: the one that is replicated, and the one that holds the
/// checkpoint on the target. Servers may not tell upper from lower case.
pub const OF_RUNS: [&str; 2] = ["dmbench", "dmbench_meta"];

/// The run's name in schemas that `dmbench drive … prepare` made, which are no run's.
pub const BY_HAND: &str = "drive";

/// A schema that dmbench made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Leftover {
    /// Its name.
    pub schema: String,
    /// The run that made it; empty where its owner table is empty.
    pub run: String,
    /// When, in UTC as the server tells it.
    pub created: String,
    /// Tables in it, the owner table included.
    pub tables: u64,
}

impl Leftover {
    /// Whether a run made it, which can only have crashed, or the next one drops it anyway; else it is
    /// the user's to clean up.
    pub fn is_of_run(&self) -> bool {
        self.run != BY_HAND || is_of_runs(&self.schema)
    }
}

/// Whether runs use a schema of this name.
pub fn is_of_runs(schema: &str) -> bool {
    OF_RUNS.iter().any(|of_runs| schema.eq_ignore_ascii_case(of_runs))
}

/// What is there, in order of names.
///
/// # Errors
/// When the server cannot be reached or asked.
pub async fn find(endpoint: &Endpoint) -> Result<Vec<Leftover>, Error> {
    let mut session = Session::connect(endpoint).await?;
    let mut found = Vec::new();
    for schema in owner::owned_schemas(&mut session).await? {
        let (run, created) = owner::mark(&mut session, &schema).await?.unwrap_or_default();
        let sql = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ?";
        let rows = session.rows_with(sql, (&schema,)).await?;
        let tables = rows.first().and_then(|row| row.get(0)).unwrap_or(0);
        found.push(Leftover { schema, run, created, tables });
    }
    session.close().await;
    Ok(found)
}

/// Drops schemas, each only if it still holds the owner table at that moment.
///
/// # Errors
/// When the server cannot be reached or refuses; schemas before that one are gone.
pub async fn remove(endpoint: &Endpoint, schemas: &[&str]) -> Result<(), Error> {
    let mut session = Session::connect(endpoint).await?;
    session.wait_up_to(crate::mysql::patience::WORK_LIMIT);
    for schema in schemas {
        owner::drop_if_ours(&mut session, schema).await?;
    }
    session.close().await;
    Ok(())
}
