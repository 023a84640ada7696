//! Hard budgets over any number of gateways: the store hands out parts, and each gateway spends only what it holds.
//!
//! ```text
//! reserve ──► fits the part? ──yes──► goes on; what runs low is asked for beside it
//!                  │ no
//!                  ▼
//!        one flight a tenant ──► store: base + all parts <= limit ──► larger part ──► reserve again
//!                  │                                   └─► others hold it: they are told to give back; tried again for 2 s
//!                  └─► no answer: refused, to be tried again        └─► nothing is left: refused
//! ```
//!
//! # Invariants
//! - What is held here is never more than what the store counts as handed out to this gateway: a part is raised there first and
//!   here then, and lowered here first, on disk, and there then.
//! - One flight a tenant at a time; a request waits for one at most [`GRANT_WAIT_MAX`].
//! - Only the store's own word makes a refusal final.
//!
//! A gateway that is killed keeps its part: its journal says what it held and spent, and the store's row what it may. One that is
//! gone for good keeps it until an operator takes it back ([`Store::release_parts`]).

mod desk;
mod flight;
mod rounds;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::directory::Directory;
use crate::ledger::{
    Budget, BudgetRefusal, Claim, Ledger, Low, OverBudget, Payer, Pricing, Reservation, Shortage, WorstCase,
};
use crate::level::ModelName;
use crate::store::{Store, TenantId};
use crate::time::UnixMillis;

use desk::{Desk, Outcome};
use flight::Wish;

/// How long a request waits for a larger part.
pub const GRANT_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a request that others hold the rest of a budget from waits before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// For how long an answer that nothing is left is not asked for anew.
const ANSWER_FRESH: Duration = Duration::from_millis(500);
/// How long the store may take for one exchange.
const EXCHANGE_MAX: Duration = Duration::from_secs(2);
/// Exchanges at once, of different tenants.
const EXCHANGES_AT_ONCE: usize = 2;
/// Sums of what was used before, at once: they may take long, and nobody who needs none waits for one.
const SUMS_AT_ONCE: usize = 1;

/// Holds and asks for parts until it is dropped; what it holds then stays this gateway's.
pub struct BudgetParts {
    house: Arc<House>,
    rounds: AbortHandle,
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

/// How it goes with parts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BudgetPartsHealth {
    /// Budgets in a period of which something is known or held.
    pub held: u64,
    /// Requests that wait for a part now.
    pub waiting: u64,
    /// Exchanges with the store that it answered.
    pub exchanges: u64,
    /// Parts that became larger.
    pub grown: u64,
    /// Parts that were given back.
    pub given_back: u64,
    /// Requests refused because other gateways hold what they lack.
    pub elsewhere: u64,
    /// Requests refused because the store did not answer.
    pub unanswered: u64,
    /// Whether the last exchange failed.
    pub is_away: bool,
}

#[derive(Default)]
struct Counts {
    waiting: AtomicU64,
    exchanges: AtomicU64,
    grown: AtomicU64,
    given_back: AtomicU64,
    elsewhere: AtomicU64,
    unanswered: AtomicU64,
    is_away: AtomicBool,
}

/// What flights, rounds and requests have in common.
struct House {
    ledger: Arc<Ledger>,
    /// Its name in the store.
    gateway: String,
    store: Store,
    directory: Arc<Directory>,
    desk: Mutex<Desk>,
    exchanges: Semaphore,
    sums: Semaphore,
    counts: Counts,
}

/// Counts a request that waits, while it does.
struct Waiting<'a>(&'a AtomicU64);

