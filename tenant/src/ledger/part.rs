//! What a gateway holds of a budget: handed out by the store, spent within, given back.
//!
//! ```text
//! store: base + all parts <= limit          ledger: spent + reserved <= part
//! raised: the store first, then the part    lowered: the part first, on disk, then the store
//! ```
//!
//! So what is held here is never more than what the store counts as handed out, whatever is lost between the two.

use std::sync::PoisonError;

use crate::fault::{Fault, seeded};
use crate::ledger::book::{Book, Sum};
use crate::ledger::budget::Budget;
use crate::ledger::error::{BudgetRefusal, OverBudget};
use crate::ledger::line::Line;
use crate::ledger::queue::{Entry, Urgency};
use crate::ledger::record::Record;
use crate::ledger::reservation::Journalled;
use crate::ledger::reserve::Shared;
use crate::store::TenantId;

/// What is held of a line in one window, and what was told of the rest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Part {
    /// Which count of the store it belongs to: another one, each time that the budget is lifted and set again; 0 for none.
    pub(crate) epoch: u64,
    /// As much may be spent and reserved here.
    pub(crate) amount: u64,
    /// The limit of the hard budget under which the store last found that all parts fit: with a lower one the part is to be asked for
    /// anew.
    pub(crate) seen: u64,
    /// What was spent before there were parts, and of the parts of others.
    pub(crate) spent_elsewhere: u64,
}

impl Part {
    /// Nothing, of no count.
    pub(crate) const NONE: Self = Self { epoch: 0, amount: 0, seen: 0, spent_elsewhere: 0 };
}

/// What is spent of a part, as the store has answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    /// As the store has it.
    pub(crate) told: u64,
    /// What was counted here when the store was asked: the rest was spent since.
    pub(crate) counted: u64,
}

/// A line in a window.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Slice {
    pub(crate) line: Line,
    /// First day of the window.
    pub(crate) start: u64,
}

/// A hard budget of which this gateway holds too little for a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shortage {
    pub(crate) slice: Slice,
    /// The budget's limit, as this gateway knows it.
    pub(crate) limit: u64,
    /// What is left of the whole budget as far as is known, and what was asked. What others have reserved counts as left: they may
    /// not use it.
    pub(crate) over: Box<OverBudget>,
    /// What is left of the part.
    pub(crate) left_here: u64,
}

impl Shortage {
    /// Whether the request would not fit if this gateway held all that is left.
    pub(crate) const fn nothing_left(&self) -> bool {
        self.over.asked > self.over.left
    }
}

/// A line that should be asked for before somebody has to wait for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Low {
    pub(crate) slice: Slice,
    /// None of a soft budget, of which there are no parts.
    pub(crate) limit: Option<u64>,
}

/// How much of a part may be used under this budget: none of one that was handed out under a higher limit.
pub(crate) const fn usable(budget: &Budget, sum: &Sum) -> u64 {
    if sum.part.seen > budget.limit { 0 } else { sum.part.amount }
}

impl Shared {
    /// What is held of a line in a window; zeros where nothing is.
    pub(crate) fn held(&self, tenant: TenantId, slice: &Slice) -> Sum {
        let none = Sum { start: slice.start, ..Sum::default() };
        self.with_book(tenant, |book| book.held(&slice.line, slice.start)).flatten().unwrap_or(none)
    }

    /// All that is held of a tenant's budgets.
    pub(crate) fn all_held(&self, tenant: TenantId) -> Vec<(Slice, Sum)> {
        let all = self.with_book(tenant, |book| {
            let of = |(line, _, sums): (&Line, u32, &[Sum])| {
                let slice = |sum: &Sum| (Slice { line: line.clone(), start: sum.start }, *sum);
                sums.iter().map(slice).collect::<Vec<_>>()
            };
            book.lines().flat_map(of).collect()
        });
        all.unwrap_or_default()
    }

