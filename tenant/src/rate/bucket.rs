//! One rate: how much of a minute's worth is used, and how much of an open charge may still be given back.
//!
//! A bucket holds what is used, in units of 1/60,000,000,000 token, so that `n` per minute are `n` units each
//! nanosecond: no division, no rounding. Taking what fits under a minute's worth is GCRA, written as a leaky
//! bucket; both decide alike.
//!
//! Giving back is exact too: the bucket is then as if the charge had been smaller from the start. Of a charge, the
//! lesser of what was not used and of the lowest that the bucket stood at since is still in the bucket; the rest
//! has run out meanwhile, and giving it back would let a later burst pass the limit. So each open charge keeps
//! that lowest point, as a list of low points between one open charge and the next.
//!
//! Architecture invariant: knows no rules and no clock; time only goes forward.

use core::num::NonZeroU32;

use crate::fault::{Fault, seeded};
use crate::time::MonoNanos;

/// Units of a token, nanoseconds of a minute.
const MINUTE: u128 = 60_000_000_000;

/// What is used of a rate. A new one is full: nothing is used.
///
/// # Invariants
/// `used` stays far below 2^128: one charge is below 2^64 tokens, that is 2^100 units, and where sums could pass the
/// end they stop there, which refuses. A minute's worth is below 2^68, what drains below 2^96.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    used: u128,
    /// Units that drain each nanosecond; 0 before the first rule.
    per_minute: u32,
    at: MonoNanos,
    /// Charges that may be given back, the oldest first: at most as many as requests are in flight.
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    /// The least that was used from this charge on to the next open one.
    lowest: u128,
}

/// Whether a charge fits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fit {
    /// It does.
    Now,
    /// Not before this many nanoseconds have passed.
    In(u64),
    /// It is above what a minute holds.
    Never,
}

/// `tokens` in units.
pub(super) fn units(tokens: u64) -> u128 {
    u128::from(tokens).saturating_mul(MINUTE)
}

fn minute_of(limit: NonZeroU32) -> u128 {
    units(u64::from(limit.get()))
}

