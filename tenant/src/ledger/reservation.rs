//! A request that is reserved, until it is settled.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::ledger::book::{Book, Highest, Open, Sum, Unfit};
use crate::ledger::budget::{Budget, BudgetKind, Period, Unit, cost};
use crate::ledger::calendar::{Resets, resets};
use crate::ledger::error::{LedgerError, MarkBeyond, SettleDefect};
use crate::ledger::part::Low;
use crate::ledger::price::{Pricing, Used};
use crate::ledger::queue::{Entry, Urgency};
use crate::ledger::record::Record;
use crate::ledger::reserve::Shared;
use crate::level::{Level, Models};
use crate::time::UnixMillis;

/// A request that is reserved. Exactly one thing ends it: [`Reservation::settle`]; or its drop, which settles
/// it to its last progress mark; or a crash, after which replay does the same.
#[must_use = "what is reserved is held as long as this lives"]
pub struct Reservation {
    shared: Arc<Shared>,
    book: Arc<Mutex<Book>>,
    id: u64,
    open: Open,
    /// Those that bind it.
    budgets: Vec<Budget>,
    notices: Vec<BudgetWarning>,
    low: Vec<Low>,
    state: State,
}

enum State {
    /// To be settled.
    Reserved,
    Settled,
}

/// A threshold of a budget that is passed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BudgetWarning {
    /// Whose budget.
    pub level: Level,
    /// For which models.
    pub models: Models,
    /// Of what.
    pub unit: Unit,
    /// For how long.
    pub period: Period,
    /// Whether it refuses.
    pub kind: BudgetKind,
    /// The threshold, in percents of the limit.
    pub percent: u8,
    /// What is spent, in `unit`, by all gateways as far as is known; above the limit for a soft budget at most.
    pub spent: u64,
    /// The budget.
    pub limit: u64,
    /// When it begins anew.
    pub resets: Resets,
}

/// What a request cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// So many micro-units of money.
    MicroUnits(u64),
    /// Its model had no price when it was reserved.
    Unpriced,
}

/// A request that is settled.
#[derive(Debug)]
pub struct Settled {
    /// What was charged.
    pub charged: Used,
    /// What that costs.
    pub cost: Cost,
    /// Thresholds that are passed and were not told before in this period, each once: for events.
    pub warnings: Vec<BudgetWarning>,
    /// When the settlement is on disk. Nobody needs to wait for it.
    pub journalled: Journalled,
}

/// Resolves when what it stands for is on disk, or never will be.
#[derive(Debug)]
pub struct Journalled(oneshot::Receiver<()>);

impl Future for Journalled {
    type Output = Result<(), LedgerError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The writer lets go of a ticket without an answer only when the journal has ended.
        Pin::new(&mut self.0).poll(context).map(|answer| answer.map_err(|_| LedgerError::Ended))
    }
}

impl Journalled {
    /// A ticket, and the end that the writer gets.
    pub(crate) fn new() -> (oneshot::Sender<()>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// Waits on this thread; not to be called from a task.
    ///
    /// # Errors
    /// [`LedgerError::Ended`].
    pub fn wait(self) -> Result<(), LedgerError> {
        self.0.blocking_recv().map_err(|_| LedgerError::Ended)
    }
}

impl Reservation {
    pub(crate) fn new(
        shared: Arc<Shared>,
        book: Arc<Mutex<Book>>,
        id: u64,
        open: Open,
        budgets: Vec<Budget>,
        notices: Vec<BudgetWarning>,
        low: Vec<Low>,
    ) -> Self {
        Self { shared, book, id, open, budgets, notices, low, state: State::Reserved }
    }

    /// The highest threshold that each budget had passed when this was reserved, where there is one: for a
    /// header. Unlike [`Settled::warnings`], told as often as it is asked.
    pub fn notices(&self) -> &[BudgetWarning] {
        &self.notices
    }

    /// Of which budgets little was left here after it.
    pub(crate) fn low(&self) -> &[Low] {
        &self.low
    }

