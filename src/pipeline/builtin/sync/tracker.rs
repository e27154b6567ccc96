//! How far everything is applied: the end of the last source transaction before which none is open.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mysql::Position;

/// Source transactions under way.
#[derive(Debug)]
pub(super) struct Tracker(Mutex<Open>);

#[derive(Debug)]
struct Open {
    /// Ticket of the first transaction in the queue.
    first: u64,
    transactions: VecDeque<Transaction>,
    applied: Position,
    completed: u64,
}

#[derive(Debug)]
struct Transaction {
    /// Rows handed out minus rows committed on the target. Workers may finish rows before the
    /// transaction is complete, so this may be below zero until `end` is known.
    pending: i64,
    /// Its end; `None` while its rows are still being handed out.
    end: Option<Position>,
}

impl Tracker {
    /// Everything before `applied` is on the target.
    pub(super) fn new(applied: Position) -> Tracker {
        Tracker(Mutex::new(Open { first: 0, transactions: VecDeque::new(), applied, completed: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction's rows begin to be handed out. Gives its ticket.
    pub(super) fn begin(&self) -> u64 {
        let mut open = self.lock();
        open.transactions.push_back(Transaction { pending: 0, end: None });
        open.first + open.transactions.len() as u64 - 1
    }

    /// All of a transaction's rows are handed out.
    pub(super) fn close(&self, ticket: u64, row_count: u64, end: Position) {
        let mut open = self.lock();
        if let Some(transaction) = open.get(ticket) {
            transaction.pending += row_count as i64;
            transaction.end = Some(end);
        }
        open.settle();
    }

    /// The source has come to `end` without any row since the last transaction.
    pub(super) fn pass(&self, end: Position) {
        let mut open = self.lock();
        match open.transactions.back_mut() {
            Some(last) if last.end.is_some() => last.end = Some(end),
            Some(_) => {}
            None => open.applied = end,
        }
    }

    /// Rows were committed on the target: tickets with numbers of rows.
    pub(super) fn done(&self, counts: impl IntoIterator<Item = (u64, u64)>) {
        let mut open = self.lock();
        for (ticket, rows) in counts {
            if let Some(transaction) = open.get(ticket) {
                transaction.pending -= rows as i64;
            }
        }
        open.settle();
    }

    /// The position before which everything is applied.
    pub(super) fn applied(&self) -> Position {
        self.lock().applied.clone()
    }

    /// Source transactions with rows that are applied whole.
    pub(super) fn completed(&self) -> u64 {
        self.lock().completed
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().transactions.is_empty()
    }
}

impl Open {
    fn get(&mut self, ticket: u64) -> Option<&mut Transaction> {
        self.transactions.get_mut(ticket.checked_sub(self.first)? as usize)
    }

    fn settle(&mut self) {
        while let Some(Transaction { pending: 0, end: Some(_) }) = self.transactions.front() {
            let transaction = self.transactions.pop_front();
            if let Some(end) = transaction.and_then(|transaction| transaction.end) {
                self.applied = end;
            }
            self.first += 1;
            self.completed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Position {
        Position::new("bin.000001", offset).expect("position")
    }

    #[test]
    fn applied_waits_for_the_oldest_open_transaction() {
        let tracker = Tracker::new(at(4));
        let (first, second) = (tracker.begin(), tracker.begin());
        tracker.close(first, 2, at(100));
        tracker.done([(second, 1)]);
        tracker.close(second, 1, at(200));
        assert_eq!(tracker.applied(), at(4));
        tracker.done([(first, 1)]);
        assert_eq!(tracker.applied(), at(4));
        tracker.done([(first, 1)]);
        assert_eq!((tracker.applied(), tracker.completed()), (at(200), 2));
        assert!(tracker.is_idle());
    }

    #[test]
    fn rows_done_before_the_transaction_is_complete_do_not_complete_it() {
        let tracker = Tracker::new(at(4));
        let ticket = tracker.begin();
        tracker.done([(ticket, 3)]);
        assert_eq!(tracker.applied(), at(4));
        tracker.close(ticket, 3, at(90));
        assert_eq!(tracker.applied(), at(90));
    }

    #[test]
    fn passing_events_count_only_behind_what_is_open() {
        let tracker = Tracker::new(at(4));
        tracker.pass(at(50));
        assert_eq!(tracker.applied(), at(50));
        let ticket = tracker.begin();
        tracker.close(ticket, 1, at(90));
        tracker.pass(at(120));
        assert_eq!(tracker.applied(), at(50));
        tracker.done([(ticket, 1)]);
        assert_eq!(tracker.applied(), at(120));
    }
}
