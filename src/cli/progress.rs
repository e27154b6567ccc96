//! What happens, on stderr: a bar on a terminal, plain lines elsewhere.
//!
//! Nothing is shown of what takes less than 2 s; each trial leaves one line. Progress comes through a
//! channel that drops rather than waits, so a slow terminal cannot slow a measurement.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::log::Log;
use super::output::lasting;
use crate::event::{Event, Events};

/// Shorter work is not shown.
const WORTH_SHOWING: Duration = Duration::from_secs(2);
/// Time between plain lines about one piece of work.
const BETWEEN_LINES: Duration = Duration::from_secs(15);

/// Does work that sends events, and shows them meanwhile.
pub(super) async fn around<T>(log: &Log, work: impl AsyncFnOnce(Events) -> T) -> T {
    let (events, receiver) = Events::channel();
    let mut screen = JoinSet::new();
    screen.spawn(show(receiver, log.clone()));
    let result = work(events).await;
    // The screen ends with the last sender; one that a thread still holds is not waited for.
    let _ = tokio::time::timeout(Duration::from_secs(1), screen.join_next()).await;
    result
}

/// Shows events until their senders are gone.
async fn show(mut events: mpsc::Receiver<Event>, log: Log) {
    let is_terminal = std::io::stderr().is_terminal();
    let mut board = Board::default();
    let mut bar: Option<ProgressBar> = None;
    let mut ticks = interval(Duration::from_millis(200));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let lines = tokio::select! {
            event = events.recv() => match event {
                Some(event) => board.take(event, Instant::now()),
                None => break,
            },
            _ = ticks.tick() => match is_terminal {
                true => Vec::new(),
                false => board.due_line(Instant::now()).into_iter().collect(),
            },
        };
        for line in lines {
            log.note(&line);
        }
        if is_terminal {
            draw(&mut bar, board.now(Instant::now()), &log);
        }
    }
    draw(&mut bar, None, &log);
}

/// Brings the bar to what the board says; takes it away where there is nothing to say.
fn draw(bar: &mut Option<ProgressBar>, shown: Option<Shown>, log: &Log) {
    let Some(shown) = shown else {
        if let Some(bar) = bar.take() {
            bar.finish_and_clear();
        }
        return;
    };
    let bar = bar.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        log.bars().add(bar)
    });
    let (style, length) = match shown.share {
        Some(_) => ("{wide_msg} [{bar:24}] {percent:>3}%", Some(1_000)),
        None => ("{spinner} {wide_msg}", None),
    };
    if bar.length() != length {
        // The styles are constants, tested below.
        bar.set_style(ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar()));
        match length {
            Some(length) => bar.set_length(length),
            None => bar.unset_length(),
        }
    }
    bar.set_message(shown.text);
    bar.set_position(shown.share.map_or(0, |share| (share * 1_000.0) as u64));
    bar.tick();
}

/// What a bar should show.
#[derive(Debug, PartialEq)]
struct Shown {
    text: String,
    /// From 0 to 1, where that is known.
    share: Option<f64>,
}

/// What is going on, as far as events tell.
#[derive(Debug, Default)]
struct Board {
    trial: Option<(String, Instant)>,
    activity: Option<Activity>,
}

/// A piece of work with a beginning.
#[derive(Debug)]
struct Activity {
    what: String,
    began: Instant,
    expected: Option<Duration>,
    count: Option<(&'static str, u64, Option<u64>)>,
    last_line: Option<Instant>,
}

impl Activity {
    fn new(what: String, began: Instant, expected: Option<Duration>) -> Activity {
        Activity { what, began, expected, count: None, last_line: None }
    }

    fn share(&self, now: Instant) -> Option<f64> {
        let share = match (self.count, self.expected) {
            (Some((_, done, Some(of))), _) if of > 0 => done as f64 / of as f64,
            (_, Some(expected)) if !expected.is_zero() => {
                (now - self.began).as_secs_f64() / expected.as_secs_f64()
            }
            _ => return None,
        };
        Some(share.clamp(0.0, 1.0))
    }

