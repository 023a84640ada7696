//! The limiter, and the grant that a request holds while it runs.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::ledger::{Ledger, Terms};
use super::refusal::{NoRoom, Refusal};
use super::rule::{Ask, Chain};
use super::standing::Standing;
use super::telling::Telling;
use super::together::Together;
use crate::store::TenantId;
use crate::time::MonoNanos;

/// Tenants that are counted at the same time: all that a store may hold, [`TENANTS_MAX`](crate::TENANTS_MAX).
pub const TRACKED_TENANTS_MAX: usize = 100_000;
/// Counters of one tenant: keys, projects and models that it used in the last minute or has in flight. About 300
/// bytes each, so 5 MiB.
pub const COUNTERS_MAX: usize = 16_384;
/// Requests of one tenant in flight, whatever its rules say. Settling one looks at those that began after it.
pub const IN_FLIGHT_MAX: usize = 16_384;
/// Between two searches for what can be forgotten, in one tenant or among them: at a bound, whoever knocks does not
/// make each request a search.
pub const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// Tenants below which none are looked for that could be forgotten.
const SWEEP_FROM: usize = 64;

/// How much a limiter may hold. Tests have smaller ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Tenants.
    pub tenants: usize,
    /// Counters of one tenant.
    pub counters: usize,
    /// Requests of one tenant in flight.
    pub in_flight: usize,
}

impl Default for Bounds {
    /// [`TRACKED_TENANTS_MAX`], [`COUNTERS_MAX`] and [`IN_FLIGHT_MAX`].
    fn default() -> Self {
        Self { tenants: TRACKED_TENANTS_MAX, counters: COUNTERS_MAX, in_flight: IN_FLIGHT_MAX }
    }
}

/// Counts requests and tokens by the rules that they meet. A clone is another handle on the same counts.
///
/// A tenant is remembered while a request of it is in flight or something that it used has not run out. What has run
/// out is forgotten when a request ends, when the counters have doubled in number since the last look, and by
/// [`Limiter::sweep`].
#[derive(Clone, Debug, Default)]
pub struct Limiter(pub(super) Arc<Inner>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    bounds: Bounds,
    /// What is to be told, where gateways count together.
    pub(super) together: Together,
    /// Only a grant and a call that runs hold a ledger beside the map, so one that only the map holds is at rest.
    tenants: DashMap<TenantId, Arc<Mutex<Ledger>>>,
    /// Places in the map that are taken or about to be.
    count: AtomicUsize,
    /// The count at which the next sweep is due.
    sweep_at: AtomicUsize,
    /// No sweep before this, in nanoseconds.
    sweep_from: AtomicU64,
    /// The latest moment, in nanoseconds, that a forgotten tenant had seen. Whoever comes anew begins there: a clock
    /// that comes late does not reach back behind what was forgotten.
    forgotten: AtomicU64,
}

/// A request that was admitted. It is in flight until this is dropped.
///
/// [`Grant::settle`] corrects its charge to what it really used. A grant that is dropped without it keeps the worst
/// case charged: what nobody has measured counts as used.
#[must_use = "the request is in flight only while this lives"]
#[derive(Debug)]
pub struct Grant {
    limiter: Arc<Inner>,
    /// Taken out by `drop` alone, before the map is asked whether it holds the last handle.
    ledger: Option<Arc<Mutex<Ledger>>>,
    chain: Chain,
    number: u64,
    worst_tokens: u64,
    standing: Standing,
}