/// `count` as 64 bits; what is above them is as far away as can be said.
fn clamp(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl Bucket {
    /// Lets what has passed drain, and goes on at `limit` from `now` on. What is used stays used, whatever the new
    /// limit is.
    pub(super) fn follow(&mut self, limit: NonZeroU32, now: MonoNanos) {
        self.drain(now);
        self.per_minute = limit.get();
    }

    /// Lets what has passed since the last call drain.
    pub(super) fn drain(&mut self, now: MonoNanos) {
        let drained = u128::from(now.since(self.at)).saturating_mul(u128::from(self.per_minute));
        self.used = self.used.saturating_sub(drained);
        self.at = self.at.max(now);
        if self.used == 0 {
            // The lowest point of every charge up to now is zero: nothing is left to give back, or to remember.
            self.open.clear();
        }
    }

    /// Whether `tokens` more fit under `limit`.
    pub(super) fn fit(&self, tokens: u64, limit: NonZeroU32) -> Fit {
        let (asked, minute) = (units(tokens), minute_of(limit));
        if asked > minute {
            return Fit::Never;
        }
        match self.used.saturating_add(asked).saturating_sub(minute) {
            0 => Fit::Now,
            over => Fit::In(clamp(over.div_ceil(u128::from(limit.get())))),
        }
    }

    /// Charges `tokens` for good.
    pub(super) fn take(&mut self, tokens: u64) {
        self.mark_lowest();
        self.used = self.used.saturating_add(units(tokens));
    }

    /// Charges `tokens`, to be settled or closed under `number`. Numbers only grow.
    pub(super) fn take_open(&mut self, tokens: u64, number: u64) {
        self.take(tokens);
        self.open.push(Open { number, lowest: self.used });
    }

    /// Gives back what is still there of `tokens` of the charge `number`; returns by how many units less is used.
    pub(super) fn give_back(&mut self, tokens: u64, number: u64) -> u128 {
        let Ok(place) = self.open.binary_search_by_key(&number, |open| open.number) else { return 0 };
        let (_, since) = self.open.split_at_mut(place);
        let lowest = since.iter().map(|open| open.lowest).min().unwrap_or(0);
        let given = units(tokens).min(lowest);
        for open in since {
            // As if it had never been charged: all that came after stood lower by as much.
            open.lowest = open.lowest.saturating_sub(given);
        }
        // Now it may stand lower than it ever did since; here the difference ends at zero, and what follows marks
        // that before it adds anything.
        let before = self.used;
        self.used = self.used.saturating_sub(given);
        before.saturating_sub(self.used)
    }

    /// Goes on from what all gateways used together by `now`, in units, and from what this one charged, or gave back, beyond
    /// that. Where the shared count stood at its lowest bounds what is given back of charges that it had by then.
    pub(super) fn rebase(&mut self, news: News, now: MonoNanos) {
        self.drain(now);
        self.mark_lowest();
        if !seeded(Fault::LowestUnheard) {
            self.stood_at(news.lowest, news.known);
            self.stood_at(news.since, news.told);
        }
        self.used = news.together.saturating_add(news.charged).saturating_sub(news.given);
        self.drain(now);
    }

    /// All used together `lowest` once, after the charge `number` was counted there.
    fn stood_at(&mut self, lowest: u128, number: u64) {
        let before = self.open.partition_point(|open| open.number <= number);
        if let Some(last) = before.checked_sub(1).and_then(|place| self.open.get_mut(place)) {
            last.lowest = last.lowest.min(lowest);
        }
    }

    /// Nothing of what is charged now will be given back: nobody knows how low all stood meanwhile.
    pub(super) fn give_nothing_back(&mut self) {
        self.open.clear();
    }

    /// Units that drain each nanosecond: the limit that it followed last, 0 before the first.
    pub(super) const fn per_minute(&self) -> u32 {
        self.per_minute
    }

    /// What is used, in units.
    pub(super) const fn used(&self) -> u128 {
        self.used
    }

    /// Ends the charge `number`: nothing of it will be given back.
    pub(super) fn close(&mut self, number: u64) {
        let Ok(place) = self.open.binary_search_by_key(&number, |open| open.number) else { return };
        let closed = self.open.remove(place);
        if let Some(before) = place.checked_sub(1).and_then(|place| self.open.get_mut(place)) {
            before.lowest = before.lowest.min(closed.lowest);
        }
    }

    /// Whether nothing is used; such a bucket is like a new one.
    pub(super) const fn is_full(&self) -> bool {
        self.used == 0
    }

    /// How it stands under `limit`.
    pub(super) const fn room(&self, limit: NonZeroU32) -> Room {
        Room { used: self.used, limit }
    }

    /// Charges that are remembered.
    #[cfg(test)]
    pub(super) const fn open_charges(&self) -> usize {
        self.open.len()
    }

    fn mark_lowest(&mut self) {
        // Between two calls the bucket only drains: it is lowest right before something is added.
        if let Some(last) = self.open.last_mut() {
            last.lowest = last.lowest.min(self.used);
        }
    }
}

/// What a bucket goes on from, in units.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// What all used together.
    pub(super) together: u128,
    /// What this gateway charged beyond that.
    pub(super) charged: u128,
    /// What it gave back beyond that.
    pub(super) given: u128,
    /// The least that all used together since the news before, up to the report that brought this.
    pub(super) lowest: u128,
    /// The last charge that was counted together at the news before.
    pub(super) known: u64,
    /// The least that all used together since that report.
    pub(super) since: u128,
    /// The last charge that it told.
    pub(super) told: u64,
}

/// How a bucket stood under a limit. Nothing is divided before somebody asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    used: u128,
    limit: NonZeroU32,
}

impl Room {
    /// The limit.
    pub(super) const fn limit(self) -> NonZeroU32 {
        self.limit
    }

    /// Whether this leaves less than `other`.
    pub(super) fn is_tighter(self, other: Self) -> bool {
        self.units() < other.units()
    }

    /// Whole tokens that are left; at most the limit.
    pub(super) fn left(self) -> u32 {
        u32::try_from(self.units().div_euclid(MINUTE)).unwrap_or(self.limit.get())
    }

    /// Nanoseconds until nothing is used, if nothing else comes.
    pub(super) fn reset(self) -> u64 {
        clamp(self.used.div_ceil(u128::from(self.limit.get())))
    }

    fn units(self) -> u128 {
        minute_of(self.limit).saturating_sub(self.used)
    }
}
