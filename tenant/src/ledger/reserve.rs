//! All or nothing: a request is held against every budget that binds it, under its tenant's one lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use crate::fault::{Fault, seeded};
use crate::ledger::book::{Book, Open, Unfit};
use crate::ledger::budget::{Budget, BudgetKind, Payer, REQUEST_BUDGETS_MAX, Unit, asked};
use crate::ledger::calendar::resets;
use crate::ledger::error::{BudgetRefusal, OverBudget};
use crate::ledger::line::Binds;
use crate::ledger::part::{Low, Shortage, Slice, usable};
use crate::ledger::price::{Pricing, Used, WorstCase};
use crate::ledger::queue::{Entry, Queue, Urgency};
use crate::ledger::record::Record;
use crate::ledger::reservation::{BudgetWarning, Journalled, Reservation};
use crate::ledger::room::{Hold, Room};
use crate::level::ModelName;
use crate::store::TenantId;
use crate::time::UnixMillis;

/// Requests like the last one for which a part should last; with less, more is asked for.
const LOW_REQUESTS: u64 = 2;

/// What a request asks of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Who pays.
    pub payer: Payer,
    /// The model, as prices and budgets name it.
    pub model: &'a ModelName,
    /// What the model costs now; the request is charged by it, whatever it costs later.
    pub pricing: Pricing,
    /// Budgets of the tenant. Those that do not bind the payer and the model are passed over; at most
    /// [`REQUEST_BUDGETS_MAX`] may bind.
    pub budgets: &'a [Budget],
    /// The most that it may use.
    pub worst: WorstCase,
}

/// What reservations, their ends and the writer have in common.
pub(crate) struct Shared {
    pub(crate) books: Mutex<HashMap<TenantId, Arc<Mutex<Book>>>>,
    pub(crate) queue: Queue,
    /// Names the journal.
    pub(crate) journal: Uuid,
    /// The number that a reservation had last.
    pub(crate) last_id: AtomicU64,
    pub(crate) tenants_max: usize,
    pub(crate) sums: Room,
    pub(crate) reservations: Room,
    /// Rows of usage that no store has confirmed, and reservations that will need one.
    pub(crate) backlog: Arc<Room>,
}

impl Shared {
    /// Reserves in the books, and queues the record. Until the ticket resolves it is not on disk, and the
    /// request must not go on.
    pub(crate) fn begin(
        self: &Arc<Self>,
        claim: &Claim<'_>,
        now: UnixMillis,
    ) -> Result<(Reservation, Journalled), BudgetRefusal> {
        let budgets = bound(claim)?;
        let open = Open {
            made: now,
            payer: claim.payer,
            model: claim.model.clone(),
            pricing: claim.pricing,
            binds: budgets.iter().fold(Binds::default(), Binds::and),
            worst: claim.worst,
            used: Used::NONE,
        };
        let limit = self.reservations.limit();
        let place = self.reservations.take(1).ok_or(BudgetRefusal::ReservationsFull { limit })?;
        let row = self.row()?;
        let book = self.book(claim.payer.tenant)?;
        let mut held = book.lock().unwrap_or_else(PoisonError::into_inner);
        let Fits { notices, low } = fits(&held, &budgets, &open)?;
        held.check(&open).map_err(|_: Unfit| BudgetRefusal::TooLarge)?;
        let missing = held.sums_missing(&open);
        let sums = self.sums.take(missing);
        let sums = sums.ok_or(BudgetRefusal::SumsFull { limit: self.sums.limit() })?;

        let id = self.last_id.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        let (ticket, journalled) = Journalled::new();
        let record = Record::Reserve { id, open: open.clone() };
        // Under the book's lock, so that the journal has a tenant's records in the order of its book; the book
        // changes only once the record has its place.
        let entry = if budgets.is_empty() {
            // Only its usage is at stake, which its end writes whole: nobody waits for this.
            Entry::Lazy { record, ticket }
        } else {
            Entry::Told { record, ticket }
        };
        self.queue.push(entry, Urgency::Refusable)?;
        let most = held.sums().saturating_add(missing);
        held.reserve(id, open.clone()).map_err(|_: Unfit| BudgetRefusal::TooLarge)?;
        let forgotten = most.saturating_sub(held.sums());
        drop(held);

        for hold in [place, row, sums] {
            hold.keep();
        }
        self.sums.give(forgotten);
        Ok((Reservation::new(Arc::clone(self), book, id, open, budgets, notices, low), journalled))
    }

