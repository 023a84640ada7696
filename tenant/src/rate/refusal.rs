//! Why a request is not admitted, and when it would be.

use core::cmp::Ordering;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use super::rule::Scope;
use super::standing::{Reset, Standing, millis_up};

/// When to come again for what is refused until a request in flight ends: nobody knows when that is.
pub const WHEN_ONE_ENDS: Duration = Duration::from_secs(1);

/// When to come again where there was no room to count: what a minute's worth was used of has run out by then.
pub const WHEN_COUNTS_RUN_OUT: Duration = Duration::from_secs(60);

/// A request is not admitted, and nothing was counted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The caller asks more than a rule allows.
    #[error("{0}")]
    Over(Box<OverLimit>),
    /// There is no room to count it; what cannot be counted is not admitted.
    #[error("{0}")]
    NoRoom(NoRoom),
    /// The shared count does not know yet of what this gateway admitted, and that is as much as it may be ahead.
    #[error("{0}")]
    Ahead(Box<Ahead>),
}

/// When to come again where the shared count does not answer.
pub const WHEN_COUNTS_ANSWER: Duration = Duration::from_secs(1);

/// What a gateway may not count by itself.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{} of {scope}: this gateway may be {slice} ahead of what all gateways count together, that is used up, and the shared count has not answered in time",
    quota.name()
)]
pub struct Ahead {
    /// What is limited.
    pub quota: Quota,
    /// For whom, and for which models.
    pub scope: Scope,
    /// How much of the limit a gateway may be ahead.
    pub slice: u32,
}

impl Refusal {
    /// What the `retry-after` headers say.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Over(over) => over.clears.retry(),
            Self::Ahead(_) => Clears::In(WHEN_COUNTS_ANSWER).retry(),
            Self::NoRoom(NoRoom::InFlight { .. }) => Clears::WhenOneEnds.retry(),
            Self::NoRoom(NoRoom::Counters { .. } | NoRoom::Tenants { .. }) => {
                Clears::In(WHEN_COUNTS_RUN_OUT).retry()
            }
        }
    }
}

/// A bound of the limiter itself is met.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoRoom {
    /// The tenant's: it uses too many keys, projects and models in the same minute.
    #[error(
        "{max} counters of this tenant are in use, and that is the most there may be; in a minute some are free again"
    )]
    Counters {
        /// The bound.
        max: usize,
    },
    /// The tenant's: too many requests at once, whatever the rules say.
    #[error("{max} requests of this tenant are in flight, and that is the most there may be")]
    InFlight {
        /// The bound.
        max: usize,
    },
    /// The operator's: too many tenants in the same minute.
    #[error("{max} tenants are counted, and that is the most there may be; in a minute some are not")]
    Tenants {
        /// The bound.
        max: usize,
    },
}

/// What a rule limits.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Quota {
    /// Requests per minute.
    RequestsPerMinute,
    /// Tokens per minute.
    TokensPerMinute,
    /// Requests in flight.
    AtOnce,
    /// Tokens of one prompt.
    PromptTokens,
    /// Tokens to be written for one request.
    OutputTokens,
}

impl Quota {
    /// Its name in limits, as it stands in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestsPerMinute => "requests_per_minute",
            Self::TokensPerMinute => "tokens_per_minute",
            Self::AtOnce => "at_once",
            Self::PromptTokens => "prompt_tokens",
            Self::OutputTokens => "output_tokens",
        }
    }
}

/// When the same request would be admitted, as far as this rule goes, if no other comes before it. The order is from
/// the first to the last: a time that is known counts as later than one that is not.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Clears {
    /// When a request in flight ends.
    WhenOneEnds,
    /// After this time, to the nanosecond, and not before.
    In(Duration),
    /// Not at all: it asks more than the rule allows at any time.
    Never,
}

/// What to tell a caller about coming again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// After this time.
    After {
        /// For `retry-after`: whole seconds, rounded up, at least 1.
        seconds: u64,
        /// For `retry-after-ms`: rounded up, at least 1.
        millis: u64,
    },
    /// The same request will be refused again.
    Useless,
}

impl Clears {
    /// What the `retry-after` headers say.
    pub fn retry(self) -> Retry {
        let wait = match self {
            Self::Never => return Retry::Useless,
            Self::WhenOneEnds => WHEN_ONE_ENDS,
            Self::In(wait) => wait,
        };
        let millis = millis_up(wait).max(1);
        Retry::After { seconds: millis.div_ceil(1_000), millis }
    }
}

/// The rule that a request does not keep; of several, the one that clears last, and of those that clear at the same
/// time the first of the chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OverLimit {
    /// What is limited.
    pub quota: Quota,
    /// For whom, and for which models.
    pub scope: Scope,
    /// What the request asks of it: requests or tokens.
    pub asked: u64,
    /// What the rule allows.
    pub limit: NonZeroU32,
    /// What it leaves now, rounded down.
    pub left: u32,
    /// When the same request would be admitted.
    pub clears: Clears,
    /// For the headers.
    pub standing: Standing,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, scope, asked, limit, left, clears, .. } = self;
        write!(f, "{} of {scope}: {asked} asked, ", quota.name())?;
        match clears {
            Clears::In(wait) => write!(f, "{left} of {limit} left; it clears in {}", Reset(*wait)),
            Clears::WhenOneEnds => {
                write!(f, "{left} of {limit} left; it clears when one of the requests in flight ends")
            }
            Clears::Never => {
                write!(f, "and one request may have {limit}; it never clears: {}", self.way_out())
            }
        }
    }
}

impl OverLimit {
    /// What to do about a request that is never admitted.
    const fn way_out(&self) -> &'static str {
        match self.quota {
            Quota::PromptTokens => "shorten the prompt, or have the limit raised",
            Quota::OutputTokens => "ask for fewer output tokens, or have the limit raised",
            Quota::TokensPerMinute | Quota::RequestsPerMinute | Quota::AtOnce => {
                "shorten the prompt, ask for fewer output tokens, or have the limit raised"
            }
        }
    }
}

/// One rule's word, before the worst is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) quota: Quota,
    pub(super) asked: u64,
    pub(super) limit: NonZeroU32,
    pub(super) left: u32,
    pub(super) clears: Clears,
}

impl Over {
    /// Whether this is told rather than `other`, which came first in the chain.
    pub(super) fn outlasts(&self, other: &Self) -> bool {
        self.clears.cmp(&other.clears) == Ordering::Greater
    }

    pub(super) const fn told(self, scope: Scope, standing: Standing) -> OverLimit {
        let Self { quota, asked, limit, left, clears } = self;
        OverLimit { quota, scope, asked, limit, left, clears, standing }
    }
}
