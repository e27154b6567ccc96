//! The pipeline's process: its events, its end, and that it outlives nobody.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use dmbench::mysql::Flavor;
use dmbench::pipeline::builtin::{self, Load};
use dmbench::pipeline::{AnyPipeline, How, Settings, Start, State, Unit, UnitEvent};
use tokio_util::sync::CancellationToken;

use super::{alone, content, context, small, tables};
use crate::support::{DMBENCH, schema};

/// Only to keep a failing test from hanging.
const HANG: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    let load = Load { pool_size: 3 };
    Settings::Builtin(builtin::Settings { dump: small(), load, ..builtin::Settings::default() })
}

async fn all_events(pipeline: &mut AnyPipeline) -> Vec<UnitEvent> {
    let mut events = Vec::new();
    while let Some(event) = tokio::time::timeout(HANG, pipeline.next_event()).await.expect("ends") {
        events.push(event);
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_import_waits_for_release_and_tells_its_units() {
    let pair = &*alone(Flavor::Mysql).await;
    let schema = schema("process");
    let mut source = pair.source_session().await;
    tables::make(&mut source, &schema).await;
    let folder = tempfile::tempdir().expect("folder");
    let mut pipeline = AnyPipeline::new(&settings(), context(pair, &schema, folder.path()));
    let cancel = CancellationToken::new();
    let mut progress = pipeline.progress();
    pipeline.start(Start::Full, true, &cancel).await.expect("started");
    let held = progress.wait_for(|p| p.state == State::Held);
    tokio::time::timeout(HANG, held).await.expect("held in time").expect("held");
    assert!(pipeline.process_id().is_some_and(|id| id != std::process::id()));
    pipeline.release().await.expect("released");
    let events = all_events(&mut pipeline).await;
    pipeline.stop(How::Drain).await.expect("a good end");
    let units: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            UnitEvent::Began { unit, .. } => Some((*unit, None)),
            UnitEvent::Ended { unit, rows, error: None, .. } => Some((*unit, Some(*rows))),
            _ => None,
        })
        .collect();
    let rows = progress.borrow().rows;
    assert_eq!(
        units,
        [
            (Unit::Dump, None),
            (Unit::Dump, Some(rows)),
            (Unit::Load, None),
            (Unit::Load, Some(rows))
        ],
        "{events:?}"
    );
    assert_eq!(progress.borrow().state, State::Finished);
    let mut target = pair.target_session().await;
    let table = format!("{schema}.sparse");
    assert_eq!(content(&mut target, &table).await, content(&mut source, &table).await);
    source.execute(&format!("DROP DATABASE {schema}")).await.expect("dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_fails_is_told_with_its_text() {
    let pair = &*alone(Flavor::Mysql).await;
    let folder = tempfile::tempdir().expect("folder");
    let mut pipeline = AnyPipeline::new(&settings(), context(pair, "no_such_one", folder.path()));
    let cancel = CancellationToken::new();
    pipeline.start(Start::All, false, &cancel).await.expect("started");
    let events = all_events(&mut pipeline).await;
    let told = events.iter().any(
        |e| matches!(e, UnitEvent::Ended { error: Some(text), .. } if text.contains("no_such_one")),
    );
    assert!(told, "{events:?}");
    let error = pipeline.stop(How::Drain).await.expect_err("it failed");
    assert!(error.to_string().contains("no_such_one"), "{error}");
    assert_eq!(pipeline.progress().borrow().state, State::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_is_told_as_failed() {
    let pair = &*alone(Flavor::Mysql).await;
    let folder = tempfile::tempdir().expect("folder");
    let mut pipeline = AnyPipeline::new(&settings(), context(pair, "unread", folder.path()));
    let cancel = CancellationToken::new();
    let mut progress = pipeline.progress();
    pipeline.start(Start::Dump, true, &cancel).await.expect("started");
    progress.wait_for(|p| p.state == State::Held).await.expect("held");
    let id = rustix::process::Pid::from_raw(pipeline.process_id().expect("id") as i32);
    rustix::process::kill_process(id.expect("id"), rustix::process::Signal::KILL).expect("killed");
    assert_eq!(all_events(&mut pipeline).await, []);
    let error = pipeline.stop(How::Drain).await.expect_err("it died");
    assert!(error.to_string().contains("signal: 9"), "{error}");
    let last = progress.borrow().clone();
    assert_eq!(last.state, State::Failed);
    assert!(last.error.is_some_and(|text| text.contains("signal: 9")));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_or_cancelling_a_pipeline_ends_its_process() {
    let pair = &*alone(Flavor::Mysql).await;
    let folder = tempfile::tempdir().expect("folder");
    for drop_it in [true, false] {
        let mut pipeline = AnyPipeline::new(&settings(), context(pair, "unread", folder.path()));
        let cancel = CancellationToken::new();
        let mut progress = pipeline.progress();
        pipeline.start(Start::Dump, true, &cancel).await.expect("started");
        progress.wait_for(|p| p.state == State::Held).await.expect("held");
        let id = pipeline.process_id().expect("id");
        if drop_it {
            drop(pipeline);
        } else {
            cancel.cancel();
            pipeline.stop(How::Now).await.expect("killed as asked");
        }
        assert_gone(id).await;
    }
}

/// Waits until a process of ours has ended and been waited for.
async fn assert_gone(id: u32) {
    let gone = async {
        while Path::new(&format!("/proc/{id}")).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, gone).await.expect("the process ends");
}

/// A `cat` stands for the parent that holds the pipeline's standard input; it is killed by -9.
#[test]
fn the_process_ends_when_its_parent_is_killed() {
    // It is held, so it never connects.
    let server = r#"{"address":{"host":"127.0.0.1","port":1},"user":"root"}"#;
    let folder = tempfile::tempdir().expect("folder");
    let order = format!(
        r#"{{"settings":{{}},"name":"x","source":{server},"target":{server},"schemas":[],"#
    ) + &format!(
        r#""meta-schema":"m","folder":{:?},"run":"r","server-id":1,"start":"dump","held":true}}"#,
        folder.path()
    );
    let mut parent =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
    let mut child = Command::new(DMBENCH)
        .arg("pipeline")
        .stdin(parent.stdout.take().expect("pipe"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the pipeline's process");
    writeln!(parent.stdin.as_mut().expect("pipe"), "{order}").expect("written");
    let mut lines = BufReader::new(child.stdout.take().expect("pipe")).lines();
    let held = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("held")));
    assert!(held.is_some(), "it is at work");
    parent.kill().expect("killed");
    parent.wait().expect("gone");
    // The output ends when the process does; a process that lives on would hang the test here.
    assert!(lines.all(|line| line.is_ok()));
    child.wait().expect("ended");
}
