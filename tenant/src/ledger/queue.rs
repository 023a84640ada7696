//! What waits for the writer.
//!
//! Reservations, marks and batches are refused when [`Queue`] is as long as it may be. A settlement never is:
//! there is at most one for each open reservation, of which there is a bound.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::ledger::error::LedgerError;
use crate::ledger::record::Record;
use crate::ledger::usage::Taken;

/// What the writer is asked.
pub(crate) enum Entry {
    /// Write this, and say so.
    Told { record: Record, ticket: oneshot::Sender<()> },
    /// Write this.
    Untold { record: Record },
    /// Say when all that came before is written.
    Sync { ticket: oneshot::Sender<()> },
    /// Give the batch that is out, or the next.
    Take { answer: oneshot::Sender<Taken> },
    /// This batch is stored.
    Confirm { number: u64, answer: oneshot::Sender<Result<(), LedgerError>> },
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

impl Queue {
    /// Empty; whoever can be refused is, beyond `refusable_max` entries.
    pub(crate) const fn new(refusable_max: usize) -> Self {
        let state = Mutex::new(State { waiting: VecDeque::new(), door: Door::Open });
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
        state.waiting.push_back(entry);
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// Waits for entries, and moves up to `count_max` of them to `to`; none when the queue is closed and empty.
    pub(crate) fn take(&self, to: &mut Vec<Entry>, count_max: usize) {
        let mut state = self.lock();
        while state.waiting.is_empty() && matches!(state.door, Door::Open) {
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.waiting.len().min(count_max);
        to.extend(state.waiting.drain(..count));
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
