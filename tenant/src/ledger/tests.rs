mod batches;
mod bounds;
mod faults;
mod folder;
mod journal;
mod lives;
pub(crate) mod medium;
mod oracle;
mod parts;
mod roll_over;
mod threads;
mod warnings;
mod world;
pub(crate) mod worlds;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use uuid::Uuid;

use super::*;
use crate::key::KeyId;
use crate::level::{Level, ModelName, Models, ProjectId};
use medium::Medium;

pub(crate) const DAY: i64 = 86_400_000;

pub(crate) fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(millis).unwrap()
}

/// The payer of a tenant's project's key, by small numbers.
pub(crate) fn payer(tenant: u128, project: u128, key: u8) -> Payer {
    let id = format!("key{tenant:04}{project:04}{}", char::from(b'a' + key));
    Payer {
        tenant: TenantId(Uuid::from_u128(tenant)),
        project: ProjectId(Uuid::from_u128(tenant * 100 + project)),
        key: KeyId::parse(&id).unwrap(),
    }
}

pub(crate) fn model(name: &str) -> ModelName {
    ModelName::new(name).unwrap()
}

pub(crate) fn hard(level: Level, unit: Unit, period: Period, limit: u64) -> Budget {
    let (models, thresholds) = (Models::All, Thresholds::NONE);
    Budget { level, models, unit, period, limit, kind: BudgetKind::Hard, thresholds }
}

pub(crate) fn price() -> Pricing {
    Pricing::Priced(Price::new(2_000_000, 500_000, 8_000_000).unwrap())
}

pub(crate) fn used(prompt: u64, cached: u64, completion: u64) -> Used {
    Used { prompt, cached, completion }
}

/// What `future` is at now; nothing wakes it.
pub(crate) fn poll_now<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A shortage where all of each budget is held: nothing is left.
fn final_word(refusal: BudgetRefusal) -> BudgetRefusal {
    let BudgetRefusal::Short(short) = refusal else { return refusal };
    let short = short.into_iter().find(Shortage::nothing_left).expect("all is held");
    BudgetRefusal::OverBudget(short.over)
}

/// Gives this gateway all of each hard budget in the windows of `now`, as a store would that no other gateway asks.
pub(crate) fn give_all(shared: &Shared, claim: &Claim<'_>, now: UnixMillis) {
    let Claim { payer, model, budgets, .. } = *claim;
    let (tenant, binds) = (payer.tenant, |budget: &&Budget| budget.binds(&payer, model));
    for budget in budgets.iter().filter(binds).filter(|budget| budget.kind == BudgetKind::Hard) {
        let slice = Slice { line: budget.line(), start: window(budget.period, now) };
        let part = Part { epoch: 1, amount: budget.limit, seen: budget.limit, ..Part::NONE };
        if shared.held(tenant, &slice).part != part {
            // Where there is no room for the sum, the reservation says so.
            shared.share(tenant, &slice, part, Spent::default()).unwrap_or_default();
        }
    }
}

/// Books and a writer that a test moves by hand, so that each order of steps can be had.
pub(crate) struct Bench {
    pub(crate) shared: Arc<Shared>,
    pub(crate) writer: Writer<Medium>,
    pub(crate) medium: Medium,
    pub(crate) replayed: Replayed,
}

impl Bench {
    pub(crate) fn fresh(bounds: Bounds) -> Self {
        Self::open(&Source::Fresh(Uuid::from_u128(7)), bounds).unwrap()
    }

    /// One of several gateways.
    pub(crate) fn named(name: u128) -> Self {
        Self::open(&Source::Fresh(Uuid::from_u128(name)), Bounds::FULL).unwrap()
    }

    fn open(source: &Source, bounds: Bounds) -> Result<Self, LedgerError> {
        let medium = Medium::default();
        let (shared, writer, replayed) = assemble(source, medium.clone(), bounds)?;
        Ok(Self { shared, writer, medium, replayed })
    }

    /// As after a crash that left `bytes`.
    pub(crate) fn reopen(bytes: Vec<u8>) -> Result<Self, LedgerError> {
        Self::open(&Source::Bytes(bytes), Bounds::FULL)
    }

    /// Commits what waits, at most `count`.
    pub(crate) fn commit(&mut self, count: usize) -> io::Result<()> {
        let mut entries = Vec::new();
        let count = count.min(self.shared.queue.len());
        if count > 0 {
            self.shared.queue.take(&mut entries, count);
        }
        self.writer.commit(&mut entries)
    }

    /// Begins, where this gateway holds all of each budget.
    pub(crate) fn begin(
        &self,
        claim: &Claim<'_>,
        now: UnixMillis,
    ) -> Result<(Reservation, Journalled), BudgetRefusal> {
        self.give_all(claim, now);
        self.shared.begin(claim, now).map_err(final_word)
    }

    pub(crate) fn give_all(&self, claim: &Claim<'_>, now: UnixMillis) {
        give_all(&self.shared, claim, now);
    }

    /// Reserves, and makes it durable.
    pub(crate) fn reserve(
        &mut self,
        claim: &Claim<'_>,
        now: UnixMillis,
    ) -> Result<Reservation, BudgetRefusal> {
        let (reservation, mut journalled) = self.begin(claim, now)?;
        while self.shared.queue.len() > 0 {
            self.commit(FRAME_RECORDS_MAX).unwrap();
        }
        assert!(matches!(poll_now(&mut journalled), Poll::Ready(Ok(()))));
        Ok(reservation)
    }

    /// Reserves of what is held.
    pub(crate) fn reserve_held(&mut self, claim: &Claim<'_>, now: UnixMillis) -> Reservation {
        let (reservation, _) = self.shared.begin(claim, now).unwrap();
        self.commit(usize::MAX).unwrap();
        reservation
    }

    /// `(spent, reserved)` of a budget.
    pub(crate) fn sum(&self, tenant: TenantId, budget: &Budget, now: UnixMillis) -> (u64, u64) {
        let books = self.shared.books.lock().unwrap();
        let sum = books.get(&tenant).map(|book| book.lock().unwrap().sum(&budget.line(), now));
        sum.map_or((0, 0), |sum| (sum.spent, sum.reserved))
    }

    pub(crate) fn take(&mut self) -> Taken {
        let (answer, mut taken) = oneshot::channel();
        self.shared.queue.push(Entry::Take { answer }, Urgency::Refusable).unwrap();
        self.commit(usize::MAX).unwrap();
        taken.try_recv().unwrap()
    }

    pub(crate) fn confirm(&mut self, number: u64) -> Result<(), LedgerError> {
        let (answer, mut confirmed) = oneshot::channel();
        self.shared.queue.push(Entry::Confirm { number, answer }, Urgency::Refusable).unwrap();
        self.commit(usize::MAX).unwrap();
        confirmed.try_recv().unwrap()
    }
}
