//! Who waits for what, and what is known of each part beside the ledger. In memory: lost, it is asked for anew.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::ledger::{SUMS_MAX, Slice, Sum};
use crate::parts::ANSWER_FRESH;
use crate::parts::flight::Wish;
use crate::store::TenantId;

/// Requests and wishes that may wait for the store.
const WAITING_MAX: usize = 65_536;
/// Parts that one exchange is about.
pub(super) const EXCHANGE_PARTS_MAX: usize = 64;
/// For how long a part is not given back to others after it was asked for by a request, which is about to use it.
const GRANT_KEPT: Duration = Duration::from_millis(300);

/// What an exchange came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The store has answered; whether a part has become larger.
    Answered { grown: bool },
    /// It has not, or the ledger could not take it over.
    Failed,
}

/// What one request asks.
struct Call {
    wishes: Vec<(Slice, Wish)>,
    answer: oneshot::Sender<Outcome>,
}

/// What is asked for a tenant. There while a flight is under way.
#[derive(Default)]
struct Tray {
    calls: VecDeque<Call>,
    wishes: BTreeMap<Slice, Wish>,
}

/// What is known of a part.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Its row's in the store, as the last answer said; none while one is under way or was lost.
    pub(super) version: Option<i64>,
    /// What the store was told last.
    pub(super) told: Standing,
    pub(super) answered: Instant,
    /// Under which limit.
    limit: Option<u64>,
    /// Whether it became larger then.
    is_grown: bool,
    /// When a request had it made larger.
    granted: Option<Instant>,
    /// How it was when it was looked at last, and since when.
    seen: (Standing, Instant),
}

/// What a part is compared by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Standing {
    pub(super) spent: u64,
    pub(super) used: u64,
}

impl Standing {
    pub(super) const fn of(sum: &Sum) -> Self {
        Self { spent: sum.spent, used: sum.used() }
    }
}

#[derive(Default)]
pub(super) struct Desk {
    trays: HashMap<TenantId, Tray>,
    waiting: usize,
    known: HashMap<TenantId, HashMap<Slice, Known>>,
    /// Of all tenants.
    parts: usize,
}

/// What a flight is about, and who hears of it.
#[derive(Default)]
pub(super) struct Load {
    pub(super) wishes: BTreeMap<Slice, Wish>,
    pub(super) answers: Vec<oneshot::Sender<Outcome>>,
}

impl Desk {
    /// Has a request wait for all of `wishes`; the second says whether there is no flight under way that will see to it. None when as
    /// many wait as may.
    pub(super) fn wait(
        &mut self,
        tenant: TenantId,
        wishes: Vec<(Slice, Wish)>,
    ) -> Option<(oneshot::Receiver<Outcome>, bool)> {
        self.take_place()?;
        let is_first = !self.trays.contains_key(&tenant);
        let (answer, answered) = oneshot::channel();
        self.trays.entry(tenant).or_default().calls.push_back(Call { wishes, answer });
        Some((answered, is_first))
    }

    /// Notes what should be done; says whether there is no flight under way that will see to it. Forgotten when too much waits: what
    /// nobody waits for is wished again.
    pub(super) fn wish(&mut self, tenant: TenantId, slice: Slice, wish: Wish) -> bool {
        let is_noted = self.trays.get(&tenant).is_some_and(|tray| tray.wishes.contains_key(&slice));
        if !is_noted && self.take_place().is_none() {
            return false;
        }
        let is_first = !self.trays.contains_key(&tenant);
        let tray = self.trays.entry(tenant).or_default();
        let wish = tray.wishes.get(&slice).map_or(wish, |before| before.and(wish));
        tray.wishes.insert(slice, wish);
        is_first
    }

    fn take_place(&mut self) -> Option<()> {
        self.waiting = self.waiting.checked_add(1).filter(|waiting| *waiting <= WAITING_MAX)?;
        Some(())
    }