    /// The tenants that have a book.
    pub(crate) fn tenants(&self) -> Vec<TenantId> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    fn with_book<T>(&self, tenant: TenantId, ask: impl FnOnce(&Book) -> T) -> Option<T> {
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let book = books.get(&tenant).cloned();
        drop(books);
        book.map(|book| ask(&book.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes over what the store has answered: this part, and what it knows to be spent of it. Lost in a crash, the store still has it.
    ///
    /// # Errors
    /// [`BudgetRefusal::SumsFull`], [`BudgetRefusal::TenantsFull`], [`BudgetRefusal::Journal`]; nothing is changed then.
    pub(crate) fn share(
        &self,
        tenant: TenantId,
        slice: &Slice,
        part: Part,
        spent: Spent,
    ) -> Result<(), BudgetRefusal> {
        let book = self.book(tenant)?;
        let mut held = book.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = held.held(&slice.line, slice.start);
        let missing = usize::from(sum.is_none());
        let since = sum.map_or(0, |sum| sum.spent).saturating_sub(spent.counted);
        let spent = spent.told.saturating_add(since);
        let place = self.sums.take(missing).ok_or(BudgetRefusal::SumsFull { limit: self.sums.limit() })?;
        let Slice { line, start } = slice.clone();
        let record = Record::Part { tenant, line, start, part, spent };
        // Under the book's lock, so that the journal has a tenant's records in the order of its book.
        self.queue.push(Entry::Untold { record }, Urgency::Refusable)?;
        let most = held.sums().saturating_add(missing);
        held.share(&slice.line, slice.start, part, spent);
        let forgotten = most.saturating_sub(held.sums());
        drop(held);
        place.keep();
        self.sums.give(forgotten);
        Ok(())
    }

    /// Resolves when all that has been counted so far is on disk: what the store is told must not be undone by a crash.
    ///
    /// # Errors
    /// [`BudgetRefusal::Journal`].
    pub(crate) fn sync(&self) -> Result<Journalled, BudgetRefusal> {
        let (ticket, journalled) = Journalled::new();
        self.queue.push(Entry::Sync { ticket }, Urgency::Refusable)?;
        Ok(journalled)
    }

    /// Lowers a part to what is used of it. Only when the ticket resolves may the store be told.
    ///
    /// # Errors
    /// [`BudgetRefusal::Journal`]; nothing is changed then.
    pub(crate) fn lower(&self, tenant: TenantId, slice: &Slice) -> Result<Option<Journalled>, BudgetRefusal> {
        let book = self.book(tenant)?;
        let mut held = book.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sum) = held.held(&slice.line, slice.start) else { return Ok(None) };
        if sum.part.amount <= sum.used() {
            return Ok(None);
        }
        let part = Part { amount: sum.used(), ..sum.part };
        let Slice { line, start } = slice.clone();
        let (ticket, journalled) = Journalled::new();
        let record = Record::Part { tenant, line, start, part, spent: sum.spent };
        self.queue.push(Entry::Told { record, ticket }, Urgency::Refusable)?;
        if !seeded(Fault::GivenBackKept) {
            held.share(&slice.line, slice.start, part, sum.spent);
        }
        Ok(Some(journalled))
    }

    /// Forgets a line in a window: what is reserved of it counts on, and nothing is held of it. Only when the ticket resolves may the
    /// store be told.
    ///
    /// # Errors
    /// [`BudgetRefusal::Journal`]; nothing is changed then.
    pub(crate) fn forget(&self, tenant: TenantId, slice: &Slice) -> Result<Journalled, BudgetRefusal> {
        let book = self.book(tenant)?;
        self.forget_in(&mut book.lock().unwrap_or_else(PoisonError::into_inner), tenant, slice)
    }

    /// Forgets a line in a window of which the store was told all: this is spent, and nothing is reserved. Does nothing where that is
    /// not so any more.
    ///
    /// # Errors
    /// [`BudgetRefusal::Journal`]; nothing is changed then.
    pub(crate) fn let_go(&self, tenant: TenantId, slice: &Slice, spent: u64) -> Result<(), BudgetRefusal> {
        let book = self.book(tenant)?;
        let mut held = book.lock().unwrap_or_else(PoisonError::into_inner);
        match held.held(&slice.line, slice.start) {
            Some(sum) if sum.holders == 0 && sum.spent == spent => {
                self.forget_in(&mut held, tenant, slice).map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn forget_in(
        &self,
        held: &mut Book,
        tenant: TenantId,
        slice: &Slice,
    ) -> Result<Journalled, BudgetRefusal> {
        let Slice { line, start } = slice.clone();
        let (ticket, journalled) = Journalled::new();
        let record = Record::Forget { tenant, line, start };
        self.queue.push(Entry::Told { record, ticket }, Urgency::Refusable)?;
        let before = held.sums();
        held.forget(&slice.line, slice.start);
        self.sums.give(before.saturating_sub(held.sums()));
        Ok(journalled)
    }
}
