//! What an engine is started with, and why it would not start.

use crate::device::DeviceFault;
use isolation::{
    admit::CapacityMismatch,
    units::{Pages, Tokens},
};
use thiserror::Error;

/// How an engine works. Every field bounds something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EngineConfig {
    /// The window to offer; `None` offers what the pool holds, up to the context that the model was trained for.
    pub advertised_window: Option<Tokens>,
    /// Tokens that one step computes at most, over all sequences; at least 1. The device's own bound holds as well.
    pub step_tokens: Tokens,
    /// Sequences with pages at most; at least 1.
    pub sequences_max: u32,
    /// Sequences that may wait for pages.
    pub queue_max: u32,
    /// Whether prefixes are kept for their tenant.
    pub prefix_cache: PrefixCache,
    /// Whether pages that are lent are taken back from running sequences.
    pub preemption: Preemption,
    /// Pages wiped at most between two steps while sequences run; at least 1.
    pub scrub_pages: Pages,
}

/// Whether prefixes are kept for their tenant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PrefixCache {
    /// They are not.
    Off,
    /// They are, in at most this percentage of the pool, over all tenants.
    Share {
        /// 1 to 100.
        percent: u8,
    },
}

/// Whether a tenant that has less than its right may stop sequences of those who have more than theirs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Preemption {
    /// It waits until they end.
    Off,
    /// They give their pages back, wait again, and go on later with the same bits.
    On,
}

impl Default for EngineConfig {
    /// 512 tokens a step keep the wait of decoding sequences behind a prefill short; half the pool may hold prefixes.
    fn default() -> Self {
        Self {
            advertised_window: None,
            step_tokens: Tokens::new(512),
            sequences_max: 64,
            queue_max: 192,
            prefix_cache: PrefixCache::Share { percent: 50 },
            preemption: Preemption::On,
            scrub_pages: Pages::new(8),
        }
    }
}

impl EngineConfig {
    /// Sequences that may be live or queued at once.
    #[must_use]
    pub fn sequences_total(&self) -> u32 {
        self.sequences_max.saturating_add(self.queue_max)
    }

    pub(super) fn check(&self) -> Result<(), EngineStartError> {
        if self.step_tokens == Tokens::ZERO {
            return Err(EngineStartError::Zero { field: "step_tokens" });
        }
        if self.sequences_max == 0 {
            return Err(EngineStartError::Zero { field: "sequences_max" });
        }
        if self.scrub_pages == Pages::ZERO {
            return Err(EngineStartError::Zero { field: "scrub_pages" });
        }
        match self.prefix_cache {
            PrefixCache::Share { percent } if !(1..=100).contains(&percent) => {
                Err(EngineStartError::Percent { percent })
            }
            PrefixCache::Share { .. } | PrefixCache::Off => Ok(()),
        }
    }
}

/// Why an engine did not start. Each is for the operator.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum EngineStartError {
    /// More was promised than the measured pool holds (P4).
    #[error("a window of {} tokens is advertised, the pool holds {}", .0.advertised, .0.holds)]
    Capacity(CapacityMismatch),
    /// More was promised than the model was trained for.
    #[error("a window of {advertised} tokens is advertised, the model was trained for {trained}")]
    BeyondTrained {
        /// The window promised.
        advertised: Tokens,
        /// The context trained for.
        trained: Tokens,
    },
    /// The window has no room for one token of prompt and one of output.
    #[error("a window of {window} tokens has no room for a prompt and an answer")]
    NoWindow {
        /// The window.
        window: Tokens,
    },
    /// A bound that must be at least 1 is 0.
    #[error("{field} is 0, at least 1 is needed")]
    Zero {
        /// Which.
        field: &'static str,
    },
    /// The share of the prefix cache is no percentage.
    #[error("a prefix cache share of {percent} percent; 1 to 100 are possible")]
    Percent {
        /// What was asked for.
        percent: u8,
    },
    /// The device has a vocabulary that token ids cannot name.
    #[error("a vocabulary of {vocab} tokens")]
    Vocabulary {
        /// Its size.
        vocab: usize,
    },
    /// The device could not wipe its pages.
    #[error("the first wipe of the pool failed: {0}")]
    Device(DeviceFault),
}
