//! Who is calling: authentication against a snapshot of the store.
//!
//! The hot path awaits nothing: one checksum, one look-up, two HMACs over 55 bytes (two
//! SHA-256 blocks each beside the precomputed key states). Two, since a key that is rotated has two secrets, and how many it has
//! is nobody's to learn. The same HMACs are computed for what is no key, for an id that does not exist and for a key that was
//! revoked or has expired; there is one error for all of them. What differs in time is the parsing of what is no key, which its
//! sender can do alone, and the look-up of an id that is there from one that is not: nanoseconds of memory access, and ids are
//! no secret. A key that is proven is noted as used: one short lock of a map's part.
//!
//! Architecture invariant: a store that fails changes nobody's answer; the snapshot grows old, and says how
//! old.

mod caller;
mod charges;
mod disk;
mod follow;
mod keep;
mod lag;
mod snapshot;
mod uses;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::key::{ApiKey, KeyKind};
use crate::ledger::{Budget, BudgetKind, Line, Pricing};
use crate::level::{Level, ModelName};
use crate::limits::Expiry;
use crate::pepper::Pepper;
use crate::presence::{Presence, Present};
use crate::rate::{BadChain, Chain};
use crate::share::TenantShare;
use crate::store::{Digested, Revision, Store, StoreId, TenantState};
use crate::time::UnixMillis;
use caller::identify;
use lag::Lags;
use snapshot::{Entry, Snapshot};
use uses::Uses;

pub(crate) use uses::Use;
pub use uses::{Noting, USES_MAX};

pub use caller::{Administrator, AuditReader, Caller, NotAuthenticated, Principal};
pub use disk::RecallError;
pub use follow::Follower;
pub use keep::Keep;
pub use lag::RevocationLag;

/// All keys that work, as the store last said.
pub struct Directory {
    snapshot: ArcSwap<Snapshot>,
    pepper: Arc<Pepper>,
    /// Compared when nothing that could be compared was presented, so that the work is the same.
    stand_in: ApiKey,
    /// Compared with where there is no secret: random, and its time is over.
    nobody: Digested,
    confirmed: ArcSwap<Instant>,
    failures: AtomicU32,
    /// Refreshes that took a key away from somebody, or a secret, or gave one an end.
    removals: AtomicU64,
    is_told: AtomicBool,
    /// One refresh at a time: an older snapshot never replaces a newer one.
    refreshing: tokio::sync::Mutex<()>,
    present: Present,
    /// Which secrets were used, until the store knows.
    uses: Uses,
    lags: Lags,
}

/// What stands of a line of budgets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LineStands {
    /// A budget: a hard one with this limit, or a soft one alone.
    Set { limit: Option<u64> },
    /// None: it was lifted.
    Lifted,
    /// It was a key's that does not work any more.
    KeyEnded,
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

impl Directory {
    /// Reads all keys of `store`.
    ///
    /// # Errors
    /// As the store reports: without a first snapshot there is nobody to let in.
    pub async fn open(store: &Store) -> Result<Self, StoreError> {
        store.prepare().await?;
        let began = Instant::now();
        let all = store.changes(Revision::NONE).await?;
        Self::of(Snapshot::empty().with(all)?, store.pepper(), began)
    }

    /// Reads all keys from the copy that a follower keeps ([`Keep::At`]), for a start without the store. The copy is at most
    /// `age_max` old, and of this store as far as that is known, or not taken.
    ///
    /// # Errors
    /// [`RecallError`].
    pub fn recall(store: &Store, copy: &Path, age_max: Duration) -> Result<Self, RecallError> {
        let (snapshot, age) = disk::load(copy, age_max)?;
        let of = snapshot.revision().store;
        if let Some(store) = store.id().filter(|store| *store != of) {
            return Err(RecallError::OtherStore { copy: of, store });
        }
        let confirmed = Instant::now().checked_sub(age).ok_or(RecallError::TooOld { age, age_max })?;
        Self::of(snapshot, store.pepper(), confirmed).map_err(|_| RecallError::NoRandomness)
    }

