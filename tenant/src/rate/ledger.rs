//! All counters of one tenant: what is decided and taken under its one lock.

use core::time::Duration;
use std::collections::HashMap;

use super::bucket::Room;
use super::counter::Counter;
use super::limiter::{Bounds, SWEEP_EVERY};
use super::refusal::{NoRoom, Over, Refusal};
use super::rule::{Ask, Limit, Limits, Rule, Scope};
use super::standing::{Measure, Meter, Reset, Standing};
use crate::time::MonoNanos;

/// Counters below which none are looked for that could be forgotten.
const SWEEP_FROM: usize = 64;

/// The counters of a tenant.
///
/// # Invariants
/// Every request in flight has its place in each counter of its rules, so a counter with one is never forgotten; at
/// most [`Bounds::counters`] counters and [`Bounds::in_flight`] requests.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The latest that any caller's clock has said: time does not go back when threads come out of order.
    now: MonoNanos,
    /// Numbers that were given; u64 does not run out.
    numbers: u64,
    in_flight: usize,
    counters: HashMap<Scope, Counter>,
    /// Counters at which the next sweep is due.
    sweep_at: usize,
    /// No sweep before this.
    sweep_from: MonoNanos,
}

impl Ledger {
    /// Has counted nothing, and knows no moment before `begins`.
    pub(super) fn new(begins: MonoNanos) -> Self {
        Self { now: begins, ..Self::default() }
    }

    /// The latest that it was told.
    pub(super) const fn now(&self) -> MonoNanos {
        self.now
    }

    /// Takes what `ask` needs by every rule, or nothing. Returns the request's number.
    pub(super) fn admit(
        &mut self,
        rules: &[Rule],
        ask: Ask,
        now: MonoNanos,
        bounds: Bounds,
    ) -> Result<(u64, Standing), Refusal> {
        self.now = self.now.max(now);
        self.check(rules, ask, self.now.since(now))?;
        self.make_room(rules, bounds).map_err(Refusal::NoRoom)?;
        // From here on nothing fails: all is taken.
        self.numbers = self.numbers.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        let mut standing = Tightest::default();
        for rule in rules {
            let counter = match self.counters.get_mut(&rule.scope) {
                Some(counter) => counter,
                None => self.counters.entry(rule.scope.clone()).or_default(),
            };
            counter.follow(&rule.limits, self.now);
            counter.take(&rule.limits, ask, self.numbers);
            standing.see(rule, counter);
        }
        Ok((self.numbers, standing.told()))
    }

    fn check(&mut self, rules: &[Rule], ask: Ask, late: u64) -> Result<(), Refusal> {
        let mut worst: Option<(Over, &Rule)> = None;
        for rule in rules {
            let mut fresh = Counter::default();
            let counter = self.counters.get_mut(&rule.scope).unwrap_or(&mut fresh);
            counter.follow(&rule.limits, self.now);
            for over in counter.over(&rule.limits, ask, late) {
                if worst.as_ref().is_none_or(|(other, _)| over.outlasts(other)) {
                    worst = Some((over, rule));
                }
            }
        }
        match worst {
            None => Ok(()),
            Some((over, rule)) => {
                let told = over.told(rule.scope.clone(), self.standing(rules, self.now));
                Err(Refusal::Over(Box::new(told)))
            }
        }
    }

    fn make_room(&mut self, rules: &[Rule], bounds: Bounds) -> Result<(), NoRoom> {
        if self.in_flight >= bounds.in_flight {
            return Err(NoRoom::InFlight { max: bounds.in_flight });
        }
        let counters = self.counters.len();
        let new = self.new_among(rules);
        if new == 0 {
            return Ok(());
        }
        let due = counters >= self.sweep_at.max(SWEEP_FROM) || counters.saturating_add(new) > bounds.counters;
        if due && self.now >= self.sweep_from {
            self.sweep(self.now);
        }
        // Counted anew: a counter of these rules may have been swept.
        if self.counters.len().saturating_add(self.new_among(rules)) > bounds.counters {
            return Err(NoRoom::Counters { max: bounds.counters });
        }
        Ok(())
    }

    fn new_among(&self, rules: &[Rule]) -> usize {
        rules.iter().filter(|rule| !self.counters.contains_key(&rule.scope)).count()
    }

    /// How the rules stand, without taking anything.
    pub(super) fn standing(&mut self, rules: &[Rule], now: MonoNanos) -> Standing {
        self.now = self.now.max(now);
        let mut standing = Tightest::default();
        for rule in rules {
            let mut fresh = Counter::default();
            let counter = self.counters.get_mut(&rule.scope).unwrap_or(&mut fresh);
            counter.follow(&rule.limits, self.now);
            standing.see(rule, counter);
        }
        standing.told()
    }

    /// Corrects what the request `number` was charged.
    pub(super) fn settle(&mut self, rules: &[Rule], number: u64, worst: u64, used: u64, now: MonoNanos) {
        self.now = self.now.max(now);
        for rule in rules {
            if let Some(counter) = self.counters.get_mut(&rule.scope) {
                counter.settle(&rule.limits, number, worst, used, self.now);
            }
        }
    }

    /// Ends the request `number`.
    pub(super) fn end(&mut self, rules: &[Rule], number: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        for rule in rules {
            let Some(counter) = self.counters.get_mut(&rule.scope) else { continue };
            counter.end(number);
            if counter.is_idle() {
                self.counters.remove(&rule.scope);
            }
        }
    }

    /// Forgets counters that are like new ones.
    pub(super) fn sweep(&mut self, now: MonoNanos) {
        self.now = self.now.max(now);
        self.counters.retain(|_, counter| {
            counter.drain(self.now);
            !counter.is_idle()
        });
        self.sweep_at = self.counters.len().saturating_mul(2);
        self.sweep_from = self.now.after(SWEEP_EVERY);
    }

    /// Whether there is nothing to remember of this tenant, once nobody holds it. A request that meets no rule has no
    /// counter; its grant holds the ledger.
    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Requests in flight.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Counters that are kept.
    pub(super) fn counters(&self) -> usize {
        self.counters.len()
    }
}

/// Finds the rules that leave the least.
#[derive(Default)]
struct Tightest {
    requests: Option<Room>,
    tokens: Option<Room>,
}

impl Tightest {
    fn see(&mut self, rule: &Rule, counter: &Counter) {
        let Limits { requests_per_minute, tokens_per_minute, .. } = rule.limits;
        if let Limit::AtMost(limit) = requests_per_minute {
            tighten(&mut self.requests, counter.requests(limit));
        }
        if let Limit::AtMost(limit) = tokens_per_minute {
            tighten(&mut self.tokens, counter.tokens(limit));
        }
    }

    fn told(&self) -> Standing {
        Standing { requests: told(self.requests), tokens: told(self.tokens) }
    }
}

fn tighten(tightest: &mut Option<Room>, room: Room) {
    if tightest.is_none_or(|other| room.is_tighter(other)) {
        *tightest = Some(room);
    }
}

fn told(tightest: Option<Room>) -> Meter {
    tightest.map_or(Meter::Open, |room| {
        Meter::Tightest(Measure {
            limit: room.limit(),
            remaining: room.left(),
            reset: Reset(Duration::from_nanos(room.reset())),
        })
    })
}
