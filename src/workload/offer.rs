//! Which op a client does next, and when that op was due.
//!
//! Ops are handed out in the order of their index, so that a drive stopped by time has offered a
//! prefix. In a closed loop an op is due when a client is ready for it; else the pacer's thread puts
//! due ops into a queue with a bound, and clients wait for them.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::counters::Counters;

/// An op that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// Its index.
    pub(super) index: u64,
    /// When it was due.
    pub(super) at: Instant,
}

/// The part of the drive that counts. It has no end while only a number of ops limits the drive.
#[derive(Debug)]
pub(super) struct Window {
    /// Its begin.
    pub(super) begin: Instant,
    end_nanos: AtomicU64,
}

impl Window {
    pub(super) fn new(begin: Instant, length: Option<Duration>) -> Window {
        let end = length.map_or(u64::MAX, |l| u64::try_from(l.as_nanos()).unwrap_or(u64::MAX - 1));
        Window { begin, end_nanos: AtomicU64::new(end) }
    }

    /// Whether an instant lies in it.
    pub(super) fn holds(&self, instant: Instant) -> bool {
        instant.checked_duration_since(self.begin).is_some_and(|since| {
            since.as_nanos() < u128::from(self.end_nanos.load(Ordering::Relaxed))
        })
    }

    /// Its end, where that is known.
    pub(super) fn end(&self) -> Option<Instant> {
        let nanos = self.end_nanos.load(Ordering::Relaxed);
        (nanos != u64::MAX).then(|| self.begin + Duration::from_nanos(nanos))
    }

    /// Ends it at an instant unless it ends earlier anyway.
    pub(super) fn cut(&self, end: Instant) {
        let nanos = end.saturating_duration_since(self.begin).as_nanos();
        self.end_nanos.fetch_min(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Hands out ops.
#[derive(Debug)]
pub(super) enum Offer {
    /// Closed loop.
    Closed(Closed),
    /// Ops come from the pacer.
    Paced(Queue),
}

impl Offer {
    /// The next op, waiting until one is due; `None` when there will be none.
    pub(super) async fn next(&self, window: &Window, counters: &Counters) -> Option<Due> {
        match self {
            Offer::Closed(closed) => {
                let due = closed.next(window)?;
                counters.add_offered(1);
                Some(due)
            }
            Offer::Paced(queue) => queue.next(counters).await,
        }
    }

    /// Whether an op is due when a client is ready for it.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self, Offer::Closed(_))
    }

    /// Hands out no further op, whatever is due.
    pub(super) fn stop(&self) {
        match self {
            Offer::Closed(closed) => closed.stopped.store(true, Ordering::Relaxed),
            Offer::Paced(queue) => {
                queue.stopped.store(true, Ordering::Relaxed);
                queue.ready.close();
            }
        }
    }
}

/// A closed loop.
#[derive(Debug, Default)]
pub(super) struct Closed {
    next: AtomicU64,
    in_window: AtomicU64,
    limit: Option<u64>,
    stopped: AtomicBool,
}

impl Closed {
    pub(super) fn new(limit: Option<u64>) -> Closed {
        Closed { limit, ..Closed::default() }
    }

    /// How many ops were handed out.
    pub(super) fn offered(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.limit.unwrap_or(u64::MAX))
    }

    /// Of these, how many in the window.
    pub(super) fn window_offered(&self) -> u64 {
        self.in_window.load(Ordering::Relaxed)
    }

    fn next(&self, window: &Window) -> Option<Due> {
        let at = Instant::now();
        if self.stopped.load(Ordering::Relaxed) || window.end().is_some_and(|end| at >= end) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        if index >= self.limit.unwrap_or(u64::MAX) {
            return None;
        }
        self.in_window.fetch_add(u64::from(window.holds(at)), Ordering::Relaxed);
        Some(Due { index, at })
    }
}

/// Ops that are due and wait for a client.
#[derive(Debug)]
pub(super) struct Queue {
    due: Mutex<VecDeque<Due>>,
    ready: Semaphore,
    cap: usize,
    stopped: AtomicBool,
    max: AtomicU64,
}

impl Queue {
    /// A queue for at most `cap` ops.
    pub(super) fn new(cap: usize) -> Queue {
        Queue {
            due: Mutex::new(VecDeque::new()),
            ready: Semaphore::new(0),
            cap,
            stopped: AtomicBool::new(false),
            max: AtomicU64::new(0),
        }
    }

    /// Puts a due op in; `false` when the queue is full and the op is lost.
    pub(super) fn push(&self, op: Due, counters: &Counters) -> bool {
        let waiting = {
            let mut due = self.due.lock().expect("no client panics while it holds the queue");
            if due.len() >= self.cap {
                return false;
            }
            due.push_back(op);
            due.len() as u64
        };
        self.max.fetch_max(waiting, Ordering::Relaxed);
        counters.set_backlog(waiting);
        self.ready.add_permits(1);
        true
    }

    /// Says that no further op will come; those in the queue are still handed out.
    pub(super) fn finish(&self) {
        self.ready.close();
    }

    /// The most ops that ever waited.
    pub(super) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// Whether [`Offer::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Takes out what nobody will do.
    pub(super) fn take_rest(&self) -> VecDeque<Due> {
        std::mem::take(&mut *self.due.lock().expect("no client panics while it holds the queue"))
    }

    async fn next(&self, counters: &Counters) -> Option<Due> {
        // An error means closed: what is left in the queue is then taken without waiting.
        if let Ok(permit) = self.ready.acquire().await {
            permit.forget();
        }
        if self.is_stopped() {
            return None;
        }
        let mut due = self.due.lock().expect("no client panics while it holds the queue");
        let op = due.pop_front();
        counters.set_backlog(due.len() as u64);
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window::new(Instant::now(), None)
    }

    #[tokio::test]
    async fn a_closed_loop_offers_a_prefix_and_no_more() {
        let (window, counters) = (window(), Counters::default());
        let offer = Offer::Closed(Closed::new(Some(3)));
        let mut indices = Vec::new();
        while let Some(due) = offer.next(&window, &counters).await {
            indices.push(due.index);
        }
        assert_eq!(indices, [0, 1, 2]);
        assert_eq!(counters.offered(), 3);
        let Offer::Closed(closed) = offer else { unreachable!("made above") };
        assert_eq!(closed.offered(), 3);
    }

    #[tokio::test]
    async fn a_finished_queue_is_emptied_and_a_stopped_one_is_not() {
        for stop in [false, true] {
            let (window, counters) = (window(), Counters::default());
            let queue = Queue::new(2);
            let at = Instant::now();
            let pushed: Vec<bool> =
                (0..3).map(|index| queue.push(Due { index, at }, &counters)).collect();
            assert_eq!(pushed, [true, true, false], "the third is dropped");
            queue.finish();
            let offer = Offer::Paced(queue);
            if stop {
                offer.stop();
            }
            let mut taken = 0;
            while offer.next(&window, &counters).await.is_some() {
                taken += 1;
            }
            assert_eq!(taken, if stop { 0 } else { 2 });
        }
    }

    #[test]
    fn a_window_can_be_cut_but_not_stretched() {
        let begin = Instant::now();
        let window = Window::new(begin, Some(Duration::from_secs(5)));
        assert!(window.holds(begin) && !window.holds(begin + Duration::from_secs(5)));
        window.cut(begin + Duration::from_secs(9));
        assert_eq!(window.end(), Some(begin + Duration::from_secs(5)));
        window.cut(begin + Duration::from_secs(2));
        assert!(!window.holds(begin + Duration::from_secs(3)));
    }
}