    fn of(snapshot: Snapshot, pepper: Arc<Pepper>, confirmed: Instant) -> Result<Self, StoreError> {
        let random = SystemRandom::new();
        let stand_in = ApiKey::generate(KeyKind::Live, &random).map_err(|_| StoreError::NoRandomness)?;
        let mut digest = [0; 32];
        random.fill(&mut digest).map_err(|_| StoreError::NoRandomness)?;
        let nobody =
            Digested { pepper_version: 0, digest, ends: Expiry::At(UnixMillis::from_system(UNIX_EPOCH)) };
        Ok(Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            pepper,
            stand_in,
            nobody,
            confirmed: ArcSwap::from_pointee(confirmed),
            failures: AtomicU32::new(0),
            removals: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            refreshing: tokio::sync::Mutex::new(()),
            present: Present::default(),
            uses: Uses::default(),
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
        let (proven, secret) = self.prove(key, found, now);
        let entry = found.filter(|_| parsed.is_ok() & proven).ok_or(NotAuthenticated::Invalid)?;
        let is_in_time = !entry.expires.has_passed(now);
        if !is_in_time || entry.terms.purpose.kind() != key.kind() {
            return Err(NotAuthenticated::Invalid);
        }
        if let Some(secret) = entry.secrets.get(secret).and_then(Option::as_ref) {
            self.uses.note(&self.pepper, key, secret, now);
        }
        identify(&snapshot, entry)
    }

    /// Compares with two secrets, whether there are two, one or none; says whether one is it, and the place of the last that is.
    fn prove(&self, key: &ApiKey, found: Option<&Entry>, now: UnixMillis) -> (bool, usize) {
        let (mut proven, mut at) = (false, 0);
        for place in 0..2_usize {
            let secret = found.and_then(|entry| entry.secrets.get(place)).and_then(Option::as_ref);
            let Digested { pepper_version, digest, ends } = secret.unwrap_or(&self.nobody);
            let matches = self.pepper.verify(*pepper_version, key, digest);
            // `&`, not `&&`: each part is computed, whatever the others say.
            let is_it = matches & secret.is_some() & !ends.has_passed(now);
            proven |= is_it;
            at = if is_it { place } else { at };
        }
        (proven, at)
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

    /// The limits that a request of this principal for this model meets, as the store last said.
    ///
    /// # Errors
    /// When they do not go together, which no store of ours says.
    pub fn chain(&self, principal: &Principal, model: &ModelName) -> Result<Chain, BadChain> {
        let snapshot = self.snapshot.load();
        let Principal { key, project, tenant, .. } = *principal;
        let levels = [Level::Key(key), Level::Project(project), Level::Tenant(tenant)];
        let rules = levels.into_iter().flat_map(|level| snapshot.rules_of(level, model));
        Chain::new(tenant, rules.cloned().collect())
    }

    /// The budgets that bind requests of this principal for this model, and what the model costs, as the store last said.
    pub fn charges(&self, principal: &Principal, model: &ModelName) -> (Vec<Budget>, Pricing) {
        let snapshot = self.snapshot.load();
        let payer = principal.payer();
        let levels = [Level::Key(payer.key), Level::Project(payer.project), Level::Tenant(payer.tenant)];
        let budgets = levels.into_iter().flat_map(|level| snapshot.charges().budgets_of(level));
        let budgets = budgets.filter(|budget| budget.binds(&payer, model)).cloned().collect();
        (budgets, snapshot.charges().pricing(model))
    }

    /// Whether anything counts a line still.
    pub(crate) fn line_stands(&self, line: &Line) -> LineStands {
        let snapshot = self.snapshot.load();
        if let Level::Key(key) = line.level
            && !snapshot.works(key)
        {
            return LineStands::KeyEnded;
        }
        let of_line = |budget: &&Budget| {
            budget.models == line.models && budget.unit == line.unit && budget.period == line.period
        };
        let mut stands = LineStands::Lifted;
        for budget in snapshot.charges().budgets_of(line.level).filter(of_line) {
            match budget.kind {
                BudgetKind::Hard => return LineStands::Set { limit: Some(budget.limit) },
                BudgetKind::Soft => stands = LineStands::Set { limit: None },
            }
        }
        stands
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
            self.confirmed.store(Arc::new(began));
            self.failures.store(0, Ordering::Relaxed);
        } else {
            let more = |failures: u32| Some(failures.saturating_add(1));
            // The closure never refuses, so neither does the update.
            self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).unwrap_or_default();
        }
        refreshed
    }

    async fn take_over(&self, store: &Store) -> Result<(), StoreError> {
        store.prepare().await?;
        let known = self.snapshot.load_full();
        let now = store.revision().await?;
        let is_same_number = seeded(Fault::TokenUnseen) && now.number == known.revision().number;
        if now == known.revision() || is_same_number {
            return Ok(());
        }
        let delta = store.changes(known.revision()).await?;
        let is_whole = delta.is_whole;
        let revoked: Vec<_> = delta.keys.iter().filter_map(|key| key.revoked).collect();
        let suspends = delta.tenants.iter().any(|tenant| tenant.state != TenantState::Active);
        let ends_secrets = delta.keys.iter().any(|key| known.loses_secrets(key));
        let snapshot = Arc::new(known.with(delta)?);
        self.snapshot.store(Arc::clone(&snapshot));
        if is_whole || suspends || ends_secrets || !revoked.is_empty() {
            self.removals.fetch_add(1, Ordering::Relaxed);
        }
        // After the swap: who comes in between sees the new one.
        for key in self.present.keys().into_iter().filter(|key| !snapshot.works(*key)) {
            self.present.cut(key);
        }
        let now = UnixMillis::from_system(SystemTime::now());
        // What is read whole was mostly revoked long ago.
        for moment in revoked.into_iter().filter(|_| !is_whole) {
            self.lags.count(Duration::from_millis(now.unsigned().saturating_sub(moment.unsigned())));
        }
        Ok(())
    }

    /// How old the snapshot is at `now`, and how often the store has failed since.
    pub fn health(&self, now: Instant) -> Health {
        let confirmed = **self.confirmed.load();
        Health {
            age: now.saturating_duration_since(confirmed),
            failures: self.failures.load(Ordering::Relaxed),
            is_told: self.is_told.load(Ordering::Relaxed),
        }
    }

    /// Which store the keys are of.
    pub fn store(&self) -> StoreId {
        self.snapshot.load().revision().store
    }

    /// When the store last confirmed the snapshot, or one before it, by the wall clock.
    fn confirmed_at(&self) -> UnixMillis {
        let age = Instant::now().saturating_duration_since(**self.confirmed.load());
        UnixMillis::from_system(SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH))
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

#[cfg(test)]
mod tests;
