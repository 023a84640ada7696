//! Usage by hour, tenant, project, key and model, and the batches in which a store takes it over.
//!
//! ```text
//! settle ──► rows (pending) ──take──► batch, numbered ──► stored with its number ──confirm──► forgotten
//!                                       ▲────── given again, the same, until confirmed ──────┘
//! ```
//! Rows lie apart by the life of the ledger in which they came, from one opening to the next, and each life has a name of its own. A
//! folder that was restored from an older copy gives what was in the copy under the name and number under which the store has had it,
//! and what is new under a name that nobody has had ([decision 0013](../../../docs/decisions/0013-each-life-names-its-batches.md)).

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use crate::fault::{Fault, seeded};
use crate::key::KeyId;
use crate::ledger::book::{Open, Unfit};
use crate::ledger::budget::{Payer, cost};
use crate::ledger::calendar::hour;
use crate::ledger::price::{Pricing, Used};
use crate::level::{ModelName, ProjectId};
use crate::store::TenantId;

/// Lives whose rows may wait apart. One more goes on under the name of the last.
pub(crate) const LIVES_MAX: usize = 64;
/// Rows that one batch may have.
pub const BATCH_ROWS_MAX: usize = 1_024;

/// What a key used of a model in an hour.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UsageRow {
    /// Whole hours from 1970-01-01 UTC to the hour in which the requests were reserved.
    pub hour: u64,
    /// Who pays.
    pub payer: Payer,
    /// The model.
    pub model: ModelName,
    /// How much.
    pub amounts: Amounts,
}

/// How much was used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// Requests that were reserved and have ended, however they did.
    pub requests: u64,
    /// Tokens of prompts, cached ones included.
    pub prompt: u64,
    /// Tokens of prompts that came from a prefix cache.
    pub cached: u64,
    /// Tokens of completions.
    pub completion: u64,
    /// Micro-units of money, each request rounded up.
    pub cost_micro: u64,
    /// Of the requests, those of a model without a price: their cost is not in [`Amounts::cost_micro`].
    pub unpriced: u64,
}

impl Amounts {
    fn of(used: Used, pricing: Pricing) -> Self {
        Self {
            requests: 1,
            prompt: used.prompt,
            cached: used.cached,
            completion: used.completion,
            cost_micro: cost(used, pricing),
            unpriced: match pricing {
                Pricing::Priced(_) => 0,
                Pricing::Unpriced => 1,
            },
        }
    }

    /// Both together. Saturates; at 2^33 tokens a request that takes 2^31 requests in one hour.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            prompt: self.prompt.saturating_add(other.prompt),
            cached: self.cached.saturating_add(other.cached),
            completion: self.completion.saturating_add(other.completion),
            cost_micro: self.cost_micro.saturating_add(other.cost_micro),
            unpriced: self.unpriced.saturating_add(other.unpriced),
        }
    }
}

/// Rows to be stored in one transaction, together with `journal` and `number`.
///
/// Whoever finds that the store has this number of this journal already stores nothing, and confirms.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Batch {
    /// Names the life of the journal in which the rows came.
    pub journal: Uuid,
    /// The first of a journal is 1, then one more for each, whatever life it is of.
    pub number: u64,
    /// At least one, at most [`BATCH_ROWS_MAX`]; each hour, payer and model once.
    pub rows: Vec<UsageRow>,
}

/// What there is to store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Taken {
    /// Nothing.
    Nothing,
    /// A batch; it is given again, as it is, until it is confirmed.
    Batch(Batch),
}

/// Tells a row from others. In this order they are taken.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct RowKey {
    hour: u64,
    tenant: TenantId,
    project: ProjectId,
    key: KeyId,
    model: ModelName,
}

impl RowKey {
    fn of(open: &Open) -> Self {
        let Payer { tenant, project, key } = open.payer;
        Self { hour: hour(open.made), tenant, project, key, model: open.model.clone() }
    }

    fn of_row(row: &UsageRow) -> Self {
        let Payer { tenant, project, key } = row.payer;
        Self { hour: row.hour, tenant, project, key, model: row.model.clone() }
    }

    fn with(&self, amounts: Amounts) -> UsageRow {
        let payer = Payer { tenant: self.tenant, project: self.project, key: self.key };
        UsageRow { hour: self.hour, payer, model: self.model.clone(), amounts }
    }
}

/// All usage that no store has confirmed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Usage {
    /// Lives of before, each with rows that are in no batch; the oldest first.
    before: VecDeque<Life>,
    /// The one that counts.
    now: Life,
    /// The batch that is out; without rows while none is.
    out: Life,
    /// The number of the batch that is out, or was last.
    last_batch: u64,
}

/// Rows that came between one opening of a ledger and the next.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Life {
    name: Uuid,
    rows: BTreeMap<RowKey, Amounts>,
}