impl Limiter {
    /// Has counted nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Inner { bounds, ..Inner::default() }))
    }

    /// Counts together with other gateways: whoever takes its [`Report`](super::Report)s and brings the answers makes it so.
    /// While the shared count is away it goes on by itself if it may go on `alone`, each limit whole.
    pub fn together(bounds: Bounds, alone: bool) -> Self {
        Self(Arc::new(Inner { bounds, together: Together::new(alone), ..Inner::default() }))
    }

    /// Starts a request: every rule of `chain` is checked, and what `ask` needs is taken from all of them, in one
    /// step. `now` may come late from another thread; the tenant's time never goes back.
    ///
    /// # Errors
    /// [`Refusal`]; nothing was taken then, anywhere.
    pub fn admit(&self, chain: &Chain, ask: Ask, now: MonoNanos) -> Result<Grant, Refusal> {
        self.admit_by(self.0.together.telling(), chain, ask, now)
    }

    /// The same, as if the limiter counted as `telling` says.
    pub(super) fn admit_by(
        &self,
        telling: Telling,
        chain: &Chain,
        ask: Ask,
        now: MonoNanos,
    ) -> Result<Grant, Refusal> {
        let ledger = self.0.ledger(chain.tenant(), now).map_err(Refusal::NoRoom)?;
        let terms = Terms { bounds: self.0.bounds, telling };
        let admitted = self.0.step(chain.tenant(), &ledger, |ledger| {
            let admitted = ledger.admit(chain.rules(), ask, now, terms);
            let pressing = admitted.as_ref().is_ok_and(|admitted| admitted.pressing);
            (admitted, pressing)
        });
        match admitted {
            Ok(admitted) => Ok(Grant {
                limiter: Arc::clone(&self.0),
                ledger: Some(ledger),
                chain: chain.clone(),
                number: admitted.number,
                worst_tokens: ask.worst_tokens(),
                standing: admitted.standing,
            }),
            Err(refusal) => {
                self.0.leave(chain.tenant(), ledger, |_| ());
                Err(refusal)
            }
        }
    }

    /// How the rules of `chain` stand at `now`; takes nothing.
    pub fn standing(&self, chain: &Chain, now: MonoNanos) -> Standing {
        self.0.found(chain.tenant()).map_or_else(
            || Ledger::default().standing(chain.rules(), now),
            |ledger| lock(&ledger).standing(chain.rules(), now),
        )
    }

    /// Requests of `tenant` in flight.
    pub fn in_flight(&self, tenant: TenantId) -> usize {
        self.0.found(tenant).map_or(0, |ledger| lock(&ledger).in_flight())
    }

    /// Counters that are kept for `tenant`.
    pub fn counters(&self, tenant: TenantId) -> usize {
        self.0.found(tenant).map_or(0, |ledger| lock(&ledger).counters())
    }

    /// Tenants that are remembered.
    pub fn tenants(&self) -> usize {
        self.0.count.load(Ordering::Relaxed)
    }

    /// Forgets all that has run out by `now`. Admitting does this by itself, often enough to keep the bounds; this is
    /// for whoever wants the memory back in a quiet hour. A tenant that is busy at this very moment is passed over.
    pub fn sweep(&self, now: MonoNanos) {
        self.0.sweep(now);
    }
}

impl Inner {
    /// Takes a step in a tenant's ledger, and notes what is to be told of it; whether at once, the step says.
    fn step<T>(
        &self,
        tenant: TenantId,
        ledger: &Mutex<Ledger>,
        step: impl FnOnce(&mut Ledger) -> (T, bool),
    ) -> T {
        let mut ledger = lock(ledger);
        let (result, pressing) = step(&mut ledger);
        let is_news = ledger.is_news();
        drop(ledger);
        if is_news {
            self.together.note(tenant);
        }
        if pressing {
            self.together.press();
        }
        result
    }

    fn ledger(&self, tenant: TenantId, now: MonoNanos) -> Result<Arc<Mutex<Ledger>>, NoRoom> {
        if let Some(found) = self.found(tenant) {
            return Ok(found);
        }
        self.reserve(now)?;
        match self.tenants.entry(tenant) {
            Entry::Vacant(place) => {
                let begins = MonoNanos::new(self.forgotten.load(Ordering::Relaxed));
                Ok(Arc::clone(&place.insert(Arc::new(Mutex::new(Ledger::new(begins))))))
            }
            Entry::Occupied(found) => {
                // Another thread was first: its place is the one that counts.
                self.count.fetch_sub(1, Ordering::Relaxed);
                Ok(Arc::clone(found.get()))
            }
        }
    }

    /// A handle; the map's own lock is let go before anybody waits for the tenant's.
    pub(super) fn found(&self, tenant: TenantId) -> Option<Arc<Mutex<Ledger>>> {
        self.tenants.get(&tenant).map(|ledger| Arc::clone(&ledger))
    }