    /// What the next flight of a tenant is about; none, and no flight under way any more, when nothing waits.
    pub(super) fn load(&mut self, tenant: TenantId) -> Option<Load> {
        let tray = self.trays.get_mut(&tenant)?;
        let mut load = Load::default();
        let mut taken = 0_usize;
        while load.wishes.len() < EXCHANGE_PARTS_MAX {
            let Some(Call { wishes, answer }) = tray.calls.pop_front() else { break };
            taken = taken.saturating_add(1);
            // Who has left is asked for no more.
            if answer.is_closed() {
                continue;
            }
            for (slice, wish) in wishes {
                let wish = load.wishes.get(&slice).map_or(wish, |before| before.and(wish));
                load.wishes.insert(slice, wish);
            }
            load.answers.push(answer);
        }
        while load.wishes.len() < EXCHANGE_PARTS_MAX {
            let Some((slice, wish)) = tray.wishes.pop_first() else { break };
            taken = taken.saturating_add(1);
            let wish = load.wishes.get(&slice).map_or(wish, |before| before.and(wish));
            load.wishes.insert(slice, wish);
        }
        if load.wishes.is_empty() {
            self.trays.remove(&tenant);
        }
        self.waiting = self.waiting.saturating_sub(taken);
        (!load.wishes.is_empty()).then_some(load)
    }

    /// Whether something is asked for this tenant.
    pub(super) fn is_flying(&self, tenant: TenantId) -> bool {
        self.trays.contains_key(&tenant)
    }

    /// Parts of which something is known.
    pub(super) fn known(&self) -> usize {
        self.parts
    }

    fn of(&self, tenant: TenantId, slice: &Slice) -> Option<&Known> {
        self.known.get(&tenant)?.get(slice)
    }

    fn of_mut(&mut self, tenant: TenantId, slice: &Slice) -> Option<&mut Known> {
        self.known.get_mut(&tenant)?.get_mut(slice)
    }

    /// Whether the store said just now how a budget stands under this limit.
    pub(super) fn is_fresh(&self, tenant: TenantId, slice: &Slice, limit: Option<u64>) -> bool {
        self.of(tenant, slice)
            .is_some_and(|known| known.limit == limit && known.answered.elapsed() < ANSWER_FRESH)
    }

    /// Whether the store gave nothing of a budget just now.
    pub(super) fn is_refused(&self, tenant: TenantId, slice: &Slice) -> bool {
        let known = self.of(tenant, slice);
        known.is_some_and(|known| !known.is_grown && known.answered.elapsed() < ANSWER_FRESH)
    }

    /// Whether a request has just had it made larger.
    pub(super) fn is_just_granted(&self, tenant: TenantId, slice: &Slice) -> bool {
        let granted = self.of(tenant, slice).and_then(|known| known.granted);
        granted.is_some_and(|granted| granted.elapsed() < GRANT_KEPT)
    }

    /// Whether the version of a part's row is known.
    pub(super) fn has_version(&self, tenant: TenantId, slice: &Slice) -> bool {
        self.of(tenant, slice).is_some_and(|known| known.version.is_some())
    }

    /// The version of a part's row; with it an exchange may lower it. Not known from here on, until the answer is there.
    pub(super) fn take_version(&mut self, tenant: TenantId, slice: &Slice) -> Option<i64> {
        self.of_mut(tenant, slice)?.version.take()
    }

    /// Notes an answer; whether it is larger, and whether a request waited for that.
    pub(super) fn answered(
        &mut self,
        (tenant, slice): (TenantId, &Slice),
        version: i64,
        (told, limit): (Standing, Option<u64>),
        (is_grown, is_grant): (bool, bool),
    ) {
        let (before, now) = (self.of(tenant, slice).copied(), Instant::now());
        if before.is_none() && self.parts >= SUMS_MAX {
            // The ledger keeps no more sums either.
            return;
        }
        self.parts = self.parts.saturating_add(usize::from(before.is_none()));
        let granted = if is_grant { Some(now) } else { before.and_then(|known| known.granted) };
        let seen = before.map_or((told, now), |known| known.seen);
        let version = Some(version);
        let known = Known { version, told, answered: now, limit, is_grown, granted, seen };
        self.known.entry(tenant).or_default().insert(slice.clone(), known);
    }

    /// Looks at a part: since when it is as it is, and what is known of it.
    pub(super) fn look(
        &mut self,
        tenant: TenantId,
        slice: &Slice,
        now: Standing,
    ) -> Option<(Duration, Known)> {
        let known = self.of_mut(tenant, slice)?;
        if known.seen.0 != now {
            known.seen = (now, Instant::now());
        }
        Some((known.seen.1.elapsed(), *known))
    }

    /// Forgets all parts of a tenant but these.
    pub(super) fn keep(&mut self, tenant: TenantId, slices: &HashSet<&Slice>) {
        let Some(known) = self.known.get_mut(&tenant) else { return };
        let before = known.len();
        known.retain(|slice, _| slices.contains(slice));
        self.parts = self.parts.saturating_sub(before.saturating_sub(known.len()));
        if known.is_empty() {
            self.known.remove(&tenant);
        }
    }
}
