//! What the engine found wrong with itself. About no request: it goes to every gateway.
//!
//! A session that is open hears each alarm as it is raised. One that comes later hears, right after the hello, those of the
//! engine's life that are kept: the one of [`Cause::Unsound`], and the first [`WITHDRAWN_KEPT`] of [`Cause::Withdrawn`]. What
//! is beyond them is in the engine's log alone. So an alarm comes once in each session, not always in the order of the numbers.

use serde::{Deserialize, Serialize};

/// Withdrawn pages of one life that a session which comes later is told of, at most: under 48 KiB of frames.
pub const WITHDRAWN_KEPT: usize = 1_024;

/// One thing that the engine found wrong with itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Alarm {
    /// 0 for the first of an engine's life, then one more for each.
    pub number: u32,
    /// The engine's life.
    pub epoch: u64,
    /// What it is.
    pub cause: Cause,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Cause {
    /// The engine admits nothing more, and what runs drains. At most once in a life.
    Unsound(Unsound),
    /// A page was not blank after its wipe, and is never used again.
    Withdrawn {
        /// Which.
        page: u32,
        /// Its last life; 0 for a page that was never granted.
        generation: u64,
        /// The tag of the tenant that held it in that life, whose bytes may still be in it; `None` for a page that was never
        /// granted.
        last: Option<u64>,
    },
}

/// Why the engine trusts itself no more; its numbers are in the engine's log.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Unsound {
    /// A lease refused what the scheduler asked of it.
    Lease,
    /// Where bytes are read, a page was not what its lease had said.
    Read,
    /// A run of cached pages did not belong where it was to be kept.
    Prefix,
    /// The pages do not add up.
    Census,
    /// A step ended that the pool did not begin.
    Receipt,
    /// Steps are begun and never end.
    Steps,
    /// The device does not wipe its pages.
    Scrub,
    /// Somebody waits for pages that nobody holds.
    Starved,
    /// A cached run covers a whole prompt.
    WholePrompt,
}
