//! What a tenant may hold of an engine's memory, in tokens.
//!
//! Architecture invariant: no `None` means "no limit"; each case is named.

use core::num::NonZeroU32;

use isolation::tag::TenantTag;

/// The largest weight: what one tenant may have a thousand times as much of as another.
pub const WEIGHT_MAX: u32 = 1_000;

/// One tenant's part of the memory for keys and values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryShare {
    /// Tokens that no other tenant can hold, whether it uses them or not.
    pub floor: u32,
    /// Tokens that it holds at most, running requests and cached prefixes together.
    pub cap: MemoryCap,
    /// Its part in the sharing of what no floor reserves, against the others'; at most [`WEIGHT_MAX`].
    pub weight: NonZeroU32,
}

/// The most that a tenant may hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemoryCap {
    /// As much as there is.
    Pool,
    /// This many tokens.
    Tokens(NonZeroU32),
}

impl MemoryCap {
    /// Tokens, where a pool holds at most `u32::MAX`.
    pub const fn tokens(self) -> u32 {
        match self {
            Self::Pool => u32::MAX,
            Self::Tokens(tokens) => tokens.get(),
        }
    }
}

impl Default for MemoryShare {
    /// No floor, no cap but the pool, and the least weight.
    fn default() -> Self {
        Self { floor: 0, cap: MemoryCap::Pool, weight: NonZeroU32::MIN }
    }
}

impl MemoryShare {
    /// This share, if it can be.
    ///
    /// # Errors
    /// When the floor is above the cap, or the weight above [`WEIGHT_MAX`].
    pub fn checked(self) -> Result<Self, BadShare> {
        if self.floor > self.cap.tokens() {
            return Err(BadShare::FloorAboveCap { floor: self.floor, cap: self.cap.tokens() });
        }
        if self.weight.get() > WEIGHT_MAX {
            return Err(BadShare::WeightTooHigh { asked: self.weight.get() });
        }
        Ok(self)
    }
}

/// Why a share cannot be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadShare {
    /// More is reserved than may be held.
    #[error("a floor of {floor} tokens is above the cap of {cap}")]
    FloorAboveCap {
        /// Tokens reserved.
        floor: u32,
        /// Tokens at most.
        cap: u32,
    },
    /// The weight is too high.
    #[error("a weight of {asked} is above {WEIGHT_MAX}")]
    WeightTooHigh {
        /// The weight asked.
        asked: u32,
    },
}

/// One tenant's share, under its name inside the engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TenantShare {
    /// The tenant.
    pub tag: TenantTag,
    /// What it may hold.
    pub share: MemoryShare,
}
