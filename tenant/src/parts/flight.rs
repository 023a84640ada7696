//! One exchange with the store for a tenant: lowered here first, asked, and taken over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::ledger::{BudgetRefusal, Journalled, LedgerError, Part, Shared, Slice, Spent};
use crate::parts::desk::{Outcome, Standing};
use crate::parts::{EXCHANGE_MAX, House};
use crate::store::parts::{Base, Grow, PartAnswer, PartAsk, PartTold};
use crate::store::{PART_GATEWAYS_MAX, TenantId};

/// Exchanges of one flight: the first, one after an older count was forgotten, one with its row's version, one after what was used
/// before was summed up, and two more where a budget changes meanwhile.
const ROUNDS_MAX: usize = 6;

/// How often who waits for all flights to end looks.
pub(super) const LANDING_LOOK: Duration = Duration::from_millis(5);

/// What should become of a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Wish {
    pub(crate) act: Act,
    /// The hard budget's limit, where it is known.
    pub(crate) limit: Option<u64>,
    /// Whether what is not used is given back, also where a request waits for more: it takes its turn behind those that wait elsewhere.
    pub(crate) gives_back: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Act {
    /// The store is told how it stands.
    Tell,
    /// It becomes larger.
    Grow(Grow),
    /// What is not used of it is given back.
    GiveBack,
    /// Its key ended: the store is told how much was spent of it, and then it is forgotten.
    LetGo,
}

impl Wish {
    pub(crate) const fn need(need: u64, limit: u64) -> Self {
        Self { limit: Some(limit), ..Self::of(Act::Grow(Grow::For { one: need, all: need })) }
    }

    pub(crate) const fn as_may_be(limit: Option<u64>) -> Self {
        Self { limit, ..Self::of(Act::Grow(Grow::AsMayBe)) }
    }

    pub(crate) const fn of(act: Act) -> Self {
        Self { act, limit: None, gives_back: matches!(act, Act::GiveBack) }
    }

    /// Both: what ends a part goes before all, and what a request waits for before the rest; what others wait for is given back with
    /// either. The later limit is the newer one.
    pub(crate) fn and(self, later: Self) -> Self {
        use Act::{GiveBack, Grow as Grows, LetGo, Tell};
        use Grow::For;
        let act = match (self.act, later.act) {
            (LetGo, _) | (_, LetGo) => LetGo,
            (Grows(For { one, all }), Grows(For { one: other, all: more })) => {
                Grows(For { one: one.min(other), all: all.saturating_add(more) })
            }
            (grows @ Grows(For { .. }), _) | (_, grows @ Grows(For { .. })) => grows,
            (GiveBack, _) | (_, GiveBack) => GiveBack,
            (grows @ Grows(_), _) | (_, grows @ Grows(_)) => grows,
            (Tell, Tell) => Tell,
        };
        let gives_back = self.gives_back || later.gives_back;
        Self { act, limit: later.limit.or(self.limit), gives_back }
    }

    /// Whether what is not used of a part is given back for it: also of one that was handed out under a higher limit, which is then
    /// asked for under the one that now is.
    fn lowers(self, part: Part) -> bool {
        let is_given_back = self.gives_back || self.act == Act::LetGo;
        part.epoch != 0 && (is_given_back || self.limit.is_some_and(|limit| limit < part.seen))
    }

    const fn grow(self) -> Grow {
        match self.act {
            Act::Grow(grow) => grow,
            Act::Tell | Act::GiveBack | Act::LetGo => Grow::Not,
        }
    }
}

/// Why a flight came to nothing. What it lowered stays lowered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Grounded {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Books(#[from] BudgetRefusal),
    #[error("the budgets changed while they were asked for")]
    Unsettled,
}

