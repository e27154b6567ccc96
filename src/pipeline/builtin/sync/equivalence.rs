//! The property that matters: parallel application equals serial application.
//!
//! A random history is played on a serial model first; then the real dispatcher and workers apply it
//! to another, with random worker counts, batch sizes, queue sizes, checkpoints and faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use crate::mysql::Position;
use crate::mysql::binlog::Row;
use crate::mysql::value::Value;
use crate::pipeline::builtin::Sync;
use crate::pipeline::builtin::checkpoint::Checkpoint;
use crate::pipeline::builtin::sync::change::{Change, RowChange};
use crate::pipeline::builtin::sync::drive::{Parts, drive};
use crate::pipeline::builtin::sync::memory::{
    Faults, Fuse, MemoryApplier, MemoryCheckpoints, NoDefiner, ScriptedChanges, Store, table,
};
use crate::pipeline::builtin::sync::plan::plan;
use crate::pipeline::builtin::sync::run::Synced;
use crate::pipeline::builtin::sync::start::Start;
use crate::pipeline::builtin::sync::table::ReplicaTable;
use crate::pipeline::{Progress, Unit};

fn at(offset: u64) -> Position {
    Position::new("bin.000001", offset).expect("position")
}

/// Tables with every kind of key; the last, without one, only where nothing is executed twice.
fn tables(keyless: bool) -> Vec<Arc<ReplicaTable>> {
    let mut shapes = vec![
        table(
            "several",
            &["id int", "u int?", "name varchar general_ci?", "payload int"],
            &[("PRIMARY", &[(0, None)]), ("name", &[(2, None)]), ("u", &[(1, None)])],
        ),
        table(
            "composite",
            &["a int", "b int", "c int?", "d varchar bin?"],
            &[
                ("PRIMARY", &[(0, None), (1, None)]),
                ("c", &[(2, None), (1, None)]),
                ("d", &[(3, Some(2))]),
            ],
        ),
        table("text", &["id varchar general_ci", "payload int"], &[("PRIMARY", &[(0, None)])]),
    ];
    if keyless {
        shapes.push(table("keyless", &["a int?", "b varchar general_ci"], &[]));
        shapes.push(table("nullable", &["a int?", "b int"], &[("a", &[(0, None)])]));
    }
    shapes.into_iter().map(|shape| Arc::new(ReplicaTable::new(shape))).collect()
}

fn value(data_type: &str, nullable: bool, rng: &mut SmallRng) -> Value {
    const TEXTS: [&str; 9] = ["a", "A", "a ", "b", "ab", "abc", "ä", "É", "e"];
    if nullable && rng.random_ratio(1, 5) {
        return Value::Null;
    }
    match data_type {
        "int" => Value::Int(rng.random_range(0..12)),
        _ => Value::Bytes(TEXTS[rng.random_range(0..TEXTS.len())].as_bytes().into()),
    }
}

fn row(table: &ReplicaTable, rng: &mut SmallRng) -> Row {
    let columns = &table.shape.columns;
    columns.iter().map(|column| value(&column.data_type, column.nullable, rng)).collect()
}

/// A history that a source could have had, and what it leads to.
struct History {
    changes: Vec<(Arc<ReplicaTable>, Option<Row>, Option<Row>)>,
    end: Store,
}

impl History {
    fn random(tables: &[Arc<ReplicaTable>], length: usize, rng: &mut SmallRng) -> History {
        let mut history = History { changes: Vec::new(), end: Store::default() };
        while history.changes.len() < length {
            let table = &tables[rng.random_range(0..tables.len())];
            let rows = history.end.rows(&table.shape);
            let some = (!rows.is_empty()).then(|| rows[rng.random_range(0..rows.len())].clone());
            match (rng.random_range(0..10), some) {
                (0..4, _) | (_, None) => history.try_change(table, None, Some(row(table, rng))),
                (4..7, Some(before)) => {
                    let mut after = row(table, rng);
                    // Often only one column changes.
                    if rng.random() {
                        let kept = rng.random_range(0..after.len());
                        let changed = after[kept].clone();
                        after = before.clone();
                        after[kept] = changed;
                    }
                    history.try_change(table, Some(before), Some(after));
                }
                (7, Some(before)) => history.swap(table, before, rng),
                (8, Some(before)) => {
                    // The same row again under its keys.
                    history.try_change(table, Some(before.clone()), None);
                    history.try_change(table, None, Some(before));
                }
                (_, Some(before)) => history.try_change(table, Some(before), None),
            }
        }
        history
    }

