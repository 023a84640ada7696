//! What the engine does when it finds itself unsound: it admits nothing more, and says why. Nothing mends a fuse but a
//! new life.

use crate::{core::Engine, core::count, device::Device};
use isolation::{
    lease::LeaseError,
    pool::{Census, ForeignReceipt, NotGranted, StepsExhausted},
    prefix::PrefixError,
    units::{Pages, Tokens},
};
use kernels::Denied;
use thiserror::Error;
use wire::{Cause, Ending, Failed, Refusal};

/// Whether the engine may go on admitting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fuse {
    /// It may.
    Intact,
    /// It may not, for the first reason that there was.
    Blown(Blown),
}

/// Why the engine admits nothing more.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Blown {
    /// A lease refused what the scheduler asked of it.
    #[error("a lease refused: {0}")]
    Lease(LeaseError),
    /// Where bytes are read, a page was not what its lease had said.
    #[error("a page was denied where it is read: {0}")]
    Read(Denied),
    /// A run did not belong where it was to be kept.
    #[error("a prefix tree refused: {0}")]
    Prefix(PrefixError),
    /// The pages do not add up: one was lost, or is in two places.
    #[error("the pages do not add up: {0:?}")]
    Census(Census),
    /// A step ended that this pool did not begin.
    #[error("a receipt was not ours: {0}")]
    Receipt(ForeignReceipt),
    /// Steps are begun and never end.
    #[error("{0}")]
    Steps(StepsExhausted),
    /// The device does not wipe its pages.
    #[error("{failures} wipes failed in a row, and {dirty} pages are dirty")]
    Scrub {
        /// How many times.
        failures: u32,
        /// Pages that wait for a wipe.
        dirty: Pages,
    },
    /// Somebody waits for pages that nobody holds.
    #[error("pages are missing although nothing runs: {0}")]
    Starved(NotGranted),
    /// A cached run covers a whole prompt, so that there is nothing to sample from.
    #[error("{cached} tokens of a prompt of {prompt} are cached")]
    WholePrompt {
        /// Tokens of the run.
        cached: Tokens,
        /// Tokens of the prompt.
        prompt: usize,
    },
    /// The engine is going away.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

impl<D: Device> Engine<D> {
    /// Blows the fuse, once, tells the gateways, and refuses all that wait. What runs goes on: it drains.
    pub(super) fn blow(&mut self, why: Blown) {
        match self.fuse {
            Fuse::Blown(_) => return,
            Fuse::Intact => self.fuse = Fuse::Blown(why),
        }
        match why.unsound() {
            None => tracing::info!("the engine shuts down"),
            Some(unsound) => {
                tracing::error!(%why, running = count(self.running.len()), "the engine is unsound and drains");
                self.alarm(Cause::Unsound(unsound));
            }
        }
        let refused = self.queue.take_where(|_| true);
        self.outbox.extend(refused.into_iter().map(|waiting| waiting.turn_away(Refusal::ShuttingDown)));
    }

    /// Ends all that run.
    pub(super) fn fail_running(&mut self, failed: Failed) {
        self.outbox.extend(self.running.drain(..).map(|running| running.end(Ending::Failed(failed))));
    }
}
