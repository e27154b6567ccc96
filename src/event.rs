//! What happens while trials run, for whoever shows it.
//!
//! Modules send events and never print; `cli` turns them into progress bars and log lines. An event
//! that nobody receives is dropped: progress must never slow a measurement.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::record::{Outcome, Phase, Verdict};

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// Work that has no trial: installing, starting servers, preparing input.
    Preparing {
        /// What, as a present participle: `starting MySQL 9.7.4 as source`.
        what: String,
    },
    /// A trial began.
    TrialBegan {
        /// Its label.
        label: String,
        /// Its number in the run, from 1.
        number: u32,
        /// Trials in the run.
        of: u32,
    },
    /// A phase began.
    PhaseBegan {
        /// Which.
        phase: Phase,
        /// How long it should take, where that is known.
        expected: Option<Duration>,
    },
    /// Work within a phase.
    Progress {
        /// What is counted, such as `rows loaded`.
        what: &'static str,
        /// How many so far.
        done: u64,
        /// How many there will be, where that is known.
        of: Option<u64>,
    },
    /// A trial ended.
    TrialEnded {
        /// Its label.
        label: String,
        /// How.
        outcome: Outcome,
        /// What verification gave.
        verdict: Verdict,
        /// The figure of most interest, ready to print; empty where there is none.
        figure: String,
    },
    /// Something the user should know.
    Remark {
        /// One sentence.
        text: String,
    },
}

/// The sending half. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Events(Option<mpsc::Sender<Event>>);

impl Events {
    /// A channel with room for a thousand events.
    pub fn channel() -> (Events, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(1_000);
        (Events(Some(sender)), receiver)
    }

    /// Events that go nowhere.
    pub fn none() -> Events {
        Events(None)
    }

    /// Sends without waiting; drops the event when the receiver is slow or gone.
    pub fn send(&self, event: Event) {
        if let Some(sender) = &self.0 {
            let _ = sender.try_send(event);
        }
    }
}