    /// Two rows exchange the value of one column, by way of a third value.
    fn swap(&mut self, table: &Arc<ReplicaTable>, first: Row, rng: &mut SmallRng) {
        let rows = self.end.rows(&table.shape);
        let second = rows[rng.random_range(0..rows.len())].clone();
        let column = rng.random_range(0..first.len());
        let (mut between, mut swapped_first, mut swapped_second) =
            (first.clone(), first.clone(), second.clone());
        between[column] = value(&table.shape.columns[column].data_type, false, rng);
        swapped_first[column] = second[column].clone();
        swapped_second[column] = first[column].clone();
        self.try_change(table, Some(first), Some(between.clone()));
        self.try_change(table, Some(second), Some(swapped_second));
        self.try_change(table, Some(between), Some(swapped_first));
    }

    /// Plays a change where the source would have allowed it.
    fn try_change(&mut self, table: &Arc<ReplicaTable>, before: Option<Row>, after: Option<Row>) {
        let exists = before.as_ref().is_none_or(|b| self.end.rows(&table.shape).contains(b));
        let admitted = after
            .as_ref()
            .is_none_or(|after| self.end.admits(&table.shape, after, before.as_ref()));
        if !exists || !admitted {
            return;
        }
        let change = [RowChange::new(Arc::clone(table), before.clone(), after.clone())];
        self.end.execute(plan(&change, false, false)[0]).expect("admitted");
        self.changes.push((Arc::clone(table), before, after));
    }

    /// The history from a position on, cut into transactions by the seed alone. Offsets count
    /// changes from 4.
    fn stream(&self, from: &Position, seed: u64) -> (Vec<Change>, Position) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut changes, mut offset) = (Vec::new(), 4);
        for (nth, (table, before, after)) in self.changes.iter().enumerate() {
            offset += 1;
            let row = RowChange::new(Arc::clone(table), before.clone(), after.clone());
            changes.push((offset, Change::Row(row)));
            if rng.random_ratio(1, 4) || nth + 1 == self.changes.len() {
                changes.push((offset, Change::Commit { end: at(offset) }));
                if rng.random_ratio(1, 6) {
                    changes.push((offset, Change::Passed { end: at(offset) }));
                }
            }
        }
        let changes = changes.into_iter().filter(|(offset, _)| *offset > from.offset);
        (changes.map(|(_, change)| change).collect(), at(offset))
    }
}

/// How a run is set up.
#[derive(Debug, Clone)]
struct Shape {
    settings: Sync,
    seed: u64,
}

/// Every combination of the knobs.
fn shapes() -> impl Strategy<Value = Shape> {
    let numbers = (1..9u32, 1..20u32, 1..40u32, 0..30u64, proptest::option::of(1..50u64));
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (numbers, switches, any::<u64>()).prop_map(|(numbers, switches, seed)| {
        let (worker_count, batch, queue_size, interval, duration) = numbers;
        let (async_checkpoint_flush, compact, multiple_rows, safe_mode) = switches;
        let settings = Sync {
            worker_count,
            batch,
            queue_size,
            checkpoint_flush_interval: Duration::from_millis(interval),
            async_checkpoint_flush,
            compact,
            multiple_rows,
            safe_mode,
            safe_mode_duration: duration.map(Duration::from_millis),
        };
        Shape { settings, seed }
    })
}

