//! What one scope has used and has in flight.

use core::num::NonZeroU32;
use core::time::Duration;

use super::bucket::{Bucket, Fit, Room, units};
use super::refusal::{Clears, Over, Quota};
use super::report::{Answer, Report};
use super::rule::{Ask, Limit, Limits, Scope};
use super::tab::{Tab, Untold};
use super::telling::Telling;
use crate::fault::{Fault, seeded};
use crate::store::TenantId;
use crate::time::MonoNanos;

/// The counts of one scope. A new one has used nothing.
#[derive(Debug, Default)]
pub(super) struct Counter {
    requests: Bucket,
    tokens: Bucket,
    /// Requests in flight, whether or not a rule limits them: a limit that is set later counts those too.
    at_once: u32,
    told: Told,
}

/// Whom a counter tells.
#[derive(Debug, Default)]
enum Told {
    /// It is alone.
    #[default]
    Nobody,
    /// All gateways count together.
    Together(Box<Tab>),
}

impl Counter {
    /// Has used nothing.
    pub(super) fn new(telling: Telling) -> Self {
        let told = match telling {
            Telling::Nobody => Told::Nobody,
            Telling::Near | Telling::Late | Telling::Away { .. } => Told::Together(Box::default()),
        };
        Self { told, ..Self::default() }
    }

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
    pub(super) fn over(
        &self,
        limits: &Limits,
        ask: Ask,
        late: u64,
        telling: Telling,
    ) -> impl Iterator<Item = Over> + use<> {
        [
            rate(Quota::RequestsPerMinute, &self.requests, limits.requests_per_minute, 1, late),
            rate(Quota::TokensPerMinute, &self.tokens, limits.tokens_per_minute, ask.worst_tokens(), late),
            self.crowded(limits.at_once, telling),
            size(Quota::PromptTokens, limits.prompt_tokens, ask.prompt_tokens),
            size(Quota::OutputTokens, limits.output_tokens, ask.output_tokens_max),
        ]
        .into_iter()
        .flatten()
    }

    fn crowded(&self, limit: Limit, telling: Telling) -> Option<Over> {
        let others = match (&self.told, telling) {
            (Told::Together(_), Telling::Away { alone: true }) | (Told::Nobody, _) => 0,
            (
                Told::Together(tab),
                Telling::Nobody | Telling::Near | Telling::Late | Telling::Away { alone: false },
            ) => tab.others,
        };
        match limit {
            Limit::AtMost(limit) if self.at_once.saturating_add(others) >= limit.get() => {
                Some(Over { quota: Quota::AtOnce, asked: 1, limit, left: 0, clears: Clears::WhenOneEnds })
            }
            Limit::AtMost(_) | Limit::Open => None,
        }
    }

    /// What `ask` would take further ahead of the shared count than one slice of a limit; the slice with it.
    pub(super) fn ahead(&mut self, limits: &Limits, ask: Ask) -> Option<(Quota, u32)> {
        match &mut self.told {
            Told::Together(tab) if !seeded(Fault::SliceUnbounded) => tab.ahead(limits, ask, self.at_once),
            Told::Together(_) | Told::Nobody => None,
        }
    }

    /// Takes what `ask` needs of each limited rate, and a place in flight. Returns whether the shared count should hear of it
    /// at once.
    pub(super) fn take(&mut self, limits: &Limits, ask: Ask, number: u64, telling: Telling) -> bool {
        let mut pressing = false;
        if let Limit::AtMost(limit) = limits.requests_per_minute {
            self.requests.take(1);
            pressing |= self
                .told
                .charge(|tab| &mut tab.requests, 1, &self.requests, telling)
                .is_some_and(is_pressing(limit));
        }
        if let Limit::AtMost(limit) = limits.tokens_per_minute {
            let tokens = ask.worst_tokens();
            self.tokens.take_open(tokens, number);
            pressing |= self
                .told
                .charge(|tab| &mut tab.tokens, tokens, &self.tokens, telling)
                .is_some_and(is_pressing(limit));
        }
        self.at_once = self.at_once.saturating_add(1);
        pressing
    }

    /// Corrects the tokens charged under `number` by `limits`, from `worst` to `used`.
    pub(super) fn settle(
        &mut self,
        limits: &Limits,
        number: u64,
        (worst, used): (u64, u64),
        now: MonoNanos,
        telling: Telling,
    ) {
        let Limit::AtMost(_) = limits.tokens_per_minute else { return };
        self.tokens.drain(now);
        if let Some(more) = used.checked_sub(worst) {
            self.tokens.take(more);
            self.told.charge(|tab| &mut tab.tokens, more, &self.tokens, telling);
        } else {
            let given = self.tokens.give_back(worst.saturating_sub(used), number);
            if let Told::Together(tab) = &mut self.told {
                tab.tokens.give_back(given, number <= tab.told);
            }
        }
    }

