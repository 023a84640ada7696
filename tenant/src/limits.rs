//! What a key may take, beside what the policy says.
//!
//! Architecture invariant: no `None` means "no limit"; each case is named.

use core::num::NonZeroU32;

use policies::WindowCap;

use crate::time::UnixMillis;

/// What a key may take.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KeyLimits {
    /// Tokens that a request may span; it narrows the model's window and the policy's cap, and never widens
    /// them.
    pub window_cap: WindowCap,
    /// Requests in flight.
    pub concurrency: Concurrency,
}

/// Requests in flight that a key may have.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Concurrency {
    /// As many as the policy's `concurrency_per_key`.
    Inherit,
    /// Exactly this many, which may be above the policy's default; at most the ceiling of that field.
    AtMost(NonZeroU32),
}

impl Concurrency {
    /// The limit, where the policy says `per_key` for keys that name none.
    pub fn limit(self, per_key: usize) -> usize {
        match self {
            Self::Inherit => per_key,
            Self::AtMost(limit) => usize::try_from(limit.get()).unwrap_or(usize::MAX),
        }
    }
}

/// When a key stops working by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expiry {
    /// It does not.
    Never,
    /// At this moment it is already refused.
    At(UnixMillis),
}

impl Expiry {
    /// Whether this comes before the other.
    pub(crate) fn is_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::At(moment), Self::At(other)) => moment < other,
            (Self::At(_), Self::Never) => true,
            (Self::Never, Self::At(_) | Self::Never) => false,
        }
    }

    /// Whether a key is refused at `now`.
    pub fn has_passed(self, now: UnixMillis) -> bool {
        match self {
            Self::Never => false,
            Self::At(moment) => now >= moment,
        }
    }
}
