//! A load whose connections are cut ends with the same rows, or says that it cannot know.

use std::net::SocketAddr;

use dmbench::lab::proxy::Proxy;
use dmbench::mysql::{Address, Endpoint, Flavor, owner};
use dmbench::pipeline::builtin::{Load, load};
use dmbench::pipeline::{Progress, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{SOURCES, alone, content, dump_to};
use crate::support::{Pair, and_tidb, schema};

const ROWS: u64 = 12_000;

/// A dump of one table of [`ROWS`] rows in a few hundred statements.
async fn dumped(pair: &Pair, schema: &str, key: &str) -> tempfile::TempDir {
    let mut source = pair.source_session().await;
    owner::recreate(&mut source, schema, "test").await.expect("schema");
    let sql = format!("CREATE TABLE {schema}.t (id INT NOT NULL, v VARCHAR(20){key})");
    source.execute(&sql).await.expect("table");
    let rows: Vec<_> = (0..ROWS).map(|n| format!("({n},'v{n}')")).collect();
    let sql = format!("INSERT INTO {schema}.t VALUES {}", rows.join(","));
    source.execute(&sql).await.expect("rows");
    let folder = tempfile::tempdir().expect("folder");
    dump_to(pair.source(), &[schema.to_owned()], folder.path()).await;
    folder
}

/// Loads through a proxy that is cut whenever another thousand rows have arrived.
async fn load_with_cuts(
    pair: &Pair,
    folder: &std::path::Path,
) -> Result<(load::Loaded, u32), load::Error> {
    let address: SocketAddr = pair.target().address.to_string().parse().expect("an address");
    let proxy = Proxy::start(address).expect("proxy");
    let (host, port) = (proxy.address().ip().to_string(), proxy.address().port());
    let target = Endpoint { address: Address::Tcp { host, port }, ..pair.target().clone() };
    let progress = watch::Sender::new(Progress::new(Unit::Load));
    let mut seen = progress.subscribe();
    let cutting = async {
        let mut cuts = 0;
        for rows in (1..6).map(|n| n * 1_000) {
            seen.wait_for(|p| p.rows >= rows).await.expect("the load lives");
            proxy.cut();
            cuts += 1;
        }
        cuts
    };
    let cancel = CancellationToken::new();
    let settings = Load { pool_size: 2 };
    let loading = load::run(&settings, &target, "test", folder, &progress, &cancel);
    let loading = async {
        let loaded = loading.await?;
        Ok::<_, load::Error>(loaded)
    };
    tokio::try_join!(loading, async { Ok(cutting.await) })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_key_arrives_equal_over_lost_connections() {
    for flavor in and_tidb(SOURCES) {
        let pair = &*alone(flavor).await;
        let schema = schema("lost");
        let folder = dumped(pair, &schema, ", PRIMARY KEY (id)").await;
        let (loaded, cuts) = load_with_cuts(pair, folder.path()).await.expect("loaded");
        assert_eq!((loaded.rows, cuts), (ROWS, 5));
        let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
        let table = format!("{schema}.t");
        assert_eq!(content(&mut target, &table).await, content(&mut source, &table).await);
        for session in [&mut source, &mut target] {
            owner::drop_if_ours(session, &schema).await.expect("dropped");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_key_is_not_guessed_at() {
    let pair = &*alone(Flavor::Mysql).await;
    let schema = schema("fate");
    let folder = dumped(pair, &schema, "").await;
    let error = load_with_cuts(pair, folder.path()).await.expect_err("it cannot know");
    assert!(matches!(error, load::Error::UnknownFate { .. }), "{error}");
    let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
    for session in [&mut source, &mut target] {
        owner::drop_if_ours(session, &schema).await.expect("dropped");
    }
}
