//! The clock of a trial's phases.

use std::time::{Duration, Instant};

use crate::event::{Event, Events};
use crate::record::{Phase, PhaseSpan};
use crate::telemetry::Gauges;

/// Notes when each phase begins and how long it takes, and tells the progress display.
#[derive(Debug)]
pub(super) struct Phases {
    began: Instant,
    spans: Vec<PhaseSpan>,
    current: Option<(Phase, Instant)>,
    events: Events,
    gauges: Gauges,
}

impl Phases {
    /// A trial begins now.
    pub(super) fn begin(events: &Events, gauges: &Gauges) -> Phases {
        Phases {
            began: Instant::now(),
            spans: Vec::new(),
            current: None,
            events: events.clone(),
            gauges: gauges.clone(),
        }
    }

    /// Ends the current phase and begins the next.
    pub(super) fn enter(&mut self, phase: Phase, expected: Option<Duration>) {
        self.leave();
        self.current = Some((phase, Instant::now()));
        self.gauges.begin_phase(phase.word());
        self.events.send(Event::PhaseBegan { phase, expected });
    }

    /// The phase that runs now.
    pub(super) fn current(&self) -> Option<Phase> {
        self.current.map(|(phase, _)| phase)
    }

    /// Ends the last phase and gives all of them.
    pub(super) fn finish(mut self) -> Vec<PhaseSpan> {
        self.leave();
        self.spans
    }

    fn leave(&mut self) {
        if let Some((phase, since)) = self.current.take() {
            self.spans.push(PhaseSpan {
                phase,
                began_s: since.duration_since(self.began).as_secs_f64(),
                took_s: since.elapsed().as_secs_f64(),
            });
        }
    }
}
