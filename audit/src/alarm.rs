//! What is recorded of an engine that found something wrong with itself.

use serde::{Deserialize, Serialize};

use crate::hex::Word;

/// An engine found something wrong with itself. A gateway that starts anew records again what the engine still tells of its
/// life: epoch and number say which alarm it is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EngineAlarm {
    /// The engine's life.
    pub epoch: Word,
    /// 0 for the first of that life, then one more for each.
    pub number: u32,
    /// What it is.
    pub cause: AlarmCause,
}

/// What is wrong with the engine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AlarmCause {
    /// It admits nothing more, and what runs drains.
    Unsound {
        /// Why.
        why: Unsound,
    },
    /// A page was not blank after its wipe, and is never used again.
    Withdrawn {
        /// Which.
        page: u32,
        /// Its last life; 0 for a page that was never granted.
        generation: u64,
        /// The tenant, inside the engine, that held it in that life, whose bytes may still be in it; none for a page that was
        /// never granted.
        last: Option<Word>,
    },
}

/// Why an engine trusts itself no more.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
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
