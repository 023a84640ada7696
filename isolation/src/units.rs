//! Numbers that cannot be mixed up. Knows nothing of what is counted.

use core::num::NonZeroU32;

macro_rules! count {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(u32);

        impl $name {
            /// None of them.
            pub const ZERO: Self = Self(0);

            /// So many of them.
            pub const fn new(count: u32) -> Self {
                Self(count)
            }

            /// The plain number.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// The sum, or `None` above `u32::MAX`.
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// The difference, or `None` below zero.
            pub const fn checked_sub(self, other: Self) -> Option<Self> {
                match self.0.checked_sub(other.0) {
                    Some(rest) => Some(Self(rest)),
                    None => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! serial {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(u64);

        impl $name {
            /// The number with this value.
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The plain number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The one after it, or `None` after the last.
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(next) => Some(Self(next)),
                    None => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

count! {
    /// A number of tokens, or a position counted in tokens.
    Tokens
}
count! {
    /// A number of pages.
    Pages
}
serial! {
    /// The number of one engine step; rises by one with each step of an epoch and is never used again.
    StepId
}
serial! {
    /// One life of an engine and of its one pool; never used again, and never by two pools: a step of one
    /// would pass for a step of the other.
    Epoch
}
serial! {
    /// One life of a page: rises by one each time the page is granted.
    Generation
}

/// Tokens that one page holds; never zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PageSize(NonZeroU32);

impl PageSize {
    /// So many tokens a page.
    pub const fn new(tokens: NonZeroU32) -> Self {
        Self(tokens)
    }

    /// The pages that hold `tokens`, rounded up.
    pub const fn pages_for(self, tokens: Tokens) -> Pages {
        Pages(tokens.0.div_ceil(self.0.get()))
    }

    /// The pages that `tokens` fill to the last place, rounded down.
    pub fn full_pages(self, tokens: Tokens) -> Pages {
        Pages(tokens.0 / self.0)
    }

    /// The tokens that `pages` hold, or `None` above `u32::MAX`.
    pub const fn tokens_in(self, pages: Pages) -> Option<Tokens> {
        match pages.0.checked_mul(self.0.get()) {
            Some(tokens) => Some(Tokens(tokens)),
            None => None,
        }
    }

    /// The tokens of one page.
    pub const fn tokens(self) -> u32 {
        self.0.get()
    }
}

const _: () = assert!(usize::BITS >= u32::BITS, "page numbers index memory");

/// A count as an index.
#[expect(clippy::as_conversions, reason = "usize holds a u32: asserted above")]
pub(crate) const fn index(count: u32) -> usize {
    count as usize
}

/// The length of a list of pages. A pool has at most `u32::MAX` pages and none is in a list twice.
pub(crate) fn pages(len: usize) -> Pages {
    Pages(u32::try_from(len).unwrap_or(u32::MAX))
}
