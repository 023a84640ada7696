//! The store: tenants, projects and keys, in one SQLite file of mode 0600 or in a PostgreSQL database.
//!
//! Any number of processes may have it open at once. A reader never waits for a writer; a writer waits at most [`BUSY_MAX`] for
//! another; a commit is on disk when it returns.
//!
//! Architecture invariant: stores no secret, only what the [`Pepper`] makes of it; reads no clock.

mod actor;
pub(crate) mod budgets;
mod change;
mod delta;
mod dialect;
mod event_id;
pub(crate) mod events;
mod forget;
mod keys;
mod leaks;
pub(crate) mod limits;
mod once;
mod open;
mod pages;
pub(crate) mod parts;
mod patience;
pub(crate) mod prices;
mod projects;
mod public;
mod revoke;
mod room;
pub(crate) mod row;
mod tenants;
mod usage;
mod uses;
mod watch;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ring::rand::SystemRandom;
use sqlx::AnyPool;
use uuid::{NoContext, Timestamp, Uuid};

use crate::error::StoreError;
use crate::pepper::Pepper;
use crate::secret::Secret;
use crate::time::UnixMillis;
use change::Change;
use dialect::Dialect;
use patience::Patience;
use room::{Room, room_for_one_more};

pub use actor::{Actor, SCANNER_ID_CHARS_MAX, ScannerId};
pub use budgets::{BUDGET_MAX, BUDGETS_MAX, BudgetEntry};
pub(crate) use delta::{Delta, Digested, KeyEntry, TenantEntry};
pub use event_id::EventId;
pub use events::{Action, EVENT_BYTES_MAX, EVENTS_PAGE_MAX, Event, Reason};
pub use forget::EVENTS_KEPT;
pub use keys::{KeyRecord, KeySpec, OVERLAP_MAX, Rotated, SecretRecord};
pub use leaks::Found;
pub use limits::{LIMITS_MAX, LimitsChange};
pub use once::{
    ANSWER_BYTES_MAX, ANSWERS_KEPT, ANSWERS_MAX, ANSWERS_PER_ACCOUNT_MAX, Before, ONCE_NAME_CHARS_MAX, Once,
};
pub use pages::LIST_PAGE_MAX;
pub use parts::{PART_GATEWAYS_MAX, PART_RECORDS_MAX, PartRecord, Released};
pub(crate) use prices::PriceEntry;
pub use projects::Project;
pub use public::{Expect, Version};
pub use revoke::Revoked;
pub use room::{
    BUDGETS_PER_TENANT, Belonging, KEYS_PER_TENANT, LIMITS_PER_TENANT, PROJECTS_PER_TENANT, TenantBounds,
};
pub use row::{Revision, StoreId, TenantId};
pub use tenants::{ShareChange, Tenant, TenantChange, TenantState};
pub use usage::{Stored, USAGE_ANSWER_MAX, USAGE_HOURS_KEPT, UsageBy, UsageOf, UsageParts, UsageSum};

/// How long a writer waits for another process to finish its own.
pub const BUSY_MAX: Duration = Duration::from_secs(5);
/// Tenants that a store may hold.
pub const TENANTS_MAX: u32 = 100_000;
/// Projects that a store may hold.
pub const PROJECTS_MAX: u32 = 1_000_000;
/// Keys that a store may hold, revoked ones included.
pub const KEYS_MAX: u32 = 1_000_000;

/// Tenants, projects and keys. A clone is another handle on the same store.
#[derive(Clone)]
pub struct Store {
    pool: AnyPool,
    dialect: Dialect,
    /// The server's, where there is one.
    address: Option<Arc<Secret<String>>>,
    /// Which store it is; known once its schema is up to date and the pepper the right one.
    id: Arc<OnceLock<StoreId>>,
    pepper: Arc<Pepper>,
    random: SystemRandom,
    room: Room,
    /// Who changes it through this handle.
    actor: Actor,
    /// The request that the next change is made for, if it has a name.
    once: Option<Arc<Once>>,
    patience: Patience,
}

