//! What can go wrong: the tenant's budgets, the operator's disk, our own arithmetic.

use std::io;

use crate::ledger::book::Unfit;
use crate::ledger::budget::{Budget, Period, REQUEST_BUDGETS_MAX, Unit};
use crate::ledger::calendar::Resets;
use crate::ledger::image::Damaged;
use crate::ledger::part::Shortage;
use crate::ledger::price::{Used, WorstCase};
use crate::ledger::reservation::Settled;
use crate::level::{Level, Models};

/// A request would overshoot a budget. Nothing is reserved.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the budget of {limit} {unit} ({period}, {models}) of {level} has {left} left, and this request may need \
     {asked}; it {resets}"
)]
pub struct OverBudget {
    /// Whose budget.
    pub level: Level,
    /// For which models.
    pub models: Models,
    /// Of what.
    pub unit: Unit,
    /// For how long.
    pub period: Period,
    /// What the request may need, in `unit`.
    pub asked: u64,
    /// What is neither spent nor reserved by any gateway, as far as is known.
    pub left: u64,
    /// The budget. A request that asks for more never fits.
    pub limit: u64,
    /// When all of it can be used again.
    pub resets: Resets,
}

/// Why a request is not reserved. It must not reach an engine.
#[derive(Debug, thiserror::Error)]
pub enum BudgetRefusal {
    /// It may use more than is left. The tenant's to act on.
    #[error(transparent)]
    OverBudget(#[from] Box<OverBudget>),
    /// This gateway holds too little of its budgets. [`BudgetParts`](crate::BudgetParts) asks the store for more.
    #[error("the parts of {} budgets that this gateway holds are too small for this request", .0.len())]
    Short(Vec<Shortage>),
    /// What is left of a budget would do, but other gateways hold it; they give it back when they are asked.
    #[error("other gateways hold what this one lacks: {0}")]
    Elsewhere(Box<OverBudget>),
    /// This gateway holds too little of a budget, and the store that hands it out did not answer in time.
    #[error("this gateway holds {left_here} of a budget that the store did not give more of in time: {over}")]
    StoreAway {
        /// The budget.
        over: Box<OverBudget>,
        /// What is left of what this gateway holds of it.
        left_here: u64,
    },
    /// A budget counts money, and the model has no price. The operator's to act on.
    #[error("{level} has a budget in money, and this model has no price")]
    Unpriced {
        /// Whose budget.
        level: Level,
    },
    /// More budgets bind the request than may. The operator's to act on.
    #[error("more than {REQUEST_BUDGETS_MAX} budgets bind this request")]
    TooManyBudgets,
    /// A sum has no room for it: nearly 2^64 of its unit are spent.
    #[error("a sum of this request would not fit into 64 bits")]
    TooLarge,
    /// As many requests are reserved as may be.
    #[error("{limit} requests are reserved, and that is the most that may be")]
    ReservationsFull {
        /// Requests.
        limit: usize,
    },
    /// The store does not take usage over. The operator's to act on.
    #[error("the usage backlog is full: {limit} rows wait to be stored, and that is the most that may")]
    UsageFull {
        /// Rows, those that open reservations will need included.
        limit: usize,
    },
    /// As many sums are kept as may be.
    #[error("the ledger keeps {limit} sums, and that is the most it may")]
    SumsFull {
        /// Sums.
        limit: usize,
    },
    /// As many tenants have books as may.
    #[error("the ledger has books for {limit} tenants, and that is the most it may")]
    TenantsFull {
        /// Tenants.
        limit: usize,
    },
    /// The disk does not keep up, or the journal has ended.
    #[error(transparent)]
    Journal(#[from] LedgerError),
}

/// Why the ledger did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process has this ledger open.
    #[error("another process uses this ledger")]
    Locked,
    /// The folder or a file in it cannot be used.
    #[error("the ledger's journal cannot be used: {0}")]
    Disk(#[source] io::Error),
    /// The journal is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// As much waits for the disk as may.
    #[error("{limit} records wait for the ledger's disk, and that is the most that may")]
    QueueFull {
        /// Records.
        limit: usize,
    },
    /// A write or a sync failed before; nothing is written after it.
    #[error("the ledger's journal has ended: a write failed")]
    Ended,
    /// The batch that was confirmed is not the one that is out.
    #[error("batch {number} is not out, and cannot be confirmed")]
    NotOut {
        /// Its number.
        number: u64,
    },
}

/// A settlement that is not what was reserved. A fault of ours, to be reported.
#[derive(Debug, thiserror::Error)]
pub enum SettleDefect {
    /// More was used than was reserved; it was charged as far as the reservation goes.
    #[error("a request used {used:?}, but {reserved:?} was reserved")]
    Overrun {
        /// What was reserved.
        reserved: WorstCase,
        /// What was used.
        used: Used,
        /// What was charged.
        settled: Box<Settled>,
    },
    /// The books do not know the reservation. Nothing was charged.
    #[error("a reservation cannot be settled: {0}")]
    Unfit(#[from] Unfit),
}

/// A progress mark that is beyond what was reserved. A fault of ours; what fits was noted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a request has used {used:?}, but {reserved:?} was reserved")]
pub struct MarkBeyond {
    /// What was reserved.
    pub reserved: WorstCase,
    /// What was used.
    pub used: Used,
}

impl OverBudget {
    pub(crate) fn new(budget: &Budget, asked: u64, left: u64, resets: Resets) -> Self {
        let Budget { level, unit, period, limit, .. } = *budget;
        Self { level, models: budget.models.clone(), unit, period, asked, left, limit, resets }
    }
}
