//! Takes pages back for a sequence that waits: first what its own tenant has cached, then what is lent to others, then, where
//! its tenant has less than its right, the sequences of those who have more than theirs. Never from within a floor (I13).
//!
//! A tenant's *right* is its floor, and its share of the burst while it has sequences. What it holds beyond is *lent*: it was
//! free, and is given back when somebody wants it.

use crate::{
    core::{
        Engine, Preemption,
        room::{Turn, minus},
        sequence::{Preempted, Running},
    },
    device::Device,
};
use isolation::{tag::TenantTag, units::Pages};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use wire::RequestId;

/// How often one sequence is preempted for pages at most: each time, all that it computed is computed again.
const PREEMPTIONS_MAX: u32 = 4;

impl<D: Device> Engine<D> {
    /// Takes a running sequence's pages back. It waits again, before the others of its tenant, and goes on where it was with the
    /// same bits. Returns whether there was such a sequence, and one that has room to come back to.
    pub fn preempt(&mut self, request: RequestId) -> bool {
        let is_it = |running: &Running| running.request() == request && self.can_come_back(running);
        let Some(place) = self.running.iter().position(is_it) else { return false };
        self.put_back(place, |preempted, _| preempted.for_pages = preempted.for_pages.saturating_add(1));
        true
    }

    /// Puts a running sequence before the others of its tenant that wait; `count`, which is told its length, counts what it was for.
    pub(super) fn put_back(&mut self, place: usize, count: impl FnOnce(&mut Preempted, usize)) {
        let running = self.running.remove(place);
        let mut preempted = running.preempted();
        count(&mut preempted, running.length());
        self.preempted = self.preempted.saturating_add(1);
        self.queue.push_front(running.preempt(preempted));
    }

    fn may_go(&self, running: &Running) -> bool {
        running.preempted().for_pages < PREEMPTIONS_MAX && self.can_come_back(running)
    }

    /// What runs may be more than a pool that shrank would admit now.
    pub(super) fn can_come_back(&self, running: &Running) -> bool {
        running.total() <= self.limits.narrowed(self.pool.reach(running.tag())).window()
    }

    /// Lets go of prefixes beyond their share, and of those that a smaller pool has no room for.
    pub(super) fn trim(&mut self) {
        let owed = self.pool.owed();
        let excess = self.prefixes.excess().max(owed);
        if excess > Pages::ZERO {
            let gone = self.take_cached(excess, None, Depth::Lent);
            self.take_cached(minus(excess, gone), None, Depth::Spare);
        }
    }

    /// Tries to make `wanted` pages grantable to the tenant.
    pub(super) fn reclaim(&mut self, tag: TenantTag, turn: Turn, wanted: Pages) {
        let mut missing = self.missing(tag, wanted);
        if missing == Pages::ZERO {
            return;
        }
        missing = minus(missing, self.prefixes.evict_of(tag, missing));
        missing = minus(missing, self.take_cached(missing, Some(tag), Depth::Lent));
        if turn == Turn::First {
            missing = minus(missing, self.take_cached(missing, Some(tag), Depth::Spare));
        }
        let is_right = wanted <= self.room_at(tag, Turn::Right);
        if missing > Pages::ZERO && is_right && self.config.preemption == Preemption::On {
            self.preempt_for(tag, missing);
        }
    }

    /// Pages that the tenant may have beside those that it holds, at most.
    pub(super) fn room_at(&self, tag: TenantTag, turn: Turn) -> Pages {
        let most = match turn {
            Turn::First => return Pages::new(u32::MAX),
            Turn::Right => self.pool.entitled(tag, self.active().into_iter()),
            Turn::Floor => self.pool.quota(tag).floor(),
        };
        minus(most, self.pool.held(tag))
    }

    /// Whether `wanted` more pages are over the tenant's own cap.
    pub(super) fn is_capped(&self, tag: TenantTag, wanted: Pages) -> bool {
        wanted > minus(self.pool.quota(tag).cap(), self.pool.held(tag))
    }

