//! The order of tokens by value, highest first, the lower id first among equals; sorted only as far as somebody looks.

use std::cmp::Ordering;

/// Ranks sorted when somebody first looks.
const FIRST_BLOCK: usize = 64;

/// One token's place in the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    value: f64,
    id: u32,
}

impl Place {
    pub(super) fn id(self) -> u32 {
        self.id
    }

    /// Whether `id` ranks here or before.
    pub(super) fn keeps(self, id: u32, values: &[f64]) -> bool {
        let value = values.get(index(id)).copied().unwrap_or(f64::NEG_INFINITY);
        order(value, id, self.value, self.id) != Ordering::Greater
    }
}

/// A ranking that is sorted block by block, each three times what came before: linear for a look at the first few.
pub(super) struct Ranking<'a> {
    values: &'a [f64],
    ids: &'a mut Vec<u32>,
    sorted: usize,
}

impl<'a> Ranking<'a> {
    pub(super) fn new(values: &'a [f64], ids: &'a mut Vec<u32>) -> Self {
        ids.clear();
        ids.extend((0..).zip(values).map(|(id, _): (u32, _)| id));
        Self { values, ids, sorted: 0 }
    }

    /// The token at `rank`, counted from 0.
    pub(super) fn nth(&mut self, rank: usize) -> Option<Place> {
        while self.sorted <= rank && self.sorted < self.ids.len() {
            self.extend();
        }
        let id = *self.ids.get(rank)?;
        Some(Place { value: *self.values.get(index(id))?, id })
    }

    fn extend(&mut self) {
        let values = self.values;
        let by_rank = |a: &u32, b: &u32| {
            let value = |id: u32| values.get(index(id)).copied().unwrap_or(f64::NEG_INFINITY);
            order(value(*a), *a, value(*b), *b)
        };
        let Some(rest) = self.ids.get_mut(self.sorted..) else { return };
        let block = self.sorted.saturating_mul(3).max(FIRST_BLOCK).min(rest.len());
        if block < rest.len() {
            rest.select_nth_unstable_by(block, by_rank);
        }
        if let Some(head) = rest.get_mut(..block) {
            head.sort_unstable_by(by_rank);
        }
        self.sorted = self.sorted.saturating_add(block);
    }
}

/// The first in rank.
pub(super) fn likeliest(values: &[f64]) -> Option<u32> {
    let mut best: Option<(u32, f64)> = None;
    for (id, &value) in (0..).zip(values) {
        if best.is_none_or(|(_, most)| value > most) {
            best = Some((id, value));
        }
    }
    best.map(|(id, _)| id)
}

fn order(value: f64, id: u32, other_value: f64, other_id: u32) -> Ordering {
    other_value.total_cmp(&value).then(id.cmp(&other_id))
}

fn index(id: u32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}