    /// What the shared count is to hear, if no report is under way. `last` is the last number that was given to a charge.
    pub(super) fn report(&mut self, of: (TenantId, &Scope), sequence: u64, last: u64) -> Option<Report> {
        let Told::Together(tab) = &mut self.told else { return None };
        if tab.is_under_way {
            return None;
        }
        (tab.sequence, tab.told, tab.is_under_way) = (sequence, last, true);
        Some(Report {
            tenant: of.0,
            scope: of.1.clone(),
            sequence,
            requests: tab.requests.send(&self.requests),
            tokens: tab.tokens.send(&self.tokens),
            places: self.at_once,
        })
    }

    /// The shared count has what `report` said, and stands as `answer` says.
    pub(super) fn confirm(&mut self, report: &Report, answer: Answer, now: MonoNanos) {
        let Some(tab) = self.told.under_way(report) else { return };
        (tab.places, tab.others) = (report.places, answer.others);
        let numbers = (tab.known, tab.told);
        tab.requests.confirm(&mut self.requests, answer.requests, numbers, now);
        tab.tokens.confirm(&mut self.tokens, answer.tokens, numbers, now);
        tab.known = tab.told;
        tab.large = tab.large.saturating_sub(1);
    }

    /// Brings `report`, which nobody took for a while, up to now.
    pub(super) fn amend(&mut self, report: &mut Report, now: MonoNanos) {
        self.drain(now);
        if let Told::Together(tab) = &mut self.told {
            tab.requests.amend(&mut report.requests, &self.requests);
            tab.tokens.amend(&mut report.tokens, &self.tokens);
        }
    }

    /// Whether it is told to anybody.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.told, Told::Together(_))
    }

    /// Nobody answers `report`, and what it said has run out meanwhile.
    pub(super) fn give_up(&mut self, report: &Report) {
        let Some(tab) = self.told.under_way(report) else { return };
        tab.requests.give_up();
        tab.tokens.give_up();
        tab.known = tab.told;
        self.tokens.give_nothing_back();
    }

    /// Whether there is something to tell the shared count, and no report under way.
    pub(super) fn has_news(&self) -> bool {
        match &self.told {
            Told::Nobody => false,
            Told::Together(tab) => !tab.is_under_way && !tab.is_told(self.at_once),
        }
    }

    /// Whether requests are in flight.
    pub(super) const fn is_in_flight(&self) -> bool {
        self.at_once > 0
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

    /// Whether it is like a new one. While the shared count is away, what has run out here need not be told any more.
    pub(super) fn is_idle(&self, telling: Telling) -> bool {
        let resting = self.at_once == 0 && self.requests.is_full() && self.tokens.is_full();
        match telling {
            Telling::Nobody | Telling::Away { .. } => resting,
            Telling::Near | Telling::Late => resting && self.is_told(),
        }
    }

    fn is_told(&self) -> bool {
        match &self.told {
            Told::Nobody => true,
            Told::Together(tab) => !tab.is_under_way && tab.is_told(self.at_once),
        }
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

fn is_pressing(limit: NonZeroU32) -> impl FnOnce(&Untold) -> bool {
    move |untold| untold.is_pressing(limit)
}

impl Told {
    /// Notes that `tokens` were charged to `bucket`, in the place that `of` picks.
    fn charge(
        &mut self,
        of: impl FnOnce(&mut Tab) -> &mut Untold,
        tokens: u64,
        bucket: &Bucket,
        telling: Telling,
    ) -> Option<&Untold> {
        let Self::Together(tab) = self else { return None };
        let untold = of(tab);
        untold.charge(units(tokens));
        if let Telling::Away { .. } = telling {
            untold.run_out(bucket.used());
        }
        Some(untold)
    }

    /// Ends the wait for an answer to `report`, if it is that which is waited for.
    fn under_way(&mut self, report: &Report) -> Option<&mut Tab> {
        match self {
            Self::Together(tab) if tab.is_under_way && tab.sequence == report.sequence => {
                tab.is_under_way = false;
                Some(tab)
            }
            Self::Together(_) | Self::Nobody => None,
        }
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
