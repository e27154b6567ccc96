//! dmbench answers questions about replicating MySQL to TiDB with numbers one can defend.
//!
//! Three parts: a **generator** ([`workload`]) drives writes into the source; **probes** ([`probe`])
//! watch binlog positions, checkpoint rows and marker rows; a **sweep** ([`sweep`]) varies knobs and
//! makes recommendation tables ([`advise`], [`report`]). What is tested is a **pipeline**
//! ([`pipeline`]), in a process of its own.
//!
//! ```text
//! tasks/*.toml ─► task ─► sweep::plan ─► trial::run ───────────────────────────┐
//! lab (sandbox)           points ×      │                                      │ events
//!                         blocks,       ├─ workload::drive ──► SOURCE          ▼
//!                         shuffled      │                        │      progress (stderr)
//!                                       ├─ pipeline ◄────────────┘
//!                                       │   builtin (child process: dump→load→sync) | idle ──► TARGET
//!                                       ├─ probe::Sampler ◄── both ends, processes
//!                                       ├─ trial::verify  ◄── both ends
//!                                       └────────────► record::Store (out/<run>/)
//!                                                            │
//!                                      stats ─► advise ─► report ─► terminal · Markdown · JSON
//! ```
//!
//! A **task** states a question. It expands into **trials**, one per **point** of its **knob** grid
//! and **block**. A trial seeds the source, starts a pipeline, lets a workload write at a known
//! **pace**, lets probes watch both ends, drains, verifies that both ends are equal, and writes one
//! **record**. Findings, recommendations and reports are made from records alone.
//!
//! # Who may import whom
//!
//! | layer | modules | may import, besides [`error`] |
//! |---|---|---|
//! | 6 | [`cli`], `main` | everything below |
//! | 5 | [`sweep`] | `trial`, `task`, `lab`, `record`, `stats`, `event`, `telemetry`, `mysql` |
//! | 4 | [`trial`] | `task`, `lab`, `workload`, `pipeline`, `probe`, `mysql`, `record`, `event`, `stats`, `telemetry` |
//! | 3 | [`task`], [`report`] | `task`: settings of `workload`, `pipeline`, `lab`; `record`. `report`: `advise`, `record`, `stats` |
//! | 2 | [`workload`], [`pipeline`], [`probe`], [`lab`], [`advise`] | layers 0 and 1, never each other; `advise`: only `record`, `stats` |
//! | 1 | [`mysql`], [`record`], [`event`] | `record`: `stats`. `event`: `record` |
//! | 0 | [`stats`], [`telemetry`], [`place`], [`error`] | nothing of ours |
//!
//! A test reads every `crate::` path and compares it with this table.
//!
//! # Words
//!
//! **Source** and **target** are the servers written to and replicated into. A **lab** is where a
//! trial runs, a **sandbox** a lab of private servers. A **model** is what is timed: `bulk` (dump and
//! load), `stream` (sync under load), `backlog` (catching up with a fixed range of the binlog),
//! `drive` (the workload alone). An **op** is one logical operation, its **effect** the rows that the
//! server confirmed. **Pace** is when op *i* is due; **offered** and **achieved** are due and
//! committed ops per second; **delay**, **service** and **response** are started − due, finished −
//! started and finished − due. A **unit** is a stage of a pipeline: dump, load, sync. **Read**,
//! **applied** and **durable** are the furthest position received, executed on the target, and
//! guaranteed after a crash; a **checkpoint** is the durable position as stored in the target.
//! **Lag** is the target's age with its clock named, **backlog** what is committed and not yet
//! applied, a **marker** a row written to be looked for. A **conflict** is two row changes that share
//! a key and must keep order. **Outcome** is how a trial ended, with one word more than a rate needs:
//! `finished` is a fixed amount of work done to its end. **Verdict** is what comparing both ends
//! gave. **n** counts trials.

// A command is one future, from its options down to the socket: deeper than the compiler's default.
#![recursion_limit = "256"]

pub mod advise;
pub mod cli;
pub mod error;
pub mod event;
pub mod lab;
pub mod mysql;
pub mod pipeline;
pub mod place;
pub mod probe;
pub mod record;
pub mod report;
pub mod stats;
pub mod sweep;
pub mod task;
pub mod telemetry;
pub mod trial;
pub mod workload;
