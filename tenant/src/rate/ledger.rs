//! All counters of one tenant: what is decided and taken under its one lock.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use super::bucket::Room;
use super::counter::Counter;
use super::limiter::{Bounds, SWEEP_EVERY};
use super::refusal::{Ahead, NoRoom, Over, Refusal};
use super::report::{Answer, Report};
use super::rule::{Ask, Limit, Limits, Rule, Scope};
use super::standing::{Measure, Meter, Reset, Standing};
use super::telling::Telling;
use crate::store::TenantId;
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
    /// Counters that have something to tell: some of `counters`, so as many at most.
    untold: HashSet<Scope>,
    /// Whoever tells knows that there is something.
    is_noted: bool,
}

/// What a step goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// How much may be held.
    pub(super) bounds: Bounds,
    /// Whether others count too.
    pub(super) telling: Telling,
}

/// What a request that was admitted has.
pub(super) struct Admitted {
    /// Its number.
    pub(super) number: u64,
    /// How its rules stand.
    pub(super) standing: Standing,
    /// Whether the shared count should hear of it at once.
    pub(super) pressing: bool,
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

    /// Takes what `ask` needs by every rule, or nothing.
    pub(super) fn admit(
        &mut self,
        rules: &[Rule],
        ask: Ask,
        now: MonoNanos,
        terms: Terms,
    ) -> Result<Admitted, Refusal> {
        self.now = self.now.max(now);
        self.check(rules, ask, self.now.since(now), terms.telling)?;
        self.keep_near(rules, ask, terms.telling)?;
        self.make_room(rules, terms).map_err(Refusal::NoRoom)?;
        // From here on nothing fails: all is taken.
        self.numbers = self.numbers.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        let (mut standing, mut pressing) = (Tightest::default(), false);
        for rule in rules {
            let counter = match self.counters.get_mut(&rule.scope) {
                Some(counter) => counter,
                None => {
                    self.counters.entry(rule.scope.clone()).or_insert_with(|| Counter::new(terms.telling))
                }
            };
            counter.follow(&rule.limits, self.now);
            pressing |= counter.take(&rule.limits, ask, self.numbers, terms.telling);
            standing.see(rule, counter);
            note(&mut self.untold, &rule.scope, counter);
        }
        Ok(Admitted { number: self.numbers, standing: standing.told(), pressing })
    }

    /// Refuses what would be too far ahead of the shared count, unless the gateway goes on by itself.
    fn keep_near(&mut self, rules: &[Rule], ask: Ask, telling: Telling) -> Result<(), Refusal> {
        match telling {
            Telling::Nobody | Telling::Late | Telling::Away { alone: true } => return Ok(()),
            Telling::Near | Telling::Away { alone: false } => (),
        }
        for rule in rules {
            let ahead =
                self.counters.get_mut(&rule.scope).and_then(|counter| counter.ahead(&rule.limits, ask));
            if let Some((quota, slice)) = ahead {
                self.untold.insert(rule.scope.clone());
                return Err(Refusal::Ahead(Box::new(Ahead { quota, scope: rule.scope.clone(), slice })));
            }
        }
        Ok(())
    }

    fn check(&mut self, rules: &[Rule], ask: Ask, late: u64, telling: Telling) -> Result<(), Refusal> {
        let mut worst: Option<(Over, &Rule)> = None;
        for rule in rules {
            let mut fresh = Counter::default();
            let counter = self.counters.get_mut(&rule.scope).unwrap_or(&mut fresh);
            counter.follow(&rule.limits, self.now);
            for over in counter.over(&rule.limits, ask, late, telling) {
                if worst.as_ref().is_none_or(|(other, _)| over.outlasts(other)) {
                    worst = Some((over, rule));
                }
            }
        }
        match worst {
            None => Ok(()),
            Some((over, rule)) => {
                // What others gave back, or ended, is not known here before something is told.
                if self.counters.get(&rule.scope).is_some_and(Counter::is_shared) {
                    self.untold.insert(rule.scope.clone());
                }
                let told = over.told(rule.scope.clone(), self.standing(rules, self.now));
                Err(Refusal::Over(Box::new(told)))
            }
        }
    }