impl<'a> Waiting<'a> {
    fn on(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BudgetParts {
    /// Begins to hold parts for `ledger`, as `store` hands them out; `directory` says which budgets there are.
    pub fn begin(ledger: Arc<Ledger>, store: Store, directory: Arc<Directory>) -> Self {
        let house = Arc::new(House {
            gateway: ledger.journal().to_string(),
            ledger,
            store,
            directory,
            desk: Mutex::default(),
            exchanges: Semaphore::new(EXCHANGES_AT_ONCE),
            sums: Semaphore::new(SUMS_AT_ONCE),
            counts: Counts::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let all = Arc::clone(&house);
        let rounds = tokio::spawn(async move {
            rounds::make(all, stopped).await;
            end.send_replace(true);
        });
        Self { house, rounds: rounds.abort_handle(), stop, ended }
    }

    /// Reserves as [`Ledger::reserve`] does, and asks the store for a larger part where that is needed. `charges` says which budgets
    /// there are and what the model costs, each time anew.
    ///
    /// # Errors
    /// [`BudgetRefusal`]; [`BudgetRefusal::OverBudget`] only where the store said so.
    pub async fn reserve(
        &self,
        (payer, model, worst): (Payer, &ModelName, WorstCase),
        charges: impl Fn() -> (Vec<Budget>, Pricing),
        now: UnixMillis,
    ) -> Result<Reservation, BudgetRefusal> {
        let deadline = Instant::now().checked_add(GRANT_WAIT_MAX).unwrap_or_else(Instant::now);
        let (mut waiting, mut last) = (None, None);
        loop {
            let (budgets, pricing) = charges();
            let claim = Claim { payer, model, pricing, budgets: &budgets, worst };
            let short = match self.house.ledger.reserve(claim, now).await {
                Err(BudgetRefusal::Short(short)) => short,
                Ok(reservation) => {
                    self.house.refill(payer.tenant, reservation.low());
                    return Ok(reservation);
                }
                Err(other) => return Err(other),
            };
            if let Some(over) = self.house.is_over(payer.tenant, &short) {
                return Err(BudgetRefusal::OverBudget(over));
            }
            waiting.get_or_insert_with(|| Waiting::on(&self.house.counts.waiting));
            if matches!(last, Some(Outcome::Answered { grown: false })) {
                sleep(ASK_AGAIN).await;
            }
            let asked = timeout_at(deadline, self.house.ask(payer.tenant, &short)).await;
            match (asked, last) {
                (Ok(outcome @ Outcome::Answered { .. }), _) => last = Some(outcome),
                (Err(_), Some(Outcome::Answered { .. })) => return Err(self.house.elsewhere(short)),
                (Ok(Outcome::Failed) | Err(_), _) => return Err(self.house.unanswered(short)),
            }
        }
    }

    /// What this gateway is called where its parts are listed.
    pub fn gateway(&self) -> &str {
        &self.house.gateway
    }

    /// How it goes; a clone of the handle that this returns outlives the parts.
    pub fn health(&self) -> impl Fn() -> BudgetPartsHealth + Clone + Send + Sync + use<> {
        let house = Arc::clone(&self.house);
        move || house.health()
    }

    /// Gives back what is not used, and ends.
    pub async fn finish(&self) {
        self.stop.send_replace(true);
        // A task that panicked has given back what it could.
        drop(self.ended.clone().wait_for(|ended| *ended).await);
    }
}

impl Drop for BudgetParts {
    fn drop(&mut self) {
        self.rounds.abort();
    }
}

impl House {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> BudgetPartsHealth {
        let counts = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BudgetPartsHealth {
            held: u64::try_from(self.desk().known()).unwrap_or(u64::MAX),
            waiting: read(&counts.waiting),
            exchanges: read(&counts.exchanges),
            grown: read(&counts.grown),
            given_back: read(&counts.given_back),
            elsewhere: read(&counts.elsewhere),
            unanswered: read(&counts.unanswered),
            is_away: counts.is_away.load(Ordering::Relaxed),
        }
    }

    /// The budget of which nothing is left for the request, if the store said so just now, or no answer of it could help.
    fn is_over(&self, tenant: TenantId, short: &[Shortage]) -> Option<Box<OverBudget>> {
        let desk = self.desk();
        let over = short.iter().find(|short| {
            let never_fits = short.over.asked > short.limit;
            never_fits || (short.nothing_left() && desk.is_fresh(tenant, &short.slice, Some(short.limit)))
        });
        over.map(|short| short.over.clone())
    }

    /// Asks for all that a request lacks at once; the answer is there for all that wait for the same.
    async fn ask(self: &Arc<Self>, tenant: TenantId, short: &[Shortage]) -> Outcome {
        let wish = |short: &Shortage| (short.slice.clone(), Wish::need(short.over.asked, short.limit));
        let answered = self.desk().wait(tenant, short.iter().map(wish).collect());
        let Some((answered, is_first)) = answered else { return Outcome::Failed };
        if is_first {
            tokio::spawn(flight::fly(Arc::clone(self), tenant));
        }
        answered.await.unwrap_or(Outcome::Failed)
    }

    /// Asks for what runs low, for nobody who waits.
    fn refill(self: &Arc<Self>, tenant: TenantId, low: &[Low]) {
        for Low { slice, limit } in low {
            let is_refused = self.desk().is_refused(tenant, slice);
            if !is_refused {
                self.wish(tenant, slice.clone(), Wish::as_may_be(*limit));
            }
        }
    }

    /// Has something done about a part, when its tenant's turn comes.
    fn wish(self: &Arc<Self>, tenant: TenantId, slice: crate::ledger::Slice, wish: Wish) {
        let is_first = self.desk().wish(tenant, slice, wish);
        if is_first {
            tokio::spawn(flight::fly(Arc::clone(self), tenant));
        }
    }

    fn elsewhere(&self, short: Vec<Shortage>) -> BudgetRefusal {
        self.counts.elsewhere.fetch_add(1, Ordering::Relaxed);
        match short.into_iter().next() {
            Some(short) => BudgetRefusal::Elsewhere(short.over),
            None => BudgetRefusal::Short(Vec::new()),
        }
    }

    fn unanswered(&self, short: Vec<Shortage>) -> BudgetRefusal {
        self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
        match short.into_iter().next() {
            Some(Shortage { over, left_here, .. }) => BudgetRefusal::StoreAway { over, left_here },
            None => BudgetRefusal::Short(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests;
