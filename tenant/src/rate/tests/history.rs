//! The definition, beside which buckets are run: an ask fits if, for every stretch of time that ends now, what was
//! charged in it is at most a minute's worth and what the rate gave in that time. What is given back was never charged.

use super::*;

const TOKEN: i128 = 60_000_000_000;
const FOREVER: u64 = 1 << 50;

/// All that was ever charged to a rate.
#[derive(Default)]
pub(super) struct History {
    /// Moment, tokens, request.
    pub(super) charges: Vec<(u64, i128, usize)>,
    /// From when on, and how much per minute.
    pub(super) rates: Vec<(u64, i128)>,
}

impl History {
    fn given(&self, from: u64, to: u64) -> i128 {
        let ends = self.rates.iter().skip(1).map(|(start, _)| *start).chain([u64::MAX]);
        let spans = self.rates.iter().zip(ends);
        spans
            .map(|((start, rate), end)| i128::from(end.min(to).saturating_sub((*start).max(from))) * rate)
            .sum()
    }

    pub(super) fn used(&self, now: u64) -> i128 {
        let stretches = (0..self.charges.len()).map(|first| {
            let charged: i128 = self.charges[first..].iter().map(|(_, tokens, _)| tokens * TOKEN).sum();
            charged - self.given(self.charges[first].0, now)
        });
        stretches.max().unwrap_or(0).max(0)
    }

    pub(super) fn fits(&self, tokens: i128, limit: u32, now: u64) -> bool {
        self.used(now) + tokens * TOKEN <= i128::from(limit) * TOKEN
    }

    /// Found by looking, not by a formula.
    pub(super) fn clears(&self, tokens: i128, limit: u32, now: u64) -> Clears {
        if tokens > i128::from(limit) {
            return Clears::Never;
        }
        let (mut early, mut late) = (0, FOREVER);
        while early < late {
            let middle = early + (late - early) / 2;
            if self.fits(tokens, limit, now + middle) { late = middle } else { early = middle + 1 }
        }
        Clears::In(Duration::from_nanos(early))
    }
}