    fn make_room(&mut self, rules: &[Rule], terms: Terms) -> Result<(), NoRoom> {
        let bounds = terms.bounds;
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
            self.sweep(self.now, terms.telling);
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

    /// Corrects what the request `number` was charged, from `worst` to `used`.
    pub(super) fn settle(
        &mut self,
        rules: &[Rule],
        number: u64,
        (worst, used): (u64, u64),
        now: MonoNanos,
        telling: Telling,
    ) {
        self.now = self.now.max(now);
        for rule in rules {
            if let Some(counter) = self.counters.get_mut(&rule.scope) {
                counter.settle(&rule.limits, number, (worst, used), self.now, telling);
                note(&mut self.untold, &rule.scope, counter);
            }
        }
    }

    /// Ends the request `number`.
    pub(super) fn end(&mut self, rules: &[Rule], number: u64, telling: Telling) {
        self.in_flight = self.in_flight.saturating_sub(1);
        for rule in rules {
            let Some(counter) = self.counters.get_mut(&rule.scope) else { continue };
            counter.end(number);
            note(&mut self.untold, &rule.scope, counter);
            self.rest(&rule.scope, telling);
        }
    }

    /// Forgets a counter that is like a new one.
    fn rest(&mut self, scope: &Scope, telling: Telling) {
        if self.counters.get(scope).is_some_and(|counter| counter.is_idle(telling)) {
            self.counters.remove(scope);
            self.untold.remove(scope);
        }
    }

    /// Up to `most` reports of what is untold, each numbered by `next`; more are left for the next call.
    pub(super) fn reports(
        &mut self,
        tenant: TenantId,
        most: usize,
        mut next: impl FnMut() -> u64,
    ) -> Vec<Report> {
        self.is_noted = false;
        let scopes: Vec<Scope> = self.untold.iter().take(most).cloned().collect();
        let mut reports = Vec::with_capacity(scopes.len());
        for scope in scopes {
            self.untold.remove(&scope);
            let counter = self.counters.get_mut(&scope);
            let report = counter.and_then(|counter| counter.report((tenant, &scope), next(), self.numbers));
            reports.extend(report);
        }
        reports
    }

    /// The shared count has what `report` said; without an answer it is given up.
    pub(super) fn answered(
        &mut self,
        report: &Report,
        answer: Option<Answer>,
        now: MonoNanos,
        telling: Telling,
    ) {
        self.now = self.now.max(now);
        let Some(counter) = self.counters.get_mut(&report.scope) else { return };
        match answer {
            Some(answer) => counter.confirm(report, answer, self.now),
            None => counter.give_up(report),
        }
        note(&mut self.untold, &report.scope, counter);
        self.rest(&report.scope, telling);
    }

    /// Has what is in flight told again, so that the shared count does not take it for lost and says what others did.
    pub(super) fn refresh(&mut self) {
        let running = self.counters.iter().filter(|(_, counter)| counter.is_in_flight());
        self.untold.extend(running.map(|(scope, _)| scope.clone()));
    }

    /// Whether there is something to tell that was not noted before; now it is.
    pub(super) fn is_news(&mut self) -> bool {
        let is_news = !self.is_noted && !self.untold.is_empty();
        self.is_noted |= is_news;
        is_news
    }

    /// Brings `report`, which nobody took for a while, up to `now`.
    pub(super) fn amend(&mut self, report: &mut Report, now: MonoNanos) {
        self.now = self.now.max(now);
        if let Some(counter) = self.counters.get_mut(&report.scope) {
            counter.amend(report, self.now);
        }
    }

    /// Forgets counters that are like new ones.
    pub(super) fn sweep(&mut self, now: MonoNanos, telling: Telling) {
        self.now = self.now.max(now);
        self.counters.retain(|scope, counter| {
            counter.drain(self.now);
            let keep = !counter.is_idle(telling);
            if !keep {
                self.untold.remove(scope);
            }
            keep
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

/// Notes that `counter` has something to tell; while it waits for an answer that is noted when the answer comes.
fn note(untold: &mut HashSet<Scope>, scope: &Scope, counter: &Counter) {
    if counter.has_news() && !untold.contains(scope) {
        untold.insert(scope.clone());
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