/// Flies until nothing waits for the tenant.
pub(super) async fn fly(house: Arc<House>, tenant: TenantId) {
    loop {
        // Looked at apart, so that the lock is not held while it flies.
        let load = house.desk().load(tenant);
        let Some(load) = load else { return };
        let outcome = match exchange(&house, tenant, &load.wishes).await {
            Ok(grown) => Outcome::Answered { grown },
            Err(error) => {
                if !house.counts.is_away.swap(true, Ordering::Relaxed) {
                    tracing::error!(%error, "parts of budgets cannot be asked for; what is held is spent, and then requests are refused");
                }
                Outcome::Failed
            }
        };
        for answer in load.answers {
            // Who does not wait any more has lost nothing.
            answer.send(outcome).unwrap_or_default();
        }
    }
}

/// Whether a part has become larger.
async fn exchange(house: &House, tenant: TenantId, wishes: &BTreeMap<Slice, Wish>) -> Result<bool, Grounded> {
    // To lower a row takes its version, which is not known after a start, and where an answer was lost.
    let blind = |slice: &Slice, wish: Wish| {
        let part = house.ledger.shared().held(tenant, slice).part;
        wish.lowers(part) && !house.desk().has_version(tenant, slice)
    };
    let blind = wishes.iter().filter(|(slice, wish)| blind(slice, **wish));
    let blind: BTreeMap<_, _> = blind.map(|(slice, _)| (slice.clone(), Wish::of(Act::Tell))).collect();
    if !blind.is_empty() {
        settle(house, tenant, &blind).await?;
    }
    settle(house, tenant, wishes).await
}

/// Exchanges until all is answered.
async fn settle(house: &House, tenant: TenantId, wishes: &BTreeMap<Slice, Wish>) -> Result<bool, Grounded> {
    let mut grown = false;
    let mut open = prepare(house.ledger.shared(), tenant, wishes).await?;
    for _ in 0..ROUNDS_MAX {
        for ask in &mut open {
            ask.version = house.desk().take_version(tenant, &ask.slice).or(ask.version);
        }
        let answers = asked(house, &open).await?;
        let mut again = Vec::new();
        for (ask, answer) in open.into_iter().zip(answers) {
            let wish = wishes.get(&ask.slice).copied().unwrap_or(Wish::of(Act::Tell));
            let (is_grown, more) = met(house, tenant, (ask, wish), answer).await?;
            grown |= is_grown;
            again.extend(more);
        }
        if again.is_empty() {
            return Ok(grown);
        }
        open = again;
    }
    Err(Grounded::Unsettled)
}

async fn asked(house: &House, asks: &[PartAsk]) -> Result<Vec<PartAnswer>, Grounded> {
    let _turn = house.exchanges.acquire().await;
    house.store.prepare().await?;
    let answers = house.store.exchange_parts(&house.gateway, asks, EXCHANGE_MAX).await?;
    house.counts.exchanges.fetch_add(1, Ordering::Relaxed);
    if house.counts.is_away.swap(false, Ordering::Relaxed) {
        tracing::info!("parts of budgets are handed out again");
    }
    Ok(answers)
}

/// Does what an answer asks for: says whether the part has become larger, and what to ask once more.
async fn met(
    house: &House,
    tenant: TenantId,
    (ask, wish): (PartAsk, Wish),
    answer: PartAnswer,
) -> Result<(bool, Option<PartAsk>), Grounded> {
    let shared = house.ledger.shared();
    match answer {
        PartAnswer::Told(told) => {
            let grown = take_over(shared, tenant, (&ask, wish), &told)?;
            note(house, tenant, (&ask, wish), &told);
            if wish.act == Act::LetGo {
                shared.let_go(tenant, &ask.slice, told.noted)?;
            }
            Ok((grown, None))
        }
        PartAnswer::Stale => {
            // Forgotten on disk before the store is told that nothing is held.
            drop(shared.forget(tenant, &ask.slice)?);
            let again = ask_of(shared, tenant, &ask.slice, wish);
            shared.sync()?.await?;
            Ok((false, Some(again)))
        }
        PartAnswer::Blind { version } => Ok((false, Some(PartAsk { version: Some(version), ..ask }))),
        PartAnswer::BaseUnknown { epoch } => {
            let _turn = house.sums.acquire().await;
            let base = Some(Base { epoch, used: house.store.used_before(&ask.slice).await? });
            Ok((false, Some(PartAsk { base, ..ask })))
        }
        PartAnswer::Lifted => {
            shared.let_go(tenant, &ask.slice, ask.spent)?;
            Ok((false, None))
        }
        PartAnswer::Crowded => {
            tracing::error!(level = %ask.slice.line.level, allowed = PART_GATEWAYS_MAX, "as many gateways hold parts of a budget as may: it gets none here");
            Ok((false, None))
        }
    }
}

