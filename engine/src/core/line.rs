//! The line of those that wait, which has an end: when it is full, a tenant with much in it makes way for one with less (P8).

use crate::{
    core::{Engine, sequence::Running},
    device::Device,
    fault::{Fault, seeded},
};
use isolation::tag::TenantTag;
use std::collections::BTreeMap;
use wire::Refusal;

impl<D: Device> Engine<D> {
    /// Whether there is room for another sequence of a tenant: free, or taken from the tenant that has most, running and waiting
    /// together, if that is at least two more than this one has. Its newest is refused that waits and of which nothing was
    /// answered yet; so all get to have as much, if they ask for it, and none is refused for one that has more.
    pub(super) fn has_room_in_line(&mut self, tag: TenantTag, full: Refusal) -> bool {
        if self.sequences() < self.config.sequences_total() {
            return true;
        }
        if seeded(Fault::LineUnshared) {
            return false;
        }
        let mut held: BTreeMap<TenantTag, usize> = BTreeMap::new();
        for tag in self.running.iter().map(Running::tag).chain(self.queue.tags()) {
            let count = held.entry(tag).or_default();
            *count = count.saturating_add(1);
        }
        let own = held.get(&tag).copied().unwrap_or(0);
        let mut larger: Vec<(usize, TenantTag)> = held
            .into_iter()
            .filter(|(_, count)| *count > own.saturating_add(1))
            .map(|(tag, count)| (count, tag))
            .collect();
        larger.sort_unstable();
        let fresh = larger.into_iter().rev().find_map(|(_, tag)| self.queue.take_newest_fresh(tag));
        let Some(waiting) = fresh else { return false };
        self.outbox.push(waiting.turn_away(full));
        true
    }
}
