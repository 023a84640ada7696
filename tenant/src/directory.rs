//! Who is calling: authentication against a snapshot of the store.
//!
//! The hot path takes no lock, awaits nothing and allocates nothing: one checksum, one look-up, two HMACs over 55 bytes (two
//! SHA-256 blocks each beside the precomputed key states). Two, since a key that is rotated has two secrets, and how many it has
//! is nobody's to learn. The same HMACs are computed for what is no key, for an id that does not exist and for a key that was
//! revoked or has expired; there is one error for all of them. What differs in time is the parsing of what is no key, which its
//! sender can do alone, and the look-up of an id that is there from one that is not: nanoseconds of memory access, and ids are
//! no secret.
//!
//! Architecture invariant: a store that fails changes nobody's answer; the snapshot grows old, and says how
//! old.

mod lag;
mod snapshot;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use isolation::tag::TenantTag;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::task::JoinHandle;

use crate::error::StoreError;
use crate::key::{ApiKey, KeyId, KeyKind};
use crate::level::ProjectId;
use crate::limits::{Expiry, KeyLimits};
use crate::pepper::Pepper;
use crate::presence::{Presence, Present};
use crate::purpose::{Mode, Purpose, Reach, Role};
use crate::scopes::Scopes;
use crate::share::TenantShare;
use crate::store::{Digested, Revision, Standing, Store, TenantId};
use crate::time::UnixMillis;
use lag::Lags;
use snapshot::{Entry, Snapshot, Terms};

pub use lag::RevocationLag;

/// Who called. Only [`Directory::authenticate`] makes one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Caller {
    /// A program that asks models.
    Service(Principal),
    /// A person that looks after tenants.
    Person(Administrator),
    /// Somebody who reads a tenant's part of the audit log.
    Auditor(AuditReader),
}

/// A program that asks models, and what it may take. Outside this crate only [`Directory::authenticate`] makes one.
///
/// ```compile_fail,E0451
/// fn forge(of: tenant::Principal) -> tenant::Principal {
///     tenant::Principal { tenant: of.tenant, ..of }
/// }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Principal {
    /// The tenant, outside the engine.
    pub tenant: TenantId,
    /// On whose account.
    pub project: ProjectId,
    /// The key that was presented.
    pub key: KeyId,
    /// The tenant, inside the engine.
    pub tag: TenantTag,
    /// Whether it is listed apart in usage.
    pub mode: Mode,
    /// What the key may take.
    pub limits: KeyLimits,
    terms: Arc<Terms>,
}

impl Principal {
    /// One that no directory knows.
    #[cfg(test)]
    pub(crate) fn of(key: KeyId, limits: KeyLimits) -> Self {
        let (tenant, project) = (TenantId(uuid::Uuid::nil()), ProjectId(uuid::Uuid::nil()));
        let purpose = Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() };
        let terms = Arc::new(Terms { purpose, limits });
        Self { tenant, project, key, tag: TenantTag::new(1), mode: Mode::Live, limits, terms }
    }

    /// What the key may be used for.
    pub fn scopes(&self) -> &Scopes {
        static NOTHING: std::sync::LazyLock<Scopes> = std::sync::LazyLock::new(Scopes::nothing);
        match &self.terms.purpose {
            Purpose::Service { scopes, .. } => scopes,
            // Nobody makes a principal of these.
            Purpose::Person { .. } | Purpose::Auditor { .. } => &NOTHING,
        }
    }
}

/// A person that looks after tenants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Administrator {
    /// The key that was presented.
    pub key: KeyId,
    /// Of whom.
    pub reach: Reach,
    /// What the person may do there.
    pub role: Role,
}

/// Somebody who reads a tenant's part of the audit log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AuditReader {
    /// The key that was presented.
    pub key: KeyId,
    /// Whose part.
    pub tenant: TenantId,
}

/// The key does not work.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotAuthenticated {
    /// It is not one that works. Why is not said, to anybody.
    #[error("the API key is not valid")]
    Invalid,
    /// It is one that works, of a tenant that is suspended. Only who has the secret learns it.
    #[error("the account of this API key is suspended")]
    Suspended,
}

/// All keys that work, as the store last said.
pub struct Directory {
    snapshot: ArcSwap<Snapshot>,
    pepper: Arc<Pepper>,
    /// Compared when nothing that could be compared was presented, so that the work is the same.
    stand_in: ApiKey,
    /// Compared with where there is no secret: random, and its time is over.
    nobody: Digested,
    confirmed: Mutex<Instant>,
    failures: AtomicU32,
    is_told: AtomicBool,
    /// One refresh at a time: an older snapshot never replaces a newer one.
    refreshing: tokio::sync::Mutex<()>,
    present: Present,
    lags: Lags,
}