    /// Whether a budget binds it.
    pub(crate) const fn is_bound(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// Its number in the journal.
    #[cfg(test)]
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Notes what the request has used so far: what it is settled to if nobody settles it. Numbers never fall.
    ///
    /// It is written to the journal if the disk keeps up, and not waited for: a crash may lose the last marks.
    ///
    /// # Errors
    /// [`MarkBeyond`] when it is more than was reserved; as much as fits was noted.
    pub fn mark(&mut self, used: Used) -> Result<(), MarkBeyond> {
        let reserved = self.open.worst;
        let noted = used.within(reserved).or_more(self.open.used);
        if noted != self.open.used {
            self.open.used = noted;
            let record = Record::Mark { tenant: self.open.payer.tenant, id: self.id, used: noted };
            // A mark that finds no place is made up for by the next one, or by the settlement.
            drop(self.shared.queue.push(Entry::Untold { record }, Urgency::Refusable));
        }
        if used.within(reserved) == used { Ok(()) } else { Err(MarkBeyond { reserved, used }) }
    }

    /// Ends the request: `used` is spent, and what else was reserved is free again, at once.
    ///
    /// # Errors
    /// [`SettleDefect::Overrun`] when `used` is more than was reserved: it is charged as far as the reservation
    /// goes, so that no budget is overshot, and whoever counted is wrong. [`SettleDefect::Unfit`] when the books
    /// do not know this reservation.
    pub fn settle(mut self, used: Used) -> Result<Settled, SettleDefect> {
        let reserved = self.open.worst;
        let charged = used.within(reserved);
        let journalled = self.end(charged)?;
        let cost = match self.open.pricing {
            Pricing::Priced(_) => Cost::MicroUnits(cost(charged, self.open.pricing)),
            Pricing::Unpriced => Cost::Unpriced,
        };
        let settled = Settled { charged, cost, warnings: self.news(), journalled };
        if charged == used {
            Ok(settled)
        } else {
            Err(SettleDefect::Overrun { reserved, used, settled: Box::new(settled) })
        }
    }

    fn end(&mut self, charged: Used) -> Result<Journalled, Unfit> {
        self.state = State::Settled;
        let (ticket, journalled) = Journalled::new();
        let record = Record::Settle { tenant: self.open.payer.tenant, id: self.id, used: charged };
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.settle(self.id, charged)?;
        // Under the book's lock, so that the journal has a tenant's records in the order of its book. Once the
        // journal has ended, the ticket says that this is not on disk.
        drop(self.shared.queue.push(Entry::Told { record, ticket }, Urgency::Owed));
        drop(book);
        self.shared.reservations.give(1);
        Ok(journalled)
    }

    /// Thresholds that are passed and were not told; they count as told from here on.
    fn news(&self) -> Vec<BudgetWarning> {
        let mut news = Vec::new();
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        for budget in &self.budgets {
            let line = budget.line();
            let mut sum = book.sum(&line, self.open.made);
            let told = *sum.told.of(budget.kind);
            let before = if told.limit == budget.limit { told.percent } else { 0 };
            let passed = budget.passed(sum.total()).filter(|percent| *percent > before);
            let first = news.len();
            news.extend(passed.map(|percent| BudgetWarning::new(budget, percent, sum, self.open.made)));
            if let Some(last) = news.get(first..).and_then(<[_]>::last) {
                let highest = Highest { limit: budget.limit, percent: last.percent };
                book.tell(&line, sum.start, budget.kind, highest);
                let (tenant, kind) = (self.open.payer.tenant, budget.kind);
                let record = Record::Tell { tenant, line, start: sum.start, kind, highest };
                // Unwritten, it may be told once more after a restart.
                drop(self.shared.queue.push(Entry::Untold { record }, Urgency::Refusable));
            }
        }
        news
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        match self.state {
            State::Settled => {}
            // Nobody is there to hear of a defect; the books refuse it either way.
            State::Reserved => drop(self.end(self.open.used)),
        }
    }
}

impl BudgetWarning {
    pub(crate) fn new(budget: &Budget, percent: u8, sum: Sum, made: UnixMillis) -> Self {
        let Budget { level, unit, period, kind, limit, .. } = *budget;
        let (models, resets) = (budget.models.clone(), resets(period, made));
        Self { level, models, unit, period, kind, percent, spent: sum.total(), limit, resets }
    }
}
