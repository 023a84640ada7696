//! Who is calling: authentication against a snapshot of the store.
//!
//! The hot path takes no lock, awaits nothing and allocates nothing: one checksum, one look-up, one HMAC over
//! 55 bytes (two SHA-256 blocks beside the precomputed key states), one to two microseconds in all. The same
//! HMAC is computed for what is no key, for an id that does not exist and for a key that was revoked or has
//! expired; there is one error for all of them. What differs in time is the parsing of what is no key, which
//! its sender can do alone, and the look-up of an id that is there from one that is not: nanoseconds of
//! memory access, and ids are no secret.
//!
//! Architecture invariant: a store that fails changes nobody's answer; the snapshot grows old, and says how
//! old.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use isolation::tag::TenantTag;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::task::JoinHandle;

use crate::error::StoreError;
use crate::key::{ApiKey, KeyId};
use crate::limits::{Concurrency, Expiry, KeyLimits};
use crate::pepper::Pepper;
use crate::share::TenantShare;
use crate::store::{Entry, Snapshot, Store, TenantId};
use crate::time::UnixMillis;

/// Who called, and what they may take. Outside this crate only [`Directory::authenticate`] makes one.
///
/// ```compile_fail,E0639
/// fn forge(of: tenant::Principal) -> tenant::Principal {
///     tenant::Principal { tenant: of.tenant, key: of.key, tag: of.tag, limits: of.limits }
/// }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Principal {
    /// The tenant, outside the engine.
    pub tenant: TenantId,
    /// The key that was presented.
    pub key: KeyId,
    /// The tenant, inside the engine.
    pub tag: TenantTag,
    /// What the key may take.
    pub limits: KeyLimits,
}

/// The key is not one that works. Why is not said, to anybody.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the API key is not valid")]
pub struct NotAuthenticated;

/// All keys that work, as the store last said.
pub struct Directory {
    snapshot: ArcSwap<Snapshot>,
    pepper: Arc<Pepper>,
    /// Compared when nothing that could be compared was presented, so that the work is the same.
    stand_in: ApiKey,
    /// Found when nothing is found; its digest is random.
    nobody: Entry,
    confirmed: Mutex<Instant>,
    failures: AtomicU32,
    /// One refresh at a time: an older snapshot never replaces a newer one.
    refreshing: tokio::sync::Mutex<()>,
}

/// How well a directory follows its store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Health {
    /// Since the store last confirmed the snapshot.
    pub age: Duration,
    /// Refreshes that failed since then.
    pub failures: u32,
}

/// Keeps a directory fresh until it is dropped.
#[must_use = "the directory is followed only while this lives"]
pub struct Follower(JoinHandle<()>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Directory {
    /// Reads all keys of `store`.
    ///
    /// # Errors
    /// As the store reports: without a first snapshot there is nobody to let in.
    pub async fn open(store: &Store) -> Result<Self, StoreError> {
        let random = SystemRandom::new();
        let stand_in = ApiKey::generate(&random).map_err(|_| StoreError::NoRandomness)?;
        let mut digest = [0; 32];
        random.fill(&mut digest).map_err(|_| StoreError::NoRandomness)?;
        let nobody = Entry {
            tenant: TenantId(uuid::Uuid::nil()),
            tag: TenantTag::new(0),
            pepper_version: 0,
            digest,
            limits: KeyLimits { window_cap: policies::WindowCap::Inherit, concurrency: Concurrency::Inherit },
            expires: Expiry::Never,
        };
        let began = Instant::now();
        Ok(Self {
            snapshot: ArcSwap::from_pointee(store.snapshot().await?),
            pepper: store.pepper(),
            stand_in,
            nobody,
            confirmed: Mutex::new(began),
            failures: AtomicU32::new(0),
            refreshing: tokio::sync::Mutex::new(()),
        })
    }

    /// Says who presented this key. `presented` is the key alone, without `Bearer`; it is the caller's to
    /// wipe.
    ///
    /// # Errors
    /// [`NotAuthenticated`], after the same work, for whatever does not work.
    pub fn authenticate(&self, presented: &str, now: UnixMillis) -> Result<Principal, NotAuthenticated> {
        let parsed = ApiKey::parse(presented);
        let key = parsed.as_ref().unwrap_or(&self.stand_in);
        let snapshot = self.snapshot.load();
        let found = snapshot.entries.get(&key.id());
        let entry = found.unwrap_or(&self.nobody);
        let proven = self.pepper.verify(entry.pepper_version, key, &entry.digest);
        // `&`, not `&&`: each part is computed, whatever the others say.
        if parsed.is_ok() & found.is_some() & proven & !entry.expires.has_passed(now) {
            let Entry { tenant, tag, limits, .. } = *entry;
            return Ok(Principal { tenant, key: key.id(), tag, limits });
        }
        Err(NotAuthenticated)
    }

    /// Asks the store whether anything changed, and takes it over. A refresh that fails leaves the snapshot
    /// as it is.
    ///
    /// # Errors
    /// As the store reports.
    pub async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let _alone = self.refreshing.lock().await;
        let began = Instant::now();
        let refreshed = self.take_over(store).await;
        if refreshed.is_ok() {
            // What was read is at least as new as the moment at which the reading began.
            *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = began;
            self.failures.store(0, Ordering::Relaxed);
        } else {
            let more = |failures: u32| Some(failures.saturating_add(1));
            // The closure never refuses, so neither does the update.
            self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).unwrap_or_default();
        }
        refreshed
    }

    async fn take_over(&self, store: &Store) -> Result<(), StoreError> {
        if store.revision().await? != self.snapshot.load().revision() {
            self.snapshot.store(Arc::new(store.snapshot().await?));
        }
        Ok(())
    }

    /// Refreshes once each `every`, on the runtime that this is called from. Failures show in
    /// [`Directory::health`].
    pub fn follow(self: &Arc<Self>, store: Store, every: Duration) -> Follower {
        let directory = Arc::clone(self);
        Follower(tokio::spawn(async move {
            let mut beat = tokio::time::interval(every);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                beat.tick().await;
                // A failure is counted where health can be asked for; there is nobody here to tell.
                let _counted = directory.refresh(&store).await;
            }
        }))
    }

    /// How old the snapshot is at `now`, and how often the store has failed since.
    pub fn health(&self, now: Instant) -> Health {
        let confirmed = *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        Health {
            age: now.saturating_duration_since(confirmed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// What tenants may hold of an engine's memory, as the store last said; only those for whom something was said.
    pub fn shares(&self) -> Arc<[TenantShare]> {
        Arc::clone(&self.snapshot.load().shares)
    }

    /// Keys that work, expired ones included.
    pub fn keys(&self) -> usize {
        self.snapshot.load().keys()
    }
}

#[cfg(test)]
mod tests;