/// How well a directory follows its store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Health {
    /// Since the store last confirmed the snapshot.
    pub age: Duration,
    /// Refreshes that failed since then.
    pub failures: u32,
    /// Whether the store tells of its changes; else it is only looked at from time to time.
    pub is_told: bool,
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
        let stand_in = ApiKey::generate(KeyKind::Live, &random).map_err(|_| StoreError::NoRandomness)?;
        let mut digest = [0; 32];
        random.fill(&mut digest).map_err(|_| StoreError::NoRandomness)?;
        let nobody =
            Digested { pepper_version: 0, digest, ends: Expiry::At(UnixMillis::from_system(UNIX_EPOCH)) };
        let began = Instant::now();
        let all = store.changes(Revision::NONE).await?;
        Ok(Self {
            snapshot: ArcSwap::from_pointee(Snapshot::empty().with(all)?),
            pepper: store.pepper(),
            stand_in,
            nobody,
            confirmed: Mutex::new(began),
            failures: AtomicU32::new(0),
            is_told: AtomicBool::new(false),
            refreshing: tokio::sync::Mutex::new(()),
            present: Present::default(),
            lags: Lags::default(),
        })
    }

    /// Says who presented this key. `presented` is the key alone, without `Bearer`; it is the caller's to
    /// wipe.
    ///
    /// # Errors
    /// [`NotAuthenticated::Invalid`], after the same work, for whatever does not work.
    pub fn authenticate(&self, presented: &str, now: UnixMillis) -> Result<Caller, NotAuthenticated> {
        let parsed = ApiKey::parse(presented);
        let key = parsed.as_ref().unwrap_or(&self.stand_in);
        let snapshot = self.snapshot.load();
        let found = snapshot.find(key.id());
        let proven = self.prove(key, found, now);
        let entry = found.filter(|_| parsed.is_ok() & proven).ok_or(NotAuthenticated::Invalid)?;
        let is_in_time = !entry.expires.has_passed(now);
        if !is_in_time || entry.terms.purpose.kind() != key.kind() {
            return Err(NotAuthenticated::Invalid);
        }
        identify(&snapshot, entry)
    }

    /// Compares with two secrets, whether there are two, one or none.
    fn prove(&self, key: &ApiKey, found: Option<&Entry>, now: UnixMillis) -> bool {
        let mut proven = false;
        for place in 0..2_usize {
            let secret = found.and_then(|entry| entry.secrets.get(place)).and_then(Option::as_ref);
            let Digested { pepper_version, digest, ends } = secret.unwrap_or(&self.nobody);
            let matches = self.pepper.verify(*pepper_version, key, digest);
            // `&`, not `&&`: each part is computed, whatever the others say.
            proven |= matches & secret.is_some() & !ends.has_passed(now);
        }
        proven
    }

    /// Notes that a request of this principal runs, so that it can be cut when the key does not work any more.
    ///
    /// # Errors
    /// When it does not work already.
    pub fn enter(&self, principal: &Principal) -> Result<Presence, NotAuthenticated> {
        let presence = self.present.enter(principal.key);
        // After the entry: a snapshot that comes now finds it.
        if self.snapshot.load().works(principal.key) { Ok(presence) } else { Err(NotAuthenticated::Invalid) }
    }

    /// How long revocations took to arrive here.
    pub fn revocation_lag(&self) -> RevocationLag {
        self.lags.read()
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
        let known = self.snapshot.load_full();
        let now = store.revision().await?;
        if now == known.revision() {
            return Ok(());
        }
        // A store that went back was restored from a copy: what is known of it is worth nothing.
        let known = if now > known.revision() { known } else { Arc::new(Snapshot::empty()) };
        let delta = store.changes(known.revision()).await?;
        let revoked: Vec<_> = delta.keys.iter().filter_map(|key| key.revoked).collect();
        let snapshot = Arc::new(known.with(delta)?);
        self.snapshot.store(Arc::clone(&snapshot));
        // After the swap: who comes in between sees the new one.
        for key in self.present.keys().into_iter().filter(|key| !snapshot.works(*key)) {
            self.present.cut(key);
        }
        let now = UnixMillis::from_system(SystemTime::now());
        for moment in revoked {
            self.lags.count(Duration::from_millis(now.unsigned().saturating_sub(moment.unsigned())));
        }
        Ok(())
    }

    /// Refreshes when the store tells of a change, and once each `every`, on the runtime that this is called from. Failures show
    /// in [`Directory::health`].
    pub fn follow(self: &Arc<Self>, store: Store, every: Duration) -> Follower {
        let directory = Arc::clone(self);
        Follower(tokio::spawn(async move {
            let mut beat = tokio::time::interval(every);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut watch = store.watch();
            loop {
                tokio::select! {
                    _ = beat.tick() => {}
                    () = watch.changed(&store) => {}
                }
                directory.is_told.store(watch.is_listening(), Ordering::Relaxed);
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
            is_told: self.is_told.load(Ordering::Relaxed),
        }
    }

    /// What tenants may hold of an engine's memory, as the store last said; only those for whom something was said.
    pub fn shares(&self) -> Arc<[TenantShare]> {
        self.snapshot.load().shares()
    }

    /// Keys that work, expired ones included.
    pub fn keys(&self) -> usize {
        self.snapshot.load().keys()
    }
}

/// Makes a caller of a key that is proven.
fn identify(snapshot: &Snapshot, entry: &Entry) -> Result<Caller, NotAuthenticated> {
    let key = entry.id;
    let of = |id| {
        let tenant = snapshot.tenant(id).ok_or(NotAuthenticated::Invalid)?;
        match tenant.standing {
            Standing::Active => Ok(tenant.tag),
            Standing::Suspended(_) => Err(NotAuthenticated::Suspended),
        }
    };
    match entry.terms.purpose {
        Purpose::Service { tenant, project, mode, .. } => {
            let (tag, limits, terms) = (of(tenant)?, entry.terms.limits, Arc::clone(&entry.terms));
            Ok(Caller::Service(Principal { tenant, project, key, tag, mode, limits, terms }))
        }
        Purpose::Person { reach, role } => {
            if let Reach::Tenant(tenant) = reach {
                of(tenant)?;
            }
            Ok(Caller::Person(Administrator { key, reach, role }))
        }
        Purpose::Auditor { tenant } => of(tenant).map(|_| Caller::Auditor(AuditReader { key, tenant })),
    }
}

#[cfg(test)]
mod tests;
