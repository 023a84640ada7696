//! What waits for the writer.
//!
//! Reservations, marks and batches are refused when [`Queue`] is as long as it may be. A settlement never is:
//! there is at most one for each open reservation, of which there is a bound.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::ledger::error::LedgerError;
use crate::ledger::record::Record;
use crate::ledger::usage::Taken;

/// How long [`Entry::Lazy`] may wait for company: a sync costs more than all that a short request writes.
const LINGER_MAX: Duration = Duration::from_millis(100);

/// What the writer is asked.
pub(crate) enum Entry {
    /// Write this, and say so.
    Told { record: Record, ticket: oneshot::Sender<()> },
    /// The same, within [`LINGER_MAX`].
    Lazy { record: Record, ticket: oneshot::Sender<()> },
    /// Write this: the marks of what runs, whose loss a crash would bill too low.
    Untold { record: Record },
    /// Say when all that came before is written.
    Sync { ticket: oneshot::Sender<()> },
    /// Give the batch that is out, or the next.
    Take { answer: oneshot::Sender<Taken> },
    /// This batch is stored.
    Confirm { number: u64, answer: oneshot::Sender<Result<(), LedgerError>> },
}

impl Entry {
    /// 1 where it is to be written now.
    const fn awaited(&self) -> usize {
        match self {
            Self::Lazy { .. } => 0,
            Self::Untold { .. }
            | Self::Told { .. }
            | Self::Sync { .. }
            | Self::Take { .. }
            | Self::Confirm { .. } => 1,
        }
    }
}

/// Whether an entry can be refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Urgency {
    /// It can, when the queue is full.
    Refusable,
    /// It cannot: its place was kept when its reservation was made.
    Owed,
}

/// Entries in order.
pub(crate) struct Queue {
    state: Mutex<State>,
    came: Condvar,
    refusable_max: usize,
}

struct State {
    waiting: VecDeque<Entry>,
    /// How many of those are to be written now.
    awaited: usize,
    door: Door,
}

#[derive(Clone, Copy)]
enum Door {
    /// Entries come and are written.
    Open,
    /// What waits is still written, and then no more.
    Closing,
    /// Nothing is written any more, for this reason.
    Ended(io::ErrorKind),
}

impl State {
    /// Whether all that there is may wait, and there is room for more.
    fn may_linger(&self, count_max: usize) -> bool {
        matches!(self.door, Door::Open) && self.waiting.len() < count_max && self.awaited == 0
    }
}

impl Queue {
    /// Empty; whoever can be refused is, beyond `refusable_max` entries.
    pub(crate) const fn new(refusable_max: usize) -> Self {
        let state = Mutex::new(State { waiting: VecDeque::new(), awaited: 0, door: Door::Open });
        Self { state, came: Condvar::new(), refusable_max }
    }

    /// Puts an entry at the end.
    ///
    /// # Errors
    /// [`LedgerError::QueueFull`], [`LedgerError::Ended`].
    pub(crate) fn push(&self, entry: Entry, urgency: Urgency) -> Result<(), LedgerError> {
        let mut state = self.lock();
        match (state.door, urgency) {
            (Door::Ended(_), _) | (Door::Closing, Urgency::Refusable) => return Err(LedgerError::Ended),
            (Door::Open, Urgency::Refusable) if state.waiting.len() >= self.refusable_max => {
                return Err(LedgerError::QueueFull { limit: self.refusable_max });
            }
            (Door::Open, _) | (Door::Closing, Urgency::Owed) => {}
        }
        state.awaited = state.awaited.saturating_add(entry.awaited());
        state.waiting.push_back(entry);
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// Waits for entries, and moves up to `count_max` of them to `to`; none when the queue is closed and empty. Where all of
    /// them may wait, it waits a little for more.
    pub(crate) fn take(&self, to: &mut Vec<Entry>, count_max: usize) {
        let mut state = self.lock();
        while state.waiting.is_empty() && matches!(state.door, Door::Open) {
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let first = Instant::now();
        while state.may_linger(count_max) {
            let left = LINGER_MAX.saturating_sub(first.elapsed());
            if left.is_zero() {
                break;
            }
            state = self.came.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = state.waiting.len().min(count_max);
        let from = to.len();
        to.extend(state.waiting.drain(..count));
        let taken = to.iter().skip(from).map(Entry::awaited).sum();
        state.awaited = state.awaited.saturating_sub(taken);
    }

    /// Takes no more; what waits is still written.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if matches!(state.door, Door::Open) {
            state.door = Door::Closing;
        }
        drop(state);
        self.came.notify_all();
    }

    /// Writes nothing more. Whoever waits for an entry learns that it is not on disk. The first reason stays.
    pub(crate) fn end(&self, reason: io::ErrorKind) {
        let mut state = self.lock();
        if !matches!(state.door, Door::Ended(_)) {
            state.door = Door::Ended(reason);
        }
        let unwritten = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unwritten);
        self.came.notify_all();
    }

    /// Why nothing is written any more; none while it is.
    pub(crate) fn ended_by(&self) -> Option<io::ErrorKind> {
        match self.lock().door {
            Door::Ended(reason) => Some(reason),
            Door::Open | Door::Closing => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ledger::price::Used;
    use crate::store::TenantId;

    fn mark(id: u64) -> Record {
        Record::Mark { tenant: TenantId(Uuid::nil()), id, used: Used::NONE }
    }

    fn lazy(id: u64) -> Entry {
        Entry::Lazy { record: mark(id), ticket: oneshot::channel().0 }
    }

    #[test]
    fn only_what_may_wait_waits_for_company() {
        let queue = Queue::new(8);
        queue.push(lazy(1), Urgency::Refusable).unwrap();
        assert!(queue.lock().may_linger(4), "alone");
        assert!(!queue.lock().may_linger(1), "a frame is full");
        queue.push(Entry::Untold { record: mark(2) }, Urgency::Refusable).unwrap();
        assert!(!queue.lock().may_linger(4), "a mark is to be written now");
        let mut taken = Vec::new();
        queue.take(&mut taken, 4);
        assert_eq!((taken.len(), queue.lock().awaited), (2, 0));
        queue.push(lazy(3), Urgency::Refusable).unwrap();
        assert!(queue.lock().may_linger(4), "what could not wait is gone");
        let (ticket, _told) = oneshot::channel();
        queue.push(Entry::Sync { ticket }, Urgency::Refusable).unwrap();
        assert!(!queue.lock().may_linger(4), "somebody waits");
        queue.take(&mut taken, 4);
        queue.push(lazy(4), Urgency::Refusable).unwrap();
        queue.close();
        assert!(!queue.lock().may_linger(4), "nobody comes any more");
    }
}
