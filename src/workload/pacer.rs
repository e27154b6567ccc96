//! One plain thread that sleeps to each due time and puts the op into the clients' queue.
//!
//! It is a thread because the runtime's timers tick in milliseconds: for 5,000 ops per second they
//! are 1 ms late at the median, a parked thread 0.1 ms. It never changes the schedule: an op that it
//! is late with keeps its due time, and an op that finds the queue full is counted as dropped.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Error;
use super::counters::Counters;
use super::offer::{Due, Offer, Queue, Window};
use super::pace::Pace;
use crate::stats::Histogram;

/// What the pacer did.
#[derive(Debug, Default)]
pub(super) struct Paced {
    /// Ops that became due, dropped ones included.
    pub(super) offered: u64,
    /// Of these, due in the window.
    pub(super) window_offered: u64,
    /// Ops that found the queue full.
    pub(super) dropped: u64,
    /// How late the pacer itself was, in microseconds.
    pub(super) lateness: Histogram,
}

/// The running thread. Dropping it stops and joins it.
#[derive(Debug)]
pub(super) struct Pacer {
    offer: Arc<Offer>,
    thread: Option<JoinHandle<Paced>>,
}

impl Pacer {
    /// Starts pacing from `start` on, to the end of the window or for `limit` ops.
    pub(super) fn start(
        pace: Pace,
        start: Instant,
        limit: Option<u64>,
        offer: &Arc<Offer>,
        window: &Arc<Window>,
        counters: &Arc<Counters>,
    ) -> Result<Pacer, Error> {
        let thread = {
            let (offer, window, counters) = (offer.clone(), window.clone(), counters.clone());
            thread::Builder::new()
                .name("pacer".into())
                .spawn(move || match &*offer {
                    Offer::Closed(_) => Paced::default(),
                    Offer::Paced(queue) => run(pace, start, limit, queue, &window, &counters),
                })
                .map_err(Error::Pacer)?
        };
        Ok(Pacer { offer: offer.clone(), thread: Some(thread) })
    }

    /// Stops it, where it is still running, and gives what it did.
    pub(super) fn stop(mut self) -> Paced {
        self.join()
    }

    fn join(&mut self) -> Paced {
        let Some(thread) = self.thread.take() else { return Paced::default() };
        self.offer.stop();
        thread.thread().unpark();
        thread.join().expect("the pacer has nothing to panic about")
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.join();
    }
}

fn run(
    pace: Pace,
    start: Instant,
    limit: Option<u64>,
    queue: &Queue,
    window: &Window,
    counters: &Counters,
) -> Paced {
    let mut paced = Paced::default();
    for (index, offset) in (0..limit.unwrap_or(u64::MAX)).zip(pace.schedule()) {
        let at = start + offset;
        if !sleep_until(at, queue, window) {
            break;
        }
        paced.lateness.record_duration(at.elapsed());
        paced.offered += 1;
        paced.window_offered += u64::from(window.holds(at));
        counters.add_offered(1);
        if !queue.push(Due { index, at }, counters) {
            paced.dropped += 1;
        }
    }
    queue.finish();
    paced
}

/// Sleeps until an instant; `false` when the window ends before it or the queue was stopped.
fn sleep_until(at: Instant, queue: &Queue, window: &Window) -> bool {
    /// Nobody unparks the thread when the window is cut, so it looks from time to time.
    const LOOK: Duration = Duration::from_millis(50);
    loop {
        if queue.is_stopped() {
            return false;
        }
        let until = window.end().map_or(at, |end| end.min(at));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return until == at && window.end() != Some(at);
        }
        thread::park_timeout(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(
        rate: f64,
        limit: Option<u64>,
        length: Option<Duration>,
    ) -> (Arc<Offer>, Arc<Window>, Arc<Counters>, Pacer, Instant) {
        let begin = Instant::now();
        let offer = Arc::new(Offer::Paced(Queue::new(100)));
        let window = Arc::new(Window::new(begin, length));
        let counters = Arc::new(Counters::default());
        let pace = Pace::Uniform { rate };
        let pacer = Pacer::start(pace, begin, limit, &offer, &window, &counters).expect("thread");
        (offer, window, counters, pacer, begin)
    }

    #[tokio::test]
    async fn a_late_client_finds_the_due_times_unmoved() {
        let (offer, window, counters, pacer, begin) = start(1_000.0, Some(50), None);
        let first = offer.next(&window, &counters).await.expect("op 0");
        // While nobody takes ops the schedule goes on.
        while counters.offered() < 50 {
            tokio::task::yield_now().await;
        }
        let mut due = vec![first];
        while let Some(op) = offer.next(&window, &counters).await {
            due.push(op);
        }
        assert_eq!(due.len(), 50);
        for op in &due {
            assert_eq!(op.at - begin, Duration::from_millis(op.index));
        }
        let paced = pacer.stop();
        assert_eq!((paced.offered, paced.dropped, paced.lateness.n()), (50, 0, 50));
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (_, _, counters, pacer, _) = start(100_000.0, Some(500), None);
        while counters.offered() < 500 {
            thread::yield_now();
        }
        let paced = pacer.stop();
        assert_eq!((paced.offered, paced.dropped), (500, 400));
    }

    #[tokio::test]
    async fn the_window_bounds_what_is_offered() {
        let length = Duration::from_millis(40);
        let (offer, window, counters, pacer, begin) = start(1_000.0, None, Some(length));
        let mut taken = 0;
        while offer.next(&window, &counters).await.is_some() {
            taken += 1;
        }
        assert!(begin.elapsed() >= length, "no early end");
        assert_eq!(taken, 40);
        assert_eq!(pacer.stop().window_offered, 40);
    }

    #[test]
    fn stopping_does_not_wait_for_the_next_op() {
        let (_, _, _, pacer, begin) = start(0.001, None, None);
        pacer.stop();
        assert!(begin.elapsed() < Duration::from_secs(100), "bounds a hang only");
    }
}