impl Life {
    const fn of(name: Uuid) -> Self {
        Self { name, rows: BTreeMap::new() }
    }
}

impl Usage {
    /// No rows yet, in a life of this name and after this batch.
    pub(crate) const fn after(name: Uuid, last_batch: u64) -> Self {
        Self { before: VecDeque::new(), now: Life::of(name), out: Life::of(name), last_batch }
    }

    /// Begins another life: what is counted from here on is given under its name. With [`LIVES_MAX`] of them the last goes on.
    pub(crate) fn begin_life(&mut self, name: Uuid) {
        if seeded(Fault::LifeUnnamed) {
            return;
        }
        if self.now.rows.is_empty() {
            self.now = Life::of(name);
        } else if self.before.len().saturating_add(1) < LIVES_MAX {
            let before = std::mem::replace(&mut self.now, Life::of(name));
            self.before.push_back(before);
        }
    }

    /// Rows that are held, those of a batch that is out included.
    pub(crate) fn rows(&self) -> usize {
        let waiting = self.before.iter().chain([&self.now, &self.out]);
        waiting.map(|life| life.rows.len()).fold(0, usize::saturating_add)
    }

    /// A request has ended.
    pub(crate) fn count(&mut self, open: &Open, used: Used) {
        let row = self.now.rows.entry(RowKey::of(open)).or_default();
        *row = row.and(Amounts::of(used, open.pricing));
    }

    /// The number that a batch would have that is taken now; none while one is out, or nothing is pending.
    pub(crate) fn next_batch(&self) -> Option<u64> {
        let is_pending = !self.before.is_empty() || !self.now.rows.is_empty();
        let is_due = self.out.rows.is_empty() && is_pending;
        is_due.then(|| self.last_batch.saturating_add(1))
    }

    /// Puts the first rows of the oldest life into a batch.
    pub(crate) fn take(&mut self, number: u64) -> Result<(), Unfit> {
        if self.next_batch() != Some(number) {
            return Err(Unfit::Batch);
        }
        self.last_batch = number;
        let oldest = self.before.front_mut().unwrap_or(&mut self.now);
        let rest = oldest.rows.keys().nth(BATCH_ROWS_MAX).cloned();
        let rest = rest.map(|first| oldest.rows.split_off(&first)).unwrap_or_default();
        self.out = Life { name: oldest.name, rows: std::mem::replace(&mut oldest.rows, rest) };
        if self.before.front().is_some_and(|life| life.rows.is_empty()) {
            self.before.pop_front();
        }
        Ok(())
    }

    /// The number of the batch that is out.
    pub(crate) fn batch_out(&self) -> Option<u64> {
        (!self.out.rows.is_empty()).then_some(self.last_batch)
    }

    /// The batch that is out.
    pub(crate) fn given(&self) -> Taken {
        match self.batch_out() {
            None => Taken::Nothing,
            Some(number) => {
                let rows = self.out.rows.iter().map(|(key, amounts)| key.with(*amounts)).collect();
                Taken::Batch(Batch { journal: self.out.name, number, rows })
            }
        }
    }

    /// The batch is stored: its rows are forgotten.
    pub(crate) fn confirm(&mut self, number: u64) -> Result<(), Unfit> {
        if self.batch_out() != Some(number) {
            return Err(Unfit::Batch);
        }
        if !seeded(Fault::BatchTwice) {
            self.out.rows.clear();
        }
        Ok(())
    }

    /// The number of the last batch, for a checkpoint.
    pub(crate) const fn last_batch(&self) -> u64 {
        self.last_batch
    }

    /// The name of each life, and its rows and where they are, for a checkpoint; the last is the one that counts.
    pub(crate) fn lives(&self) -> impl Iterator<Item = (Uuid, impl Iterator<Item = (Place, UsageRow)>)> {
        let out = [(Place::Out, &self.out)].into_iter().filter(|(_, life)| !life.rows.is_empty());
        let waiting = self.before.iter().chain([&self.now]).map(|life| (Place::Pending, life));
        out.chain(waiting).map(|(place, life)| {
            (life.name, life.rows.iter().map(move |(key, amounts)| (place, key.with(*amounts))))
        })
    }

    /// A row of the life that began last, from a checkpoint.
    pub(crate) fn restore(&mut self, place: Place, row: &UsageRow) -> Result<(), Unfit> {
        let rows = match place {
            Place::Pending => &mut self.now.rows,
            Place::Out => {
                self.out.name = self.now.name;
                &mut self.out.rows
            }
        };
        match rows.insert(RowKey::of_row(row), row.amounts) {
            None => Ok(()),
            Some(_) => Err(Unfit::SumTwice),
        }
    }
}

/// Where a row is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// In no batch yet.
    Pending,
    /// In the batch that is out.
    Out,
}
