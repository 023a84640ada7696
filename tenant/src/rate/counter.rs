//! What one scope has used and has in flight.

use core::num::NonZeroU32;
use core::time::Duration;

use super::bucket::{Bucket, Fit, Room};
use super::refusal::{Clears, Over, Quota};
use super::rule::{Ask, Limit, Limits};
use crate::time::MonoNanos;

/// The counts of one scope. A new one has used nothing.
#[derive(Debug, Default)]
pub(super) struct Counter {
    requests: Bucket,
    tokens: Bucket,
    /// Requests in flight, whether or not a rule limits them: a limit that is set later counts those too.
    at_once: u32,
}

impl Counter {
    /// Goes on by `limits` from `now` on.
    pub(super) fn follow(&mut self, limits: &Limits, now: MonoNanos) {
        for (bucket, limit) in
            [(&mut self.requests, limits.requests_per_minute), (&mut self.tokens, limits.tokens_per_minute)]
        {
            if let Limit::AtMost(limit) = limit {
                bucket.follow(limit, now);
            }
        }
    }

    /// Each limit that `ask` does not keep. `late` nanoseconds have passed since the caller's clock was read.
    pub(super) fn over(&self, limits: &Limits, ask: Ask, late: u64) -> impl Iterator<Item = Over> + use<> {
        [
            rate(Quota::RequestsPerMinute, &self.requests, limits.requests_per_minute, 1, late),
            rate(Quota::TokensPerMinute, &self.tokens, limits.tokens_per_minute, ask.worst_tokens(), late),
            self.crowded(limits.at_once),
            size(Quota::PromptTokens, limits.prompt_tokens, ask.prompt_tokens),
            size(Quota::OutputTokens, limits.output_tokens, ask.output_tokens_max),
        ]
        .into_iter()
        .flatten()
    }

    fn crowded(&self, limit: Limit) -> Option<Over> {
        match limit {
            Limit::AtMost(limit) if self.at_once >= limit.get() => {
                Some(Over { quota: Quota::AtOnce, asked: 1, limit, left: 0, clears: Clears::WhenOneEnds })
            }
            Limit::AtMost(_) | Limit::Open => None,
        }
    }

    /// Takes what `ask` needs of each limited rate, and a place in flight.
    pub(super) fn take(&mut self, limits: &Limits, ask: Ask, number: u64) {
        if let Limit::AtMost(_) = limits.requests_per_minute {
            self.requests.take(1);
        }
        if let Limit::AtMost(_) = limits.tokens_per_minute {
            self.tokens.take_open(ask.worst_tokens(), number);
        }
        self.at_once = self.at_once.saturating_add(1);
    }

    /// Corrects the tokens charged under `number` by `limits`, from `worst` to `used`.
    pub(super) fn settle(&mut self, limits: &Limits, number: u64, worst: u64, used: u64, now: MonoNanos) {
        let Limit::AtMost(_) = limits.tokens_per_minute else { return };
        self.tokens.drain(now);
        match used.checked_sub(worst) {
            Some(0) => (),
            Some(more) => self.tokens.take(more),
            None => self.tokens.give_back(worst.saturating_sub(used), number),
        }
    }

    /// Frees the place in flight of `number`.
    pub(super) fn end(&mut self, number: u64) {
        self.tokens.close(number);
        self.at_once = self.at_once.saturating_sub(1);
    }

    /// Lets what has passed drain.
    pub(super) fn drain(&mut self, now: MonoNanos) {
        self.requests.drain(now);
        self.tokens.drain(now);
    }

    /// Whether it is like a new one.
    pub(super) const fn is_idle(&self) -> bool {
        self.at_once == 0 && self.requests.is_full() && self.tokens.is_full()
    }

    /// Charges that are remembered.
    #[cfg(test)]
    pub(super) const fn open_charges(&self) -> usize {
        self.tokens.open_charges()
    }

    /// How its requests stand.
    pub(super) const fn requests(&self, limit: NonZeroU32) -> Room {
        self.requests.room(limit)
    }

    /// How its tokens stand.
    pub(super) const fn tokens(&self, limit: NonZeroU32) -> Room {
        self.tokens.room(limit)
    }
}

fn rate(quota: Quota, bucket: &Bucket, limit: Limit, asked: u64, late: u64) -> Option<Over> {
    let Limit::AtMost(limit) = limit else { return None };
    let clears = match bucket.fit(asked, limit) {
        Fit::Now => return None,
        Fit::In(nanos) => Clears::In(Duration::from_nanos(nanos.saturating_add(late))),
        Fit::Never => Clears::Never,
    };
    Some(Over { quota, asked, limit, left: bucket.room(limit).left(), clears })
}

fn size(quota: Quota, limit: Limit, asked: u32) -> Option<Over> {
    match limit {
        Limit::AtMost(limit) if asked > limit.get() => {
            Some(Over { quota, asked: u64::from(asked), limit, left: limit.get(), clears: Clears::Never })
        }
        Limit::AtMost(_) | Limit::Open => None,
    }
}