    /// All tenants that are counted.
    pub(super) fn counted(&self) -> Vec<TenantId> {
        self.tenants.iter().map(|entry| *entry.key()).collect()
    }

    /// Takes a place in the map.
    fn reserve(&self, now: MonoNanos) -> Result<(), NoRoom> {
        let max = self.bounds.tenants;
        let due_at = self.sweep_at.load(Ordering::Relaxed).max(SWEEP_FROM).min(max);
        if self.count.load(Ordering::Relaxed) >= due_at {
            self.sweep_in_turn(now);
        }
        let more = |count: usize| (count < max).then(|| count.saturating_add(1));
        let reserved = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        reserved.map(drop).map_err(|_| NoRoom::Tenants { max })
    }

    /// Sweeps, unless somebody did a moment ago.
    fn sweep_in_turn(&self, now: MonoNanos) {
        let next = now.after(SWEEP_EVERY).get();
        let turn = |from: u64| (now.get() >= from).then_some(next);
        if self.sweep_from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, turn).is_ok() {
            self.sweep(now);
        }
    }

    fn sweep(&self, now: MonoNanos) {
        let (mut gone, telling): (usize, _) = (0, self.together.telling());
        self.tenants.retain(|_, ledger| {
            let Some(resting) = Arc::get_mut(ledger) else {
                // In use: its counters are looked through if nobody has to wait for it.
                if let Ok(mut ledger) = ledger.try_lock() {
                    ledger.sweep(now, telling);
                }
                return true;
            };
            let ledger = resting.get_mut().unwrap_or_else(PoisonError::into_inner);
            ledger.sweep(now, telling);
            let forget = self.forget(ledger);
            gone = gone.saturating_add(usize::from(forget));
            !forget
        });
        let before = self.count.fetch_sub(gone, Ordering::Relaxed);
        let kept = before.saturating_sub(gone);
        self.sweep_at.store(kept.saturating_mul(2), Ordering::Relaxed);
    }

    /// Whether a ledger at rest can be forgotten; its moment is kept if so. The map's lock is held.
    fn forget(&self, ledger: &Ledger) -> bool {
        let empty = ledger.is_empty();
        if empty {
            self.forgotten.fetch_max(ledger.now().get(), Ordering::Relaxed);
        }
        empty
    }

    /// Gives a handle back after a `last` step; forgets the tenant if nothing is left to remember.
    pub(super) fn leave(&self, tenant: TenantId, ledger: Arc<Mutex<Ledger>>, last: impl FnOnce(&mut Ledger)) {
        let empty = self.step(tenant, &ledger, |ledger| {
            last(ledger);
            (ledger.is_empty(), false)
        });
        drop(ledger);
        if !empty {
            return;
        }
        // Under the map's lock nobody gets a handle: a ledger that only the map holds stays as it is.
        let gone = self.tenants.remove_if_mut(&tenant, |_, ledger| {
            Arc::get_mut(ledger)
                .is_some_and(|ledger| self.forget(ledger.get_mut().unwrap_or_else(PoisonError::into_inner)))
        });
        if gone.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Grant {
    /// What the headers say, right after this request was admitted.
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// Ends the request, which used `used_tokens` in all, prompt and output. What of the worst case was not used is
    /// given back, so that the rules stand as if this request had asked no more from the start; what has run out
    /// since is not given back a second time. What was used beyond the worst case is charged now.
    pub fn settle(self, used_tokens: u64, now: MonoNanos) {
        if let Some(ledger) = &self.ledger {
            let (tokens, telling) = ((self.worst_tokens, used_tokens), self.limiter.together.telling());
            lock(ledger).settle(self.chain.rules(), self.number, tokens, now, telling);
        }
        // Dropping ends it.
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        let telling = self.limiter.together.telling();
        let end = |ledger: &mut Ledger| ledger.end(self.chain.rules(), self.number, telling);
        self.limiter.leave(self.chain.tenant(), ledger, end);
    }
}

/// A ledger is whole between any two of its steps, so it is good even after a panic elsewhere.
pub(super) fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}