    /// A place for the row of usage that the request may need.
    fn row(&self) -> Result<Hold<'_>, BudgetRefusal> {
        let limit = if seeded(Fault::BacklogUnbounded) { usize::MAX } else { self.backlog.limit() };
        self.backlog.take_within(1, limit).ok_or(BudgetRefusal::UsageFull { limit })
    }

    pub(crate) fn book(&self, tenant: TenantId) -> Result<Arc<Mutex<Book>>, BudgetRefusal> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(book) = books.get(&tenant) {
            return Ok(Arc::clone(book));
        }
        if books.len() >= self.tenants_max {
            return Err(BudgetRefusal::TenantsFull { limit: self.tenants_max });
        }
        let book = Arc::default();
        books.insert(tenant, Arc::clone(&book));
        Ok(book)
    }
}

/// The budgets that bind, none of which may count money if there is no price.
fn bound(claim: &Claim<'_>) -> Result<Vec<Budget>, BudgetRefusal> {
    let binds = |budget: &&Budget| budget.binds(&claim.payer, claim.model);
    let budgets: Vec<Budget> = claim.budgets.iter().filter(binds).cloned().collect();
    if budgets.len() > REQUEST_BUDGETS_MAX {
        return Err(BudgetRefusal::TooManyBudgets);
    }
    match claim.pricing {
        Pricing::Priced(_) => {}
        Pricing::Unpriced if seeded(Fault::UnpricedFree) => {}
        // What costs nobody knows what cannot be held against a sum of money: not even a soft one, whose sum
        // would be a lie.
        Pricing::Unpriced => {
            if let Some(budget) = budgets.iter().find(|budget| budget.unit == Unit::MicroMoney) {
                return Err(BudgetRefusal::Unpriced { level: budget.level });
            }
        }
    }
    Ok(budgets)
}

/// What is to be said of a request that fits.
struct Fits {
    /// The highest threshold that each budget has passed.
    notices: Vec<BudgetWarning>,
    /// What should be asked for before the next request needs it.
    low: Vec<Low>,
}

/// Whether `open` fits what is held of every hard budget.
fn fits(book: &Book, budgets: &[Budget], open: &Open) -> Result<Fits, BudgetRefusal> {
    let (mut notices, mut low, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for budget in budgets {
        let sum = book.sum(&budget.line(), open.made);
        let slice = Slice { line: budget.line(), start: sum.start };
        let used = if seeded(Fault::SpentOnly) { sum.spent } else { sum.used() };
        let asked = asked(budget.unit, open.worst, open.pricing);
        let left_here = usable(budget, &sum).saturating_sub(used);
        match budget.kind {
            BudgetKind::Hard if asked > left_here => {
                let left = budget.limit.saturating_sub(sum.part.spent_elsewhere).saturating_sub(used);
                let over = OverBudget::new(budget, asked, left, resets(budget.period, open.made));
                short.push(Shortage { slice, limit: budget.limit, over: Box::new(over), left_here });
                continue;
            }
            BudgetKind::Hard if left_here.saturating_sub(asked) < asked.saturating_mul(LOW_REQUESTS) => {
                low.push(Low { slice, limit: Some(budget.limit) });
            }
            // A soft one asks for nothing, and only wants to know what others have spent.
            BudgetKind::Soft if sum.part.epoch == 0 => low.push(Low { slice, limit: None }),
            BudgetKind::Hard | BudgetKind::Soft => {}
        }
        let highest = budget.passed(sum.total()).last();
        notices.extend(highest.map(|percent| BudgetWarning::new(budget, percent, sum, open.made)));
    }
    if short.is_empty() { Ok(Fits { notices, low }) } else { Err(BudgetRefusal::Short(short)) }
}
