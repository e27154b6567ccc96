//! What is loaded equals what was there.

use dmbench::error::ErrorClass;
use dmbench::mysql::session::quote_name;
use dmbench::mysql::{Endpoint, Flavor, Session, owner};
use dmbench::pipeline::builtin::{Load, load};
use dmbench::pipeline::{Progress, Unit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{SOURCES, alone, content, dump_to, load_from, tables};
use crate::support::{and_tidb, schema};

async fn round_trip(source: &Endpoint, target: &Endpoint, schema: &str, tables: &[&str]) {
    let folder = tempfile::tempdir().expect("folder");
    let dumped = dump_to(source, &[schema.to_owned()], folder.path()).await;
    let loaded = load_from(target, folder.path()).await;
    let mut source = Session::connect(source).await.expect("connected");
    let mut target = Session::connect(target).await.expect("connected");
    for table in tables {
        let table = format!("{}.{}", quote_name(schema), quote_name(table));
        let (mut there, here) =
            (content(&mut source, &table).await, content(&mut target, &table).await);
        if target.server().flavor == Flavor::Tidb {
            // It stores no sign of zero.
            there.iter_mut().for_each(|row| *row = row.replace(" -0,", " 0,"));
        }
        assert_eq!(here, there, "{table}");
    }
    assert_eq!(loaded.rows, dumped.rows);
    assert_eq!(loaded.statement.n(), loaded.statements);
    assert_eq!(loaded.transaction.n(), loaded.statements);
    assert!(loaded.bytes < dumped.bytes, "files hold headers beside the statements");
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_tables_arrive_equal() {
    for flavor in and_tidb(SOURCES) {
        let pair = &*alone(flavor).await;
        let schema = schema("odd. `x'%");
        let mut source = pair.source_session().await;
        tables::make(&mut source, &schema).await;
        round_trip(pair.source(), pair.target(), &schema, &tables::TABLES).await;
        source.execute(&format!("DROP DATABASE {}", quote_name(&schema))).await.expect("dropped");
        let mut target = pair.target_session().await;
        owner::drop_if_ours(&mut target, &schema).await.expect("it is ours");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sysbench_tables_pass_between_flavours() {
    let (mysql, mariadb) = (alone(Flavor::Mysql).await, alone(Flavor::Mariadb).await);
    for (from, to) in [(&mysql, &mariadb), (&mariadb, &mysql)] {
        sysbench_table(from.source(), to.target()).await;
    }
}

async fn sysbench_table(from: &Endpoint, to: &Endpoint) {
    let schema = schema("mixed");
    let mut source = Session::connect(from).await.expect("connected");
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
    round_trip(from, to, &schema, &["sbtest1"]).await;
    let mut target = Session::connect(to).await.expect("connected");
    let owned = format!("SELECT run FROM {schema}._dmbench");
    let run: Option<String> = target.value(&owned).await.expect("the owner table");
    assert_eq!(run.as_deref(), Some("test"), "the target's own owner row, not the source's");
    for session in [&mut source, &mut target] {
        owner::drop_if_ours(session, &schema).await.expect("dropped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_chunks_and_files_hold_each_row_once() {
    let pair = &*alone(Flavor::Mysql).await;
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
    for flavor in and_tidb(SOURCES) {
        let pair = &*alone(flavor).await;
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
    let pair = &*alone(Flavor::Mysql).await;
    let folder = tempfile::tempdir().expect("folder");
    let progress = watch::Sender::new(Progress::new(Unit::Load));
    let cancel = CancellationToken::new();
    let settings = Load::default();
    let refused =
        load::run(&settings, pair.target(), "test", folder.path(), &progress, &cancel).await;
    assert!(matches!(refused, Err(load::Error::File { .. })), "{refused:?}");
}
