//! A small import whose dump and load can be held in their middle.

use std::fs;

use rustix::process::Signal;

use super::{Running, send};

/// Rows of an [`import`].
pub const ROWS: u64 = 2_000;

/// An import of some hundred statements in some dozen chunks, without a word on its servers.
pub fn bulk(blocks: u32) -> String {
    format!(
        r#"
question = "What becomes of an import that something happens to?"
model = "bulk"

[workload]
kind = "sysbench"
script = "oltp_insert"
tables = 1
table-size = {ROWS}

[pipeline]
kind = "builtin"
dump = {{ threads = 2, rows = 25, statement-size = 2000 }}
load = {{ pool-size = 2 }}

[repeat]
blocks = {blocks}
"#
    )
}

/// The same on private servers, behind a network so slow that dump and load last about a second each.
pub fn import(server: &str, blocks: u32) -> String {
    format!(
        r#"{}
[sandbox]
source = "{server}"
target = "{server}"
source-round-trip = "20ms"
target-round-trip = "10ms"
durability = "relaxed"
buffer-pool = 64
"#,
        bulk(blocks)
    )
}

impl Running {
    /// Waits until the dump has begun to write rows, and stops the pipeline there.
    pub fn hold_dump(&mut self) -> u32 {
        let pid = self.wait("the pipeline", |r| r.processes("pipeline").first().copied());
        self.wait("rows in the dump", |running| {
            let folder = running.run_folder().join("scratch/trial");
            let names = fs::read_dir(folder).into_iter().flatten().flatten();
            let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.any(|name| name.starts_with("dmbench.sbtest1.0")).then_some(())
        });
        send(pid, Signal::STOP);
        assert!(!self.is_dumped(), "the dump was too quick to be held");
        pid
    }

    /// Waits until the load has written rows, and stops the pipeline there.
    pub fn hold_load(&mut self, password: &str) -> u32 {
        let pid = self.wait("the pipeline", |r| r.processes("pipeline").first().copied());
        self.wait("the dump's end", |running| running.is_dumped().then_some(()));
        let (mut session, runtime) = self.execute("target", password, "SET @of = 'the watcher'");
        let mut rows = || {
            let rows = session.value::<u64>("SELECT COUNT(*) FROM dmbench.sbtest1");
            runtime.block_on(rows).ok().flatten().unwrap_or(0)
        };
        self.wait("rows in the target", |_| (rows() > 0).then_some(()));
        send(pid, Signal::STOP);
        assert!(rows() < ROWS, "the load was too quick to be held");
        pid
    }

    fn is_dumped(&self) -> bool {
        self.run_folder().join("scratch/trial/metadata").exists()
    }
}
