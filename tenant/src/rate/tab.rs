//! What of one counter the count that gateways share does not know yet, and how far a gateway may be ahead of it.
//!
//! A gateway decides by what it was told last of the shared count and by all that it counted itself since. It may be
//! ahead by one slice of a limit; a single charge that is larger gets in when nothing else is untold. So with `n`
//! gateways, what is admitted is over a limit by at most `n` times the larger of a slice and of the largest charge: after
//! the last news that any of them acted on, each has at most that much which that news lacked (decision 0011).
//!
//! What is given back of a charge that was told is bounded by the lowest point of the shared count since. Of the time up to
//! the last news each answer tells it; of the time after, the shared count knows it itself and gives back no more.

use core::num::NonZeroU32;

use super::bucket::{Bucket, News, units};
use super::refusal::Quota;
use super::report::{Rate, Stand};
use super::rule::{Ask, Limit, Limits};
use crate::time::MonoNanos;

/// A slice is this part of a limit, and at least 1.
pub const SLICES: u32 = 20;

/// Units of a [`Bucket`] in one unit of the shared count, which is 1/60,000 token: milliseconds of a minute, so that `n` per
/// minute are `n` units each millisecond, and below 2^53 what any limit comes to.
const COARSE: u128 = 1_000_000;

/// Answers during which a request that is larger than a slice has its turn: the next, when nothing is untold any more, and one
/// for it to come.
const LARGE_TURNS: u8 = 2;

/// The most that one report says of a rate: what a Redis script counts without rounding.
const TOLD_MAX: u64 = 1 << 52;

/// How much a gateway may be ahead of the shared count, in tokens, requests or places.
fn slice(limit: NonZeroU32) -> u32 {
    limit.get().div_euclid(SLICES).max(1)
}

/// What was charged, and what was given back of what had been told before; in units.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Moved {
    charged: u128,
    given: u128,
}

/// What of one rate is untold.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// Since the last report.
    pending: Moved,
    /// In the report that is under way.
    sent: Moved,
}

impl Untold {
    /// `charged` units more.
    pub(super) fn charge(&mut self, charged: u128) {
        self.pending.charged = self.pending.charged.saturating_add(charged);
    }

    /// `given` units less; of a charge that the last report told, or of one that it did not.
    pub(super) fn give_back(&mut self, given: u128, was_told: bool) {
        if was_told {
            self.pending.given = self.pending.given.saturating_add(given);
        } else {
            self.pending.charged = self.pending.charged.saturating_sub(given);
        }
    }

    /// Nobody listens: what has run out of `used` is not told later as if it were new.
    pub(super) fn run_out(&mut self, used: u128) {
        self.pending.charged = self.pending.charged.min(used);
    }

    /// Whether `asked` more, in tokens, may be charged before the shared count knows of the rest.
    fn admits(&self, asked: u64, limit: NonZeroU32) -> bool {
        let ahead = self.ahead();
        ahead == 0 || ahead.saturating_add(units(asked)) <= units(u64::from(slice(limit)))
    }

    /// Whether more than half of the slice is untold.
    pub(super) fn is_pressing(&self, limit: NonZeroU32) -> bool {
        self.ahead().saturating_mul(2) > units(u64::from(slice(limit)))
    }

    const fn ahead(&self) -> u128 {
        self.pending.charged.saturating_add(self.sent.charged)
    }

    /// What a report says of `bucket`; it is under way from here on.
    pub(super) fn send(&mut self, bucket: &Bucket) -> Rate {
        let known = bucket.used().saturating_add(self.pending.given).saturating_sub(self.pending.charged);
        let (charged, given) = (coarse_up(self.pending.charged), coarse(self.pending.given));
        self.sent = Moved { charged: fine(charged), given: fine(given) };
        // What was rounded is forgotten; what is more than can be told at once waits.
        let beyond = self.pending.charged.saturating_sub(self.sent.charged);
        self.pending = Moved { charged: beyond, given: 0 };
        Rate { per_minute: bucket.per_minute(), believed: coarse_up(known), charged, given }
    }