/// One run until all is applied, or until the fuse has burnt down.
async fn run(
    history: &History,
    shape: &Shape,
    store: &Arc<Mutex<Store>>,
    checkpoints: &MemoryCheckpoints,
    faults: Faults,
    fuse: Option<u64>,
) -> Option<Synced> {
    let saved = checkpoints.0.lock().expect("no panic").clone();
    let position = saved.as_ref().map_or(at(4), |saved| saved.position.clone());
    let (changes, end) = history.stream(&position, shape.seed);
    let fuse = Arc::new(fuse.map_or_else(Fuse::default, Fuse::after));
    let applier = |nth: u64| MemoryApplier {
        store: Arc::clone(store),
        rng: SmallRng::seed_from_u64(shape.seed ^ nth),
        faults,
        multiple_rows: shape.settings.multiple_rows,
        fuse: Arc::clone(&fuse),
    };
    let parts = Parts {
        stream: ScriptedChanges::new(changes, end.clone(), shape.seed),
        appliers: (0..u64::from(shape.settings.worker_count)).map(applier).collect(),
        definer: NoDefiner,
        checkpoints: checkpoints.clone(),
    };
    let start = Start {
        position,
        replay_until: saved.is_some().then(|| end.clone()),
        safe_for: shape.settings.safe_mode_duration,
        pending: None,
        owed: None,
    };
    let (progress, mut watched) = watch::channel(Progress::new(Unit::Sync));
    let drain = async move {
        let reached = watched.wait_for(|p| p.applied.as_ref().is_some_and(|a| a.reached(&end)));
        reached.await.expect("progress goes on");
    };
    tokio::select! {
        synced = drive(&shape.settings, start, parts, &progress, drain) => Some(synced.expect("applied")),
        () = fuse.burnt() => None,
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("runtime").block_on(async {
        tokio::time::timeout(Duration::from_secs(3_600), future).await.expect("no hang")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn parallel_application_equals_serial_application(shape in shapes(), length in 1..250usize) {
        let history =
            History::random(&tables(true), length, &mut SmallRng::seed_from_u64(shape.seed));
        let store = Arc::new(Mutex::new(Store::default()));
        let checkpoints = MemoryCheckpoints::default();
        let synced = block_on(run(&history, &shape, &store, &checkpoints, Faults::default(), None))
            .expect("no fuse");
        prop_assert_eq!(store.lock().expect("no panic").sorted(), history.end.sorted());
        prop_assert_eq!(synced.rows, history.changes.len() as u64);
        prop_assert_eq!((synced.mismatched, synced.repeated), (0, 0));
        let saved = checkpoints.0.lock().expect("no panic").clone().expect("saved");
        prop_assert_eq!(&saved.position, &synced.position);
        prop_assert_eq!(saved.exit_safe, Some(synced.position));
    }

    #[test]
    fn batches_of_unknown_fate_are_repaired(shape in shapes(), length in 1..200usize) {
        let history =
            History::random(&tables(false), length, &mut SmallRng::seed_from_u64(shape.seed));
        let store = Arc::new(Mutex::new(Store::default()));
        let faults = Faults { refuse: 5, forget: 4 };
        let synced =
            block_on(run(&history, &shape, &store, &MemoryCheckpoints::default(), faults, None))
                .expect("no fuse");
        prop_assert_eq!(store.lock().expect("no panic").sorted(), history.end.sorted());
        prop_assert_eq!(synced.rows, history.changes.len() as u64);
    }

    #[test]
    fn a_run_that_was_cut_off_ends_equal_after_resuming(
        shape in shapes(),
        length in 20..200usize,
        cuts in proptest::collection::vec(1..120u64, 1..4),
    ) {
        let history =
            History::random(&tables(false), length, &mut SmallRng::seed_from_u64(shape.seed));
        let store = Arc::new(Mutex::new(Store::default()));
        let checkpoints = MemoryCheckpoints::default();
        *checkpoints.0.lock().expect("no panic") = Some(
            Checkpoint { position: at(4), exit_safe: None, pending: None },
        );
        let faults = Faults { refuse: 9, forget: 9 };
        for cut in cuts {
            block_on(run(&history, &shape, &store, &checkpoints, faults, Some(cut)));
        }
        block_on(run(&history, &shape, &store, &checkpoints, faults, None)).expect("no fuse");
        prop_assert_eq!(store.lock().expect("no panic").sorted(), history.end.sorted());
    }
}

/// That the properties above are about something: rows do wait together, and are joined.
#[test]
fn rows_that_wait_together_are_compacted_and_joined() {
    let history = History::random(&tables(true), 400, &mut SmallRng::seed_from_u64(1));
    for (compact, multiple_rows) in [(false, false), (true, false), (false, true), (true, true)] {
        let settings =
            Sync { worker_count: 2, queue_size: 100, compact, multiple_rows, ..Sync::default() };
        let shape = Shape { settings, seed: 1 };
        let store = Arc::new(Mutex::new(Store::default()));
        let checkpoints = MemoryCheckpoints::default();
        let synced = block_on(run(&history, &shape, &store, &checkpoints, Faults::default(), None))
            .expect("no fuse");
        assert_eq!(store.lock().expect("no panic").sorted(), history.end.sorted());
        assert_eq!(synced.rows, 400);
        assert_eq!(synced.compacted > 0, compact);
        assert_eq!(synced.statements < 400, compact || multiple_rows, "{}", synced.statements);
    }
}