    /// Pages to be taken back before `wanted` can be granted; those that wait for a wipe are as good as clean.
    fn missing(&mut self, tag: TenantTag, wanted: Pages) -> Pages {
        let census = self.pool.census();
        let free = census.clean.checked_add(census.dirty).unwrap_or(census.clean);
        minus(wanted, free.min(self.pool.room(tag)))
    }

    /// Takes up to `wanted` cached pages, most from whom most may be taken.
    fn take_cached(&mut self, wanted: Pages, except: Option<TenantTag>, depth: Depth) -> Pages {
        if wanted == Pages::ZERO {
            return Pages::ZERO;
        }
        let active = self.active();
        let mut from: Vec<(Reverse<Pages>, TenantTag)> = self
            .prefixes
            .tenants()
            .filter(|tag| Some(*tag) != except)
            .map(|tag| (Reverse(self.takeable(tag, &active, depth)), tag))
            .collect();
        from.sort_unstable();
        let mut gone = Pages::ZERO;
        for (Reverse(most), tag) in from {
            let taken = self.prefixes.evict_of(tag, minus(wanted, gone).min(most));
            gone = gone.checked_add(taken).unwrap_or(wanted);
        }
        gone
    }

    fn takeable(&self, tag: TenantTag, active: &BTreeSet<TenantTag>, depth: Depth) -> Pages {
        let spare = self.pool.spare(tag);
        match depth {
            Depth::Lent if active.contains(&tag) => {
                let right = self.pool.entitled(tag, active.iter().copied());
                spare.min(minus(self.pool.held(tag), right))
            }
            Depth::Lent | Depth::Spare => spare,
        }
    }

    /// Preempts the newest sequences of those who have most beyond their right, if that gives `missing` pages; else none.
    fn preempt_for(&mut self, tag: TenantTag, missing: Pages) {
        let active = self.active();
        let mut lent: BTreeMap<TenantTag, Pages> =
            active.iter().map(|tag| (*tag, self.takeable(*tag, &active, Depth::Lent))).collect();
        let mut spare: BTreeMap<TenantTag, Pages> =
            active.iter().map(|tag| (*tag, self.pool.spare(*tag))).collect();
        let mut order: Vec<(Reverse<Pages>, Reverse<usize>)> = Vec::new();
        for (place, running) in self.running.iter().enumerate() {
            if running.tag() != tag && self.may_go(running) {
                let lent = lent.get(&running.tag()).copied().unwrap_or(Pages::ZERO);
                order.push((Reverse(lent), Reverse(place)));
            }
        }
        order.sort_unstable();
        let (mut chosen, mut freed) = (Vec::new(), Pages::ZERO);
        for (_, Reverse(place)) in order {
            let Some(running) = self.running.get(place).filter(|_| freed < missing) else { continue };
            let (victim, pages) = (running.tag(), running.own_pages());
            let (Some(lent), Some(spare)) = (lent.get_mut(&victim), spare.get_mut(&victim)) else { continue };
            if *lent > Pages::ZERO && *spare >= pages {
                (*lent, *spare) = (minus(*lent, pages), minus(*spare, pages));
                freed = freed.checked_add(pages).unwrap_or(freed);
                chosen.push(running.request());
            }
        }
        if freed >= missing {
            tracing::debug!(sequences = chosen.len(), pages = freed.get(), "sequences are preempted");
            for request in chosen {
                self.preempt(request);
            }
        }
    }

    /// Who has sequences, running or waiting.
    fn active(&self) -> BTreeSet<TenantTag> {
        let running = self.running.iter().map(Running::tag);
        running.chain(self.queue.turns()).collect()
    }
}

/// How far pages may be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Depth {
    /// What a tenant holds beyond its right.
    Lent,
    /// All above its floor.
    Spare,
}