    /// The report has arrived, and all stand as `stand` says; `known` is the last charge that had been told before it, `told`
    /// the last that it told.
    pub(super) fn confirm(
        &mut self,
        bucket: &mut Bucket,
        stand: Stand,
        (known, told): (u64, u64),
        now: MonoNanos,
    ) {
        self.sent = Moved::default();
        if bucket.per_minute() > 0 {
            let Moved { charged, given } = self.pending;
            let (together, lowest, since) = (fine(stand.level), fine(stand.lowest), fine(stand.since));
            bucket.rebase(News { together, charged, given, lowest, known, since, told }, now);
        }
    }

    /// Nobody took the report `rate` for a while: what has run out of it meanwhile is not told as if it were new. Where it was
    /// counted all the same it counts no second time, so what it says now does not matter.
    pub(super) fn amend(&mut self, rate: &mut Rate, bucket: &Bucket) {
        let still = bucket.used().saturating_sub(self.pending.charged);
        rate.charged = rate.charged.min(coarse_up(still));
        self.sent.charged = fine(rate.charged);
    }

    /// The report is given up.
    pub(super) fn give_up(&mut self) {
        self.sent = Moved::default();
    }

    /// Whether all was told.
    pub(super) fn is_told(&self) -> bool {
        self.pending == Moved::default() && self.sent == Moved::default()
    }
}

/// In units of the shared count, rounded down.
fn coarse(units: u128) -> u64 {
    u64::try_from(units.div_euclid(COARSE)).unwrap_or(u64::MAX).min(TOLD_MAX)
}

/// In units of the shared count, rounded up.
fn coarse_up(units: u128) -> u64 {
    u64::try_from(units.div_ceil(COARSE)).unwrap_or(u64::MAX).min(TOLD_MAX)
}

/// What `level` of the shared count is in units.
fn fine(level: u64) -> u128 {
    u128::from(level).saturating_mul(COARSE)
}

/// What one counter has to tell.
#[derive(Debug, Default)]
pub(super) struct Tab {
    pub(super) requests: Untold,
    pub(super) tokens: Untold,
    /// Places in flight that the shared count knows of.
    pub(super) places: u32,
    /// Places in flight at other gateways, as was told last.
    pub(super) others: u32,
    /// Of the report that is under way, or was last.
    pub(super) sequence: u64,
    /// A report is on its way; the next waits for its answer.
    pub(super) is_under_way: bool,
    /// The last charge that the last report told.
    pub(super) told: u64,
    /// The last charge that the last report with an answer told.
    pub(super) known: u64,
    /// Answers to come during which requests within a slice make way for a larger one that waits.
    pub(super) large: u8,
}

impl Tab {
    /// What `ask`, with `at_once` in flight, would take further ahead of the shared count than one slice; the slice with it.
    pub(super) fn ahead(&mut self, limits: &Limits, ask: Ask, at_once: u32) -> Option<(Quota, u32)> {
        let over = |quota, limit: Limit, fits: &dyn Fn(NonZeroU32) -> bool| match limit {
            Limit::AtMost(limit) if !fits(limit) => Some((quota, slice(limit))),
            Limit::AtMost(_) | Limit::Open => None,
        };
        let tokens = ask.worst_tokens();
        let is_large = |limit: NonZeroU32| tokens > u64::from(slice(limit));
        let makes_way = self.large > 0;
        let places = at_once.saturating_sub(self.places);
        let ahead = over(Quota::RequestsPerMinute, limits.requests_per_minute, &|limit| {
            self.requests.admits(1, limit)
        })
        .or_else(|| {
            over(Quota::TokensPerMinute, limits.tokens_per_minute, &|limit| {
                self.tokens.admits(tokens, limit) && (is_large(limit) || !makes_way)
            })
        })
        .or_else(|| over(Quota::AtOnce, limits.at_once, &|limit| places == 0 || places < slice(limit)));
        if let Limit::AtMost(limit) = limits.tokens_per_minute
            && is_large(limit)
        {
            // It needs nothing to be untold: while smaller ones come it would wait for ever.
            self.large = if ahead.is_some() { LARGE_TURNS } else { 0 };
        }
        ahead
    }

    /// Whether the shared count knows everything, once what is under way has arrived.
    pub(super) fn is_told(&self, at_once: u32) -> bool {
        self.requests.is_told() && self.tokens.is_told() && self.places == at_once
    }
}