    fn words(&self, now: Instant) -> String {
        let count = match self.count {
            Some((what, done, Some(of))) => format!(", {done} of {of} {what}"),
            Some((what, done, None)) => format!(", {done} {what}"),
            None => String::new(),
        };
        let of = self.expected.map_or(String::new(), |e| format!(" of {}", lasting(e)));
        format!("{}{count}, {}{of}", self.what, lasting(now - self.began))
    }
}

impl Board {
    /// Takes an event in. Returns the lines that stay.
    fn take(&mut self, event: Event, now: Instant) -> Vec<String> {
        match event {
            Event::Preparing { what } => self.activity = Some(Activity::new(what, now, None)),
            Event::TrialBegan { label, number, of } => {
                self.trial = Some((format!("[{number}/{of}] {label}"), now));
                self.activity = None;
            }
            Event::PhaseBegan { phase, expected } => {
                self.activity = Some(Activity::new(phase.word().to_owned(), now, expected));
            }
            Event::Progress { what, done, of } => {
                let activity = self
                    .activity
                    .get_or_insert_with(|| Activity::new("working".to_owned(), now, None));
                activity.count = Some((what, done, of));
            }
            Event::TrialEnded { label, outcome, verdict, figure } => {
                self.activity = None;
                let (begun, took) = match self.trial.take() {
                    Some((begun, since)) => (begun, format!(" ({})", lasting(now - since))),
                    None => (label, String::new()),
                };
                let figure = if figure.is_empty() { figure } else { format!(", {figure}") };
                let (outcome, verdict) = (outcome.word(), verdict.word());
                return vec![format!("{begun}: {outcome}, {verdict}{figure}{took}")];
            }
            Event::Remark { text } => return vec![text],
        }
        Vec::new()
    }

    /// What a bar shows now: nothing before work has lasted long enough.
    fn now(&self, now: Instant) -> Option<Shown> {
        let activity = self.activity.as_ref().filter(|a| now - a.began >= WORTH_SHOWING)?;
        Some(Shown { text: self.text(activity, now), share: activity.share(now) })
    }

    /// The plain line that is due, if any.
    fn due_line(&mut self, now: Instant) -> Option<String> {
        let activity = self.activity.as_ref()?;
        let (since, wait) = match activity.last_line {
            Some(last) => (last, BETWEEN_LINES),
            None => (activity.began, WORTH_SHOWING),
        };
        if now - since < wait {
            return None;
        }
        let text = self.text(activity, now);
        if let Some(activity) = &mut self.activity {
            activity.last_line = Some(now);
        }
        Some(text)
    }

    fn text(&self, activity: &Activity, now: Instant) -> String {
        match &self.trial {
            Some((trial, _)) => format!("{trial}: {}", activity.words(now)),
            None => activity.words(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outcome, Phase, Verdict};

    #[test]
    fn short_work_is_not_shown_and_each_trial_leaves_a_line() {
        let (mut board, t) = (Board::default(), Instant::now());
        let at = |ms: u64| t + Duration::from_millis(ms);
        let began = Event::TrialBegan { label: "lag-0001-b1".into(), number: 1, of: 3 };
        assert!(board.take(began, at(0)).is_empty());
        let phase =
            Event::PhaseBegan { phase: Phase::Measure, expected: Some(Duration::from_secs(20)) };
        board.take(phase, at(1_000));
        assert_eq!((board.now(at(2_900)), board.due_line(at(2_900))), (None, None));
        let shown = board.now(at(6_000)).expect("long enough");
        assert_eq!(shown.text, "[1/3] lag-0001-b1: measure, 5 s of 20 s");
        assert_eq!(shown.share, Some(0.25));
        assert_eq!(board.due_line(at(6_000)).as_deref(), Some(shown.text.as_str()));
        assert_eq!(board.due_line(at(20_900)), None, "one line, then a pause");
        assert!(board.due_line(at(21_000)).is_some());
        let ended = Event::TrialEnded {
            label: "lag-0001-b1".into(),
            outcome: Outcome::Sustained { rate: 500.0 },
            verdict: Verdict::Equal { tables: 4, rows: 1 },
            figure: "p99 lag 12 ms".into(),
        };
        assert_eq!(
            board.take(ended, at(30_000)),
            ["[1/3] lag-0001-b1: sustained, equal, p99 lag 12 ms (30 s)"]
        );
        assert_eq!(board.now(at(40_000)), None);
    }

    #[test]
    fn counts_give_the_share() {
        let (mut board, t) = (Board::default(), Instant::now());
        board.take(Event::Preparing { what: "seeding".into() }, t);
        board.take(Event::Progress { what: "rows", done: 50, of: Some(200) }, t);
        let shown = board.now(t + Duration::from_secs(3)).expect("long enough");
        let expected = Shown { text: "seeding, 50 of 200 rows, 3 s".into(), share: Some(0.25) };
        assert_eq!(shown, expected);
        board.take(Event::Progress { what: "rows", done: 300, of: None }, t);
        assert_eq!(board.now(t + Duration::from_secs(3)).expect("shown").share, None);
    }

    #[test]
    fn the_styles_are_valid() {
        for style in ["{wide_msg} [{bar:24}] {percent:>3}%", "{spinner} {wide_msg}"] {
            assert!(ProgressStyle::with_template(style).is_ok(), "{style}");
        }
    }
}
