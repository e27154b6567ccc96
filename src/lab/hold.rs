//! One run at a time: a lock on both ends, held by a session for as long as a run lasts.
//!
//! Two runs on one lab would drop each other's schemas. The lock is the servers' own (`GET_LOCK`), so
//! it needs no table, and goes when its session goes, however a run ends. A session that is lost ends
//! the run, since another may have begun by then.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::lab::Error;
use crate::mysql::{Endpoint, Flavor, Session};

/// Name of the lock.
pub const LOCK: &str = "dmbench";
/// Between two looks at the lock; far below every server's `wait_timeout`.
const EVERY: Duration = Duration::from_secs(5);

/// Both ends' locks. Dropped, they are given up.
#[derive(Debug)]
pub struct Hold {
    lost: watch::Receiver<Option<String>>,
    /// Cancelled when a lock is lost.
    gone: CancellationToken,
    end: CancellationToken,
    keepers: JoinSet<()>,
}

impl Hold {
    /// Takes the lock on both ends, without waiting for it.
    ///
    /// # Errors
    /// [`Error::Held`] when another session has it; [`Error::NoCluster`]; when an end cannot be
    /// reached.
    pub async fn take(source: &Endpoint, target: &Endpoint) -> Result<Hold, Error> {
        are_one_cluster(target).await?;
        let Some(source_session) = lock(source).await? else {
            return Err(held("source", source, None).await?);
        };
        let Some(target_session) = lock(target).await? else {
            let one = are_one(source, target).await?;
            let why = one.then_some("source and target are one server: name two");
            return Err(held("target", target, why).await?);
        };
        let (sender, lost) = watch::channel(None);
        let (gone, end) = (CancellationToken::new(), CancellationToken::new());
        let mut keepers = JoinSet::new();
        for (name, session) in [("source", source_session), ("target", target_session)] {
            let (sender, gone, end) = (sender.clone(), gone.clone(), end.clone());
            keepers.spawn(async move {
                if let Some(why) = keep(session, &end).await {
                    sender.send_replace(Some(format!("on the {name}: {why}")));
                    gone.cancel();
                }
            });
        }
        Ok(Hold { lost, gone, end, keepers })
    }

    /// Cancelled when a lock is lost.
    pub fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Why a lock was lost, if one was.
    ///
    /// # Errors
    /// [`Error::LockLost`].
    pub fn check(&self) -> Result<(), Error> {
        match &*self.lost.borrow() {
            None => Ok(()),
            Some(why) => Err(Error::LockLost { why: why.clone() }),
        }
    }

    /// Gives both locks up.
    pub async fn release(mut self) {
        self.end.cancel();
        while self.keepers.join_next().await.is_some() {}
    }
}

/// A session that has the lock; `None` when another session has it.
async fn lock(endpoint: &Endpoint) -> Result<Option<Session>, Error> {
    let mut session = Session::connect(endpoint).await?;
    if get_lock(&mut session, LOCK).await? {
        return Ok(Some(session));
    }
    session.close().await;
    Ok(None)
}

/// Takes a lock without waiting for it; whether it was free.
async fn get_lock(session: &mut Session, name: &str) -> Result<bool, Error> {
    let taken: Option<u64> = session.value(&format!("SELECT GET_LOCK('{name}', 0)")).await?;
    Ok(taken == Some(1))
}

/// Why the lock cannot be had on `endpoint`.
async fn held(end: &'static str, endpoint: &Endpoint, why: Option<&str>) -> Result<Error, Error> {
    let mut session = Session::connect(endpoint).await?;
    let holder = match session.server().flavor {
        // It answers 1 for whoever else has it.
        Flavor::Tidb => None,
        _ => session.value::<u64>(&format!("SELECT IS_USED_LOCK('{LOCK}')")).await?,
    };
    session.close().await;
    let why = match (why, holder) {
        (Some(why), _) => why.to_owned(),
        (None, Some(holder)) => format!("connection {holder} there has it"),
        (None, None) => "another session there has it".to_owned(),
    };
    Ok(Error::Held { end, endpoint: endpoint.to_string(), why })
}

/// Whether two addresses lead to one server, or to one cluster: what is locked by way of the first is
/// found locked by way of the second, under a name that nobody else has.
async fn are_one(first: &Endpoint, second: &Endpoint) -> Result<bool, Error> {
    let name = format!("{LOCK}-{:016x}", rand::random::<u64>());
    let (mut first, mut second) = (Session::connect(first).await?, Session::connect(second).await?);
    let is_locked = get_lock(&mut first, &name).await?;
    let is_free = get_lock(&mut second, &name).await?;
    first.close().await;
    second.close().await;
    Ok(is_locked && !is_free)
}

/// Makes sure that the addresses of an end all lead to one server or one cluster.
///
/// # Errors
/// [`Error::NoCluster`] when one does not; when one cannot be reached.
pub async fn are_one_cluster(end: &Endpoint) -> Result<(), Error> {
    let each = end.each();
    let Some((first, others)) = each.split_first() else { return Ok(()) };
    for other in others {
        if !are_one(first, other).await? {
            let (first, other) = (first.to_string(), other.to_string());
            return Err(Error::NoCluster { first, other });
        }
    }
    Ok(())
}

/// Looks after a lock until `end`; says why it is lost, if it is.
async fn keep(mut session: Session, end: &CancellationToken) -> Option<String> {
    let sql = format!("SELECT COALESCE(IS_USED_LOCK('{LOCK}') = CONNECTION_ID(), 0)");
    loop {
        tokio::select! {
            () = end.cancelled() => {
                session.close().await;
                return None;
            }
            () = tokio::time::sleep(EVERY) => {}
        }
        match session.value::<u64>(&sql).await {
            Ok(Some(1)) => {}
            Ok(_) => return Some("the session no longer has it".to_owned()),
            // An old TiDB cannot tell; a session that is there has what it took.
            Err(error) if error.code().is_some() && !error.is_disconnect() => {}
            Err(error) => return Some(format!("failed to {error}")),
        }
    }
}