impl Store {
    /// Opens the file, makes it when there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::WrongPepper`] when its digests were made with another pepper; else as files and database
    /// report.
    pub async fn open(path: &Path, pepper: Pepper) -> Result<Self, StoreError> {
        let (pool, id) = open::open(path, &pepper, Patience::USUAL).await?;
        let store = Self::on(pool, Dialect::Sqlite, None, pepper);
        store.id.get_or_init(|| id);
        Ok(store)
    }

    /// Opens a PostgreSQL database, `postgres://user:password@host/database?sslmode=verify-full`, and brings its schema up to
    /// date.
    ///
    /// # Errors
    /// As [`Store::open`]; [`StoreError::BadAddress`] and [`StoreError::NotPostgres`] for what is no such address.
    pub async fn connect(address: Secret<String>, pepper: Pepper) -> Result<Self, StoreError> {
        let store = Self::connect_later(address, pepper)?;
        store.prepare().await?;
        Ok(store)
    }

    /// The same, without asking the server: that is done when something is asked of the store, and again while it fails.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`] and [`StoreError::NotPostgres`].
    pub fn connect_later(address: Secret<String>, pepper: Pepper) -> Result<Self, StoreError> {
        let pool = open::server(&address)?;
        Ok(Self::on(pool, Dialect::Postgres, Some(Arc::new(address)), pepper))
    }

    fn on(pool: AnyPool, dialect: Dialect, address: Option<Arc<Secret<String>>>, pepper: Pepper) -> Self {
        let room = Room::default();
        let (pepper, random, id) = (Arc::new(pepper), SystemRandom::new(), Arc::default());
        let (actor, once, patience) = (Actor::CommandLine, None, Patience::USUAL);
        Self { pool, dialect, address, id, pepper, random, room, actor, once, patience }
    }

    /// A handle on the same store with connections of its own, for whoever must not wait for what is done through this one.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { pool: open::another(&self.pool, self.dialect), ..self.clone() }
    }

    /// Brings the schema up to date and looks whether the pepper is the right one, if that is not done.
    pub(crate) async fn prepare(&self) -> Result<(), StoreError> {
        if self.id.get().is_none() {
            let id = open::prepare(&self.pool, self.dialect, &self.pepper, self.patience).await?;
            self.id.get_or_init(|| id);
        }
        Ok(())
    }

    /// Which store it is; none while it has not answered yet.
    pub(crate) fn id(&self) -> Option<StoreId> {
        self.id.get().copied()
    }

    /// Where the store has come to: another one after each change, whoever made it.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn revision(&self) -> Result<Revision, StoreError> {
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let asked = sqlx::query(Revision::SELECT).fetch_one(&mut *connection);
        let answered = self.patience.answer(asked).await;
        if answered.is_err() {
            // Given back, it might be waited for once more.
            connection.close_on_drop();
        }
        Revision::read(&answered?)
    }

    /// Ends this handle and its clones, and folds SQLite's write-ahead file into the main one when no other process has it
    /// open. To drop a store instead loses nothing.
    pub async fn close(self) {
        self.pool.close().await;
    }

    pub(crate) fn pepper(&self) -> Arc<Pepper> {
        Arc::clone(&self.pepper)
    }

    async fn change(&self) -> Result<Change, StoreError> {
        let mut change = Change::begin(&self.pool, self.dialect, &self.random).await?;
        self.demand_actor(&mut change).await?;
        self.claim_name(&mut change).await?;
        Ok(change)
    }
}

/// A UUID v7: ids sort by birth.
fn new_id(now: UnixMillis) -> Uuid {
    let (seconds, millis) = (now.unsigned() / 1_000, now.unsigned() % 1_000);
    let nanos = u32::try_from(millis.saturating_mul(1_000_000)).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos))
}

#[cfg(test)]
pub(crate) mod tests;
