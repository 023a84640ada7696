mod batches;
mod before;
mod bounds;
mod faults;
mod folder;
mod journal;
mod lives;
mod medium;
mod oracle;
mod roll_over;
mod threads;
mod warnings;
mod world;
mod worlds;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use uuid::Uuid;

use super::*;
use crate::key::KeyId;
use crate::level::{Level, ModelName, Models, ProjectId};
use medium::Medium;

const DAY: i64 = 86_400_000;

fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(millis).unwrap()
}

/// The payer of a tenant's project's key, by small numbers.
fn payer(tenant: u128, project: u128, key: u8) -> Payer {
    let id = format!("key{tenant:04}{project:04}{}", char::from(b'a' + key));
    Payer {
        tenant: TenantId(Uuid::from_u128(tenant)),
        project: ProjectId(Uuid::from_u128(tenant * 100 + project)),
        key: KeyId::parse(&id).unwrap(),
    }
}

fn model(name: &str) -> ModelName {
    ModelName::new(name).unwrap()
}

fn hard(level: Level, unit: Unit, period: Period, limit: u64) -> Budget {
    let (models, thresholds) = (Models::All, Thresholds::NONE);
    Budget { level, models, unit, period, limit, kind: BudgetKind::Hard, thresholds }
}

fn price() -> Pricing {
    Pricing::Priced(Price::new(2_000_000, 500_000, 8_000_000).unwrap())
}

fn used(prompt: u64, cached: u64, completion: u64) -> Used {
    Used { prompt, cached, completion }
}

/// What `future` is at now; nothing wakes it.
fn poll_now<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Books and a writer that a test moves by hand, so that each order of steps can be had.
struct Bench {
    shared: Arc<Shared>,
    writer: Writer<Medium>,
    medium: Medium,
    replayed: Replayed,
}

impl Bench {
    fn fresh(bounds: Bounds) -> Self {
        Self::open(&Source::Fresh(Uuid::from_u128(7)), bounds).unwrap()
    }

    fn open(source: &Source, bounds: Bounds) -> Result<Self, LedgerError> {
        let medium = Medium::default();
        let (shared, writer, replayed) = assemble(source, medium.clone(), bounds)?;
        Ok(Self { shared, writer, medium, replayed })
    }

    /// As after a crash that left `bytes`.
    fn reopen(bytes: Vec<u8>) -> Result<Self, LedgerError> {
        Self::open(&Source::Bytes(bytes), Bounds::FULL)
    }

    /// Commits what waits, at most `count`.
    fn commit(&mut self, count: usize) -> io::Result<()> {
        let mut entries = Vec::new();
        let count = count.min(self.shared.queue.len());
        if count > 0 {
            self.shared.queue.take(&mut entries, count);
        }
        self.writer.commit(&mut entries)
    }

    fn begin(&self, claim: &Claim<'_>, now: UnixMillis) -> Result<(Reservation, Journalled), BudgetRefusal> {
        self.shared.begin(claim, now)
    }

    /// Reserves, and makes it durable.
    fn reserve(&mut self, claim: &Claim<'_>, now: UnixMillis) -> Result<Reservation, BudgetRefusal> {
        let (reservation, mut journalled) = self.begin(claim, now)?;
        while self.shared.queue.len() > 0 {
            self.commit(FRAME_RECORDS_MAX).unwrap();
        }
        assert!(matches!(poll_now(&mut journalled), Poll::Ready(Ok(()))));
        Ok(reservation)
    }

    /// `(spent, reserved)` of a budget.
    fn sum(&self, tenant: TenantId, budget: &Budget, now: UnixMillis) -> (u64, u64) {
        let books = self.shared.books.lock().unwrap();
        let sum = books.get(&tenant).map(|book| book.lock().unwrap().sum(&budget.line(), now));
        sum.map_or((0, 0), |sum| (sum.spent, sum.reserved))
    }

    fn take(&mut self) -> Taken {
        let (answer, mut taken) = oneshot::channel();
        self.shared.queue.push(Entry::Take { answer }, Urgency::Refusable).unwrap();
        self.commit(usize::MAX).unwrap();
        taken.try_recv().unwrap()
    }

    fn confirm(&mut self, number: u64) -> Result<(), LedgerError> {
        let (answer, mut confirmed) = oneshot::channel();
        self.shared.queue.push(Entry::Confirm { number, answer }, Urgency::Refusable).unwrap();
        self.commit(usize::MAX).unwrap();
        confirmed.try_recv().unwrap()
    }
}