fn note(house: &House, tenant: TenantId, (ask, wish): (&PartAsk, Wish), told: &PartTold) {
    let standing = Standing { spent: told.noted, used: ask.used };
    let is_grown = told.amount > ask.held;
    let is_grant = is_grown && matches!(ask.grow, Grow::For { .. });
    house.counts.grown.fetch_add(u64::from(is_grown), Ordering::Relaxed);
    let gave = wish.gives_back;
    house.counts.given_back.fetch_add(u64::from(gave), Ordering::Relaxed);
    house.desk().answered((tenant, &ask.slice), told.version, (standing, wish.limit), (is_grown, is_grant));
}

/// Lowers here what is to be, waits until that is on disk, and says what to ask.
async fn prepare(
    shared: &Shared,
    tenant: TenantId,
    wishes: &BTreeMap<Slice, Wish>,
) -> Result<Vec<PartAsk>, Grounded> {
    let (tickets, asks) = begin(shared, tenant, wishes)?;
    for ticket in tickets {
        ticket.await?;
    }
    Ok(asks)
}

/// The same without the wait: the store must not be told before all tickets have resolved.
pub(crate) fn begin(
    shared: &Shared,
    tenant: TenantId,
    wishes: &BTreeMap<Slice, Wish>,
) -> Result<(Vec<Journalled>, Vec<PartAsk>), BudgetRefusal> {
    let (mut tickets, mut asks) = (Vec::new(), Vec::new());
    for (slice, wish) in wishes {
        let part = shared.held(tenant, slice).part;
        if wish.lowers(part) {
            tickets.extend(shared.lower(tenant, slice)?);
        }
        asks.push(ask_of(shared, tenant, slice, *wish));
    }
    tickets.push(shared.sync()?);
    if seeded(Fault::GivenBackEarly) {
        tickets.clear();
    }
    Ok((tickets, asks))
}

pub(crate) fn ask_of(shared: &Shared, tenant: TenantId, slice: &Slice, wish: Wish) -> PartAsk {
    let sum = shared.held(tenant, slice);
    PartAsk {
        slice: slice.clone(),
        epoch: sum.part.epoch,
        // What ran when an older count was forgotten, and what it has spent since, counts though nothing is held for it.
        held: sum.part.amount.max(sum.used()),
        version: None,
        spent: sum.spent,
        used: sum.used(),
        grow: wish.grow(),
        limit: wish.limit,
        base: None,
    }
}

/// Takes over how a part stands; says whether it has become larger.
pub(crate) fn take_over(
    shared: &Shared,
    tenant: TenantId,
    (ask, wish): (&PartAsk, Wish),
    told: &PartTold,
) -> Result<bool, BudgetRefusal> {
    let before = shared.held(tenant, &ask.slice).part;
    let PartTold { epoch, amount, limit, spent, spent_elsewhere, .. } = *told;
    let amount = if seeded(Fault::GrantAdded) { before.amount.saturating_add(amount) } else { amount };
    let seen = match limit {
        _ if seeded(Fault::LimitUnheard) => wish.limit.unwrap_or(before.seen),
        Some(limit) => limit,
        // Others hold more than fits: what was held before is held as it was, and what came since does not count under any limit.
        None if epoch == before.epoch && amount <= before.amount => before.seen,
        None => u64::MAX,
    };
    let part = Part { epoch, amount, seen, spent_elsewhere };
    if part != before || spent != ask.spent {
        shared.share(tenant, &ask.slice, part, Spent { told: spent, counted: ask.spent })?;
    }
    Ok(amount > ask.held)
}
