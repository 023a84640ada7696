//! Places among those that run, of which there are `sequences_max`. When all are taken, a tenant without any takes one from a tenant
//! with several (P8), if preemption is on. Whoever gives its place up waits again, before the others of its tenant, and goes on where
//! it was with the same bits. Its pages come free; what of them was within its tenant's floor stays reserved (I13).

use crate::{
    core::{
        Engine, Preemption,
        room::OVERTAKEN_MAX,
        sequence::{Preempted, Running},
    },
    device::Device,
    fault::{Fault, seeded},
};
use isolation::tag::TenantTag;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// How often one sequence gives its place up whatever its length: each time, all that it computed is computed again. After that it
/// does so when it has grown by a part of what it was the time before, so that what is computed again stays within a few times
/// what is computed once.
const DISPLACEMENTS_FREE: u32 = 4;
/// Which part: a quarter.
const GROWTH: usize = 4;

/// Whether there is a place for another sequence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Places {
    Free,
    /// All are taken, but who has none can have one.
    Shared,
    /// All are taken by those that keep them.
    Taken,
}

/// One that runs, as the choice of who gives its place up sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Seat {
    tag: TenantTag,
    /// How often it gave its place up; none for one that does not now.
    displaced: Option<u32>,
}

impl<D: Device> Engine<D> {
    pub(super) fn places(&self) -> Places {
        if !self.is_full() {
            Places::Free
        } else if self.who_gives().is_some() {
            Places::Shared
        } else {
            Places::Taken
        }
    }

    /// Whether a tenant's next may ask for pages.
    pub(super) fn may_enter(&self, tag: TenantTag, places: Places) -> bool {
        match places {
            Places::Free => true,
            Places::Shared => self.running.iter().all(|running| running.tag() != tag),
            Places::Taken => false,
        }
    }

    /// Sees to it that there is a place for one whose pages are granted. What gave its pages up for it may have made one already.
    pub(super) fn make_place(&mut self) -> bool {
        if !self.is_full() {
            return true;
        }
        let Some(place) = self.who_gives() else { return false };
        self.put_back(place, |preempted, length| {
            preempted.for_places = preempted.for_places.saturating_add(1);
            preempted.known = length;
        });
        true
    }

    /// The tenants that wait, in the order in which they are asked: whose turn it is first. Where there are no more free places than
    /// tenants without any, those come first: what is given to another would only be taken back. One that was overtaken often
    /// enough keeps its turn.
    pub(super) fn asked(&self) -> Vec<TenantTag> {
        let mut turns = self.queue.turns();
        let with_place: BTreeSet<TenantTag> = self.running.iter().map(Running::tag).collect();
        let without = turns.iter().filter(|tag| !with_place.contains(tag)).count();
        let places = usize::try_from(self.config.sequences_max).unwrap_or(usize::MAX);
        if places.saturating_sub(self.running.len()) <= without && !seeded(Fault::PlacesUnshared) {
            // A stable sort: each part keeps its order.
            turns.sort_by_key(|tag| with_place.contains(tag) && !self.is_overtaken(*tag));
        }
        turns
    }

    fn is_overtaken(&self, tag: TenantTag) -> bool {
        self.queue.head(tag).is_some_and(|head| head.overtaken() >= OVERTAKEN_MAX)
    }

    fn is_full(&self) -> bool {
        self.running.len() >= usize::try_from(self.config.sequences_max).unwrap_or(usize::MAX)
    }

    fn who_gives(&self) -> Option<usize> {
        if self.config.preemption == Preemption::Off || seeded(Fault::PlacesUnshared) {
            return None;
        }
        let seat = |running: &Running| {
            let may_go = may_give(running.preempted(), running.length()) && self.can_come_back(running);
            let displaced = Some(running.preempted().for_places).filter(|_| may_go);
            Seat { tag: running.tag(), displaced }
        };
        choose(&self.running.iter().map(seat).collect::<Vec<_>>())
    }
}

/// Whether a sequence of so many tokens gives its place up once more.
fn may_give(preempted: Preempted, length: usize) -> bool {
    let Preempted { for_places, known, .. } = preempted;
    let grown = known.checked_div(GROWTH).unwrap_or(0).max(1);
    for_places < DISPLACEMENTS_FREE || length >= known.saturating_add(grown)
}

/// Of the tenants with most places, two at least, that have one to give: the sequence that gave its place up least often, and of those
/// the newest. A tenant's oldest keeps its place, so that something of it comes to an end.
fn choose(seats: &[Seat]) -> Option<usize> {
    let mut places: BTreeMap<TenantTag, usize> = BTreeMap::new();
    let mut best = None;
    for seat in seats {
        let count = places.entry(seat.tag).or_default();
        *count = count.saturating_add(1);
    }
    let mut seen = BTreeSet::new();
    for (place, seat) in seats.iter().enumerate() {
        let is_oldest = seen.insert(seat.tag);
        let Some(displaced) = seat.displaced.filter(|_| !is_oldest) else { continue };
        let size = places.get(&seat.tag).copied().unwrap_or_default();
        best = best.max(Some((size, Reverse(displaced), place)));
    }
    best.map(|(_, _, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By tag, and how often each gave its place up; nine for one that does not now.
    fn seats(seats: &[(u64, u32)]) -> Vec<Seat> {
        let seat = |(tag, times): &(u64, u32)| Seat {
            tag: TenantTag::new(*tag),
            displaced: Some(*times).filter(|times| *times < 9),
        };
        seats.iter().map(seat).collect()
    }

    fn choice(all: &[(u64, u32)]) -> Option<usize> {
        choose(&seats(all))
    }

    #[test]
    fn the_newest_of_the_largest_tenant_gives_its_place_up() {
        assert_eq!(choice(&[(1, 0), (2, 0), (2, 0), (2, 0), (1, 0)]), Some(3));
    }

    #[test]
    fn of_one_tenant_it_is_who_did_so_least_often() {
        assert_eq!(choice(&[(1, 0), (1, 1), (1, 1), (1, 2)]), Some(2));
        assert_eq!(choice(&[(1, 0), (1, 1), (2, 0), (2, 2)]), Some(1), "also of two as large");
    }

    #[test]
    fn who_does_not_now_keeps_its_place() {
        assert_eq!(choice(&[(1, 0), (1, 9), (1, 9), (2, 0), (2, 3)]), Some(4));
        let mut all = seats(&[(1, 0), (1, 0), (1, 0), (2, 0), (2, 0)]);
        all[2].displaced = None;
        assert_eq!(choose(&all), Some(1));
        all[1].displaced = None;
        assert_eq!(choose(&all), Some(4));
        all[4].displaced = None;
        assert_eq!(choose(&all), None);
    }

    #[test]
    fn the_only_one_of_a_tenant_and_the_oldest_keep_theirs() {
        assert_eq!(choice(&[]), None);
        assert_eq!(choice(&[(1, 0), (2, 0), (3, 0)]), None);
        assert_eq!(choice(&[(1, 0), (1, 9), (2, 0)]), None);
    }

    #[test]
    fn after_four_times_it_has_to_grow_by_a_quarter() {
        let may = |for_places, known, length| may_give(Preempted { for_pages: 9, for_places, known }, length);
        assert!(may(0, 0, 5) && may(3, 100, 100));
        assert!(!may(4, 100, 124) && may(4, 100, 125) && may(90, 100, 125));
        assert!(!may(4, 3, 3) && may(4, 3, 4), "by one at least");
    }
}
