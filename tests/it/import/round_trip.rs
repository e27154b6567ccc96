//! What is loaded equals what was there.

use dmbench::error::ErrorClass;
use dmbench::mysql::session::quote_name;
use dmbench::mysql::{Flavor, owner};
use dmbench::pipeline::builtin::{Load, load};
use dmbench::pipeline::{Progress, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{SOURCES, content, dump_to, load_from, tables};
use crate::support::{Pair, mixed_pair, pair, schema};

async fn round_trip(pair: &Pair, schema: &str, tables: &[&str]) {
    let folder = tempfile::tempdir().expect("folder");
    let dumped = dump_to(pair.source(), &[schema.to_owned()], folder.path()).await;
    let loaded = load_from(pair.target(), folder.path()).await;
    let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
    for table in tables {
        let table = format!("{}.{}", quote_name(schema), quote_name(table));
        let (there, here) =
            (content(&mut source, &table).await, content(&mut target, &table).await);
        assert_eq!(here, there, "{table}");
    }
    assert_eq!(loaded.rows, dumped.rows);
    assert_eq!(loaded.statement.n(), loaded.statements);
    assert_eq!(loaded.transaction.n(), loaded.statements);
    assert!(loaded.bytes < dumped.bytes, "files hold headers beside the statements");
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_tables_arrive_equal() {
    for flavor in SOURCES {
        let pair = pair(flavor);
        let schema = schema("odd. `x'%");
        let mut source = pair.source_session().await;
        tables::make(&mut source, &schema).await;
        round_trip(pair, &schema, &tables::TABLES).await;
        source.execute(&format!("DROP DATABASE {}", quote_name(&schema))).await.expect("dropped");
        let mut target = pair.target_session().await;
        owner::drop_if_ours(&mut target, &schema).await.expect("it is ours");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sysbench_tables_pass_between_flavours() {
    let mixed = mixed_pair();
    let schema = schema("mixed");
    let mut source = mixed.source_session().await;
    owner::recreate(&mut source, &schema, "test").await.expect("schema");
    source
        .execute(&format!(
            "CREATE TABLE {schema}.sbtest1 (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT \
             0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY \
             (id), KEY k_1 (k)) COLLATE utf8mb4_bin"
        ))
        .await
        .expect("table");
    let rows: Vec<_> = (1..400).map(|n| format!("({n}, {n}, 'c{n}', 'pad')")).collect();
    source
        .execute(&format!("INSERT INTO {schema}.sbtest1 VALUES {}", rows.join(",")))
        .await
        .expect("rows");
    round_trip(mixed, &schema, &["sbtest1"]).await;
    let mut target = mixed.target_session().await;
    let owned = format!("SELECT run FROM {schema}._dmbench");
    let run: Option<String> = target.value(&owned).await.expect("the owner table");
    assert_eq!(run.as_deref(), Some("test"), "the target's own owner row, not the source's");
    for session in [&mut source, &mut target] {
        owner::drop_if_ours(session, &schema).await.expect("dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_chunks_and_files_hold_each_row_once() {
    let pair = pair(Flavor::Mysql);
    let schema = schema("chunks");
    let mut source = pair.source_session().await;
    tables::make(&mut source, &schema).await;
    let folder = tempfile::tempdir().expect("folder");
    let dumped = dump_to(pair.source(), std::slice::from_ref(&schema), folder.path()).await;
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    let of_nulls: Vec<_> = names.iter().filter(|n| n.contains("maybe_null.0")).collect();
    assert!(of_nulls.len() > 2, "200 rows at 40 per chunk: {of_nulls:?}");
    assert!(!names.iter().any(|n| n.contains(".nothing.0")), "no rows, no file");
    let size: u64 = names
        .iter()
        .filter(|n| n.contains(".0"))
        .map(|n| std::fs::metadata(folder.path().join(n)).expect("file").len())
        .sum();
    assert_eq!(size, dumped.bytes);
    source.execute(&format!("DROP DATABASE {schema}")).await.expect("dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_not_ours_is_left_alone() {
    for flavor in SOURCES {
        let pair = pair(flavor);
        let schema = schema("theirs");
        let (mut source, mut target) = (pair.source_session().await, pair.target_session().await);
        for session in [&mut source, &mut target] {
            session.execute(&format!("CREATE DATABASE {schema}")).await.expect("made");
            let sql = format!("CREATE TABLE {schema}.precious (id INT PRIMARY KEY)");
            session.execute(&sql).await.expect("made");
        }
        let folder = tempfile::tempdir().expect("folder");
        dump_to(pair.source(), std::slice::from_ref(&schema), folder.path()).await;
        let progress = watch::Sender::new(Progress::new(Unit::Load));
        let cancel = CancellationToken::new();
        let settings = Load::default();
        let refused =
            load::run(&settings, pair.target(), "test", folder.path(), &progress, &cancel).await;
        let error = refused.expect_err("the schema holds no owner table");
        assert_eq!(error.class(), ErrorClass::Lab, "{error}");
        assert!(target.has_schema(&schema).await.expect("asked"));
        for session in [&mut source, &mut target] {
            session.execute(&format!("DROP DATABASE {schema}")).await.expect("dropped");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_dump_is_not_loaded() {
    let pair = pair(Flavor::Mysql);
    let folder = tempfile::tempdir().expect("folder");
    let progress = watch::Sender::new(Progress::new(Unit::Load));
    let cancel = CancellationToken::new();
    let settings = Load::default();
    let refused =
        load::run(&settings, pair.target(), "test", folder.path(), &progress, &cancel).await;
    assert!(matches!(refused, Err(load::Error::File { .. })), "{refused:?}");
}
