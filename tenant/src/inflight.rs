//! Requests in flight, by key.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use crate::directory::Principal;
use crate::key::KeyId;

/// Counts each key's requests in flight. A clone is another handle on the same counts.
///
/// # Invariants
/// A key stands in the map exactly while it has a request in flight: the map is bounded by the connections
/// that are open.
#[derive(Clone, Default)]
pub struct Inflight {
    counts: Arc<DashMap<KeyId, usize>>,
}

/// The key has as many requests in flight as it may.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this key has {limit} requests in flight, and that is the most it may")]
pub struct TooMany {
    /// Requests that it may have.
    pub limit: usize,
}

/// One request in flight; it ends when this is dropped, however that comes.
#[must_use = "the request is in flight only while this lives"]
pub struct Guard {
    counts: Arc<DashMap<KeyId, usize>>,
    key: KeyId,
}

impl Inflight {
    /// Counts nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a request; `per_key` is the policy's `concurrency_per_key`, for keys that name no limit of
    /// their own.
    ///
    /// # Errors
    /// [`TooMany`]; nothing is counted then.
    pub fn enter(&self, principal: &Principal, per_key: usize) -> Result<Guard, TooMany> {
        let limit = principal.limits.concurrency.limit(per_key);
        // The entry holds its shard's lock: the count cannot move between the look and the step.
        match self.counts.entry(principal.key) {
            Entry::Occupied(count) if *count.get() >= limit => return Err(TooMany { limit }),
            Entry::Vacant(_) if limit == 0 => return Err(TooMany { limit }),
            Entry::Occupied(mut count) => {
                let more = count.get().saturating_add(1);
                count.insert(more);
            }
            Entry::Vacant(place) => drop(place.insert(1)),
        }
        Ok(Guard { counts: Arc::clone(&self.counts), key: principal.key })
    }

    /// Requests that `key` has in flight.
    pub fn of(&self, key: KeyId) -> usize {
        self.counts.get(&key).map_or(0, |count| *count)
    }

    /// Keys that have a request in flight.
    pub fn keys(&self) -> usize {
        self.counts.len()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.counts.entry(self.key) {
            match count.get().saturating_sub(1) {
                0 => drop(count.remove()),
                rest => drop(count.insert(rest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use policies::WindowCap;

    use super::*;
    use crate::limits::{Concurrency, KeyLimits};

    fn principal(key: &str, concurrency: Concurrency) -> Principal {
        let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency };
        Principal::of(KeyId::parse(key).unwrap(), limits)
    }

    #[test]
    fn the_limit_is_exact_and_the_map_holds_only_what_runs() {
        let inflight = Inflight::new();
        let a = principal("aaaaaaaaaaaa", Concurrency::Inherit);
        let b = principal("bbbbbbbbbbbb", Concurrency::AtMost(NonZeroU32::new(1).unwrap()));
        let first = inflight.enter(&a, 2).unwrap();
        let second = inflight.enter(&a, 2).unwrap();
        assert_eq!(inflight.enter(&a, 2).err(), Some(TooMany { limit: 2 }));
        let other = inflight.enter(&b, 2).unwrap();
        assert_eq!(
            inflight.enter(&b, 2).err(),
            Some(TooMany { limit: 1 }),
            "its own limit, not the policy's"
        );
        assert_eq!((inflight.of(a.key), inflight.of(b.key), inflight.keys()), (2, 1, 2));
        drop(first);
        let third = inflight.enter(&a, 2).unwrap();
        drop((second, third, other));
        assert_eq!((inflight.of(a.key), inflight.keys()), (0, 0));
        assert_eq!(inflight.enter(&a, 0).err(), Some(TooMany { limit: 0 }));
        assert_eq!(inflight.keys(), 0, "a refusal leaves nothing behind");
    }

    #[test]
    fn eight_threads_never_pass_the_limit() {
        let inflight = Inflight::new();
        let a = principal("aaaaaaaaaaaa", Concurrency::Inherit);
        let running = std::sync::atomic::AtomicUsize::new(0);
        let most = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let Ok(guard) = inflight.enter(&a, 3) else { continue };
                        let now = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                        most.fetch_max(now, std::sync::atomic::Ordering::SeqCst);
                        std::thread::yield_now();
                        running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(guard);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((1..=3).contains(&most), "{most}");
        assert_eq!(inflight.keys(), 0);
    }
}
