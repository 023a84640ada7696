//! How many of a thing there may be.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Places, some of them taken.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    limit: usize,
}

/// Places that are given back unless they are kept.
#[must_use = "the places are taken only while this lives, or once they are kept"]
pub(crate) struct Hold<'a> {
    room: &'a Room,
    places: usize,
}

impl Room {
    pub(crate) const fn new(taken: usize, limit: usize) -> Self {
        Self { taken: AtomicUsize::new(taken), limit }
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    /// Takes so many places, or none when there are not so many.
    pub(crate) fn take(&self, places: usize) -> Option<Hold<'_>> {
        self.take_within(places, self.limit)
    }

    /// As [`Room::take`], with another limit.
    pub(crate) fn take_within(&self, places: usize, limit: usize) -> Option<Hold<'_>> {
        let more = |taken: usize| taken.checked_add(places).filter(|taken| *taken <= limit);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Hold { room: self, places })
    }

    /// Gives places back.
    pub(crate) fn give(&self, places: usize) {
        let fewer = |taken: usize| Some(taken.saturating_sub(places));
        // It never refuses.
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).unwrap_or_default();
    }
}

impl Hold<'_> {
    /// Leaves the places taken.
    pub(crate) fn keep(mut self) {
        self.places = 0;
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.room.give(self.places);
    }
}
