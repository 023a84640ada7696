//! The store: tenants and keys in one SQLite file, mode 0600.
//!
//! The gateway and the command line may have it open at once, in any number of processes: the file is in WAL
//! mode, so that a reader never waits for a writer; a writer waits at most [`BUSY_MAX`] for another; a commit
//! is on disk when it returns.
//!
//! Architecture invariant: stores no secret, only what the [`Pepper`] makes of it; reads no clock.

mod open;
mod row;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use isolation::tag::TenantTag;
use policies::{Field, WINDOW_CAP_MAX, WindowCap};
use ring::rand::{SecureRandom, SystemRandom};
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, Transaction};
use uuid::{NoContext, Timestamp, Uuid};

use crate::error::StoreError;
use crate::key::{ApiKey, KeyId};
use crate::limits::{Concurrency, Expiry, KeyLimits};
use crate::name::Name;
use crate::pepper::Pepper;
use crate::secret::Secret;
use crate::share::{MemoryCap, MemoryShare};
use crate::time::UnixMillis;

pub(crate) use row::Entry;
pub use row::{KeyRecord, Revision, Snapshot, Tenant, TenantId};

/// How long a writer waits for another process to finish its own.
pub const BUSY_MAX: Duration = Duration::from_secs(5);
/// Tenants that a store may hold.
pub const TENANTS_MAX: u32 = 100_000;
/// Keys that a store may hold, revoked ones included.
pub const KEYS_MAX: u32 = 1_000_000;
/// Draws of a tag. That even two of 100,000 tags meet has a chance of 1 in 10^9.
const TAG_DRAWS_MAX: usize = 4;

/// Tenants and keys. A clone is another handle on the same store.
#[derive(Clone)]
pub struct Store {
    pool: SqlitePool,
    pepper: Arc<Pepper>,
    random: SystemRandom,
    room: Room,
}

/// How many of each the store may hold.
#[derive(Clone, Copy)]
struct Room {
    tenants: u32,
    keys: u32,
}

/// What a new key shall be.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// Tells it from the tenant's other keys; need not be unique.
    pub name: Name,
    /// What it may take.
    pub limits: KeyLimits,
    /// When it stops working by itself.
    pub expires: Expiry,
}

/// What revoking a key did. Either way the key does not work any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Revoked {
    /// It worked until now.
    Now,
    /// It was revoked before.
    Before(UnixMillis),
}

impl Store {
    /// Opens the store, makes it when there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::WrongPepper`] when its digests were made with another pepper; else as files and database
    /// report.
    pub async fn open(path: &Path, pepper: Pepper) -> Result<Self, StoreError> {
        let pool = open::open(path, &pepper).await?;
        let room = Room { tenants: TENANTS_MAX, keys: KEYS_MAX };
        Ok(Self { pool, pepper: Arc::new(pepper), random: SystemRandom::new(), room })
    }

    /// Makes a tenant with a fresh id and a tag that no tenant ever had.
    ///
    /// # Errors
    /// [`StoreError::NameTaken`], [`StoreError::Full`].
    pub async fn create_tenant(&self, name: Name, now: UnixMillis) -> Result<Tenant, StoreError> {
        let mut change = self.change().await?;
        let held = sqlx::query_scalar("SELECT count(*) FROM tenants").fetch_one(&mut *change).await?;
        room_for_one_more(held, self.room.tenants)?;
        let tag = self.draw_tag(&mut change).await?;
        let share = MemoryShare::default();
        let tenant = Tenant { id: new_tenant_id(now), name, tag, created: now, share };
        let inserted = sqlx::query("INSERT INTO tenants (id, name, tag, created_ms) VALUES (?, ?, ?, ?)")
            .bind(tenant.id.bytes().as_slice())
            .bind(tenant.name.as_str())
            .bind(tenant.tag.get().cast_signed())
            .bind(tenant.created.get())
            .execute(&mut *change)
            .await;
        match inserted {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(StoreError::NameTaken),
            Err(error) => Err(error.into()),
            Ok(_) => change.commit().await.map(|()| tenant).map_err(StoreError::from),
        }
    }

    /// All tenants, the oldest first; at most [`TENANTS_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, name, tag, created_ms, floor, cap, weight
             FROM tenants LEFT JOIN shares ON shares.tenant = tenants.id ORDER BY id",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(Tenant::read).collect()
    }

    /// The tenant of this name; none when there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn find_tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let row = sqlx::query(
            "SELECT id, name, tag, created_ms, floor, cap, weight
             FROM tenants LEFT JOIN shares ON shares.tenant = tenants.id WHERE name = ?",
        )
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        row.as_ref().map(Tenant::read).transpose()
    }

    /// Gives a tenant another share of the engine's memory. Whether all floors fit is the engine's to say, whose pool they
    /// must fit in.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`], [`StoreError::BadShare`].
    pub async fn set_share(&self, tenant: TenantId, share: MemoryShare) -> Result<(), StoreError> {
        let MemoryShare { floor, cap, weight } = share.checked()?;
        let cap = match cap {
            MemoryCap::Pool => None,
            MemoryCap::Tokens(tokens) => Some(i64::from(tokens.get())),
        };
        let mut change = self.change().await?;
        let kept = sqlx::query(
            "INSERT INTO shares (tenant, floor, cap, weight) VALUES (?, ?, ?, ?)
             ON CONFLICT (tenant) DO UPDATE SET floor = excluded.floor, cap = excluded.cap, weight = excluded.weight",
        )
        .bind(tenant.bytes().as_slice())
        .bind(i64::from(floor))
        .bind(cap)
        .bind(i64::from(weight.get()))
        .execute(&mut *change)
        .await;
        match kept {
            Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => {
                Err(StoreError::NoSuchTenant(tenant))
            }
            Err(error) => Err(error.into()),
            Ok(_) => change.commit().await.map_err(StoreError::from),
        }
    }

    /// Makes a key. The secret is returned here and nowhere else, ever.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`], a limit above its ceiling, an expiry that has passed,
    /// [`StoreError::Full`].
    pub async fn create_key(
        &self,
        tenant: TenantId,
        spec: KeySpec,
        now: UnixMillis,
    ) -> Result<(KeyRecord, Secret<String>), StoreError> {
        let window_cap = stored_window_cap(spec.limits.window_cap)?;
        let concurrency = stored_concurrency(spec.limits.concurrency)?;
        if spec.expires.has_passed(now) {
            return Err(StoreError::ExpiryPassed);
        }
        let key = ApiKey::generate(&self.random).map_err(|_| StoreError::NoRandomness)?;
        let digest = self.pepper.digest(&key);
        let KeySpec { name, limits, expires } = spec;
        let record = KeyRecord { id: key.id(), tenant, name, limits, expires, created: now, revoked: None };

        let mut change = self.change().await?;
        let held = sqlx::query_scalar("SELECT count(*) FROM keys").fetch_one(&mut *change).await?;
        room_for_one_more(held, self.room.keys)?;
        let inserted = sqlx::query(
            "INSERT INTO keys (id, tenant, name, pepper_version, digest, window_cap, concurrency, expires_ms, created_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(record.id.as_str())
        .bind(tenant.bytes().as_slice())
        .bind(record.name.as_str())
        .bind(i64::from(digest.version))
        .bind(digest.tag.as_slice())
        .bind(window_cap)
        .bind(concurrency)
        .bind(stored_expiry(expires))
        .bind(now.get())
        .execute(&mut *change)
        .await;
        match inserted {
            Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => {
                Err(StoreError::NoSuchTenant(tenant))
            }
            Err(error) => Err(error.into()),
            Ok(_) => change.commit().await.map(|()| (record, key.reveal())).map_err(StoreError::from),
        }
    }

    /// All keys, revoked and expired ones too, the oldest first; at most [`KEYS_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, tenant, name, window_cap, concurrency, expires_ms, created_ms, revoked_ms FROM keys
             ORDER BY created_ms, id",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(KeyRecord::read).collect()
    }

    /// Ends a key for good. To do it again changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`].
    pub async fn revoke_key(&self, id: KeyId, now: UnixMillis) -> Result<Revoked, StoreError> {
        let mut change = self.change().await?;
        let before: Option<Option<i64>> = sqlx::query_scalar("SELECT revoked_ms FROM keys WHERE id = ?")
            .bind(id.as_str())
            .fetch_optional(&mut *change)
            .await?;
        if let Some(at) = before.ok_or(StoreError::NoSuchKey(id))? {
            return row::millis(at, "keys", "revoked_ms").map(Revoked::Before);
        }
        sqlx::query("UPDATE keys SET revoked_ms = ? WHERE id = ?")
            .bind(now.get())
            .bind(id.as_str())
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(Revoked::Now)
    }

    /// A number that rises with each change, whoever made it.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn revision(&self) -> Result<Revision, StoreError> {
        let value = sqlx::query_scalar("SELECT value FROM revision").fetch_one(&self.pool).await?;
        Ok(Revision(value))
    }

    /// All keys that are not revoked, as one moment saw them.
    ///
    /// # Errors
    /// As the database reports; [`StoreError::Full`] when somebody else put more keys in than the bound
    /// allows.
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let mut moment = self.pool.begin().await?;
        let revision = sqlx::query_scalar("SELECT value FROM revision").fetch_one(&mut *moment).await?;
        let rows = sqlx::query(
            "SELECT keys.id, keys.tenant, tenants.tag, keys.pepper_version, keys.digest, keys.window_cap,
                    keys.concurrency, keys.expires_ms
             FROM keys JOIN tenants ON tenants.id = keys.tenant WHERE keys.revoked_ms IS NULL LIMIT ?",
        )
        .bind(i64::from(self.room.keys).saturating_add(1))
        .fetch_all(&mut *moment)
        .await?;
        let shares = sqlx::query(
            "SELECT tag, floor, cap, weight FROM shares JOIN tenants ON tenants.id = shares.tenant ORDER BY tag",
        )
        .fetch_all(&mut *moment)
        .await?;
        if u32::try_from(rows.len()).is_ok_and(|held| held <= self.room.keys) {
            let entries = rows.iter().map(Entry::read).collect::<Result<_, _>>()?;
            let shares = shares.iter().map(row::tenant_share).collect::<Result<_, _>>()?;
            return Ok(Snapshot { revision: Revision(revision), entries, shares });
        }
        Err(StoreError::Full { limit: self.room.keys })
    }

    /// Ends this handle and its clones, and folds the write-ahead file into the main one when no other
    /// process has it open. To drop a store instead loses nothing.
    pub async fn close(self) {
        self.pool.close().await;
    }

    pub(crate) fn pepper(&self) -> Arc<Pepper> {
        Arc::clone(&self.pepper)
    }

    /// Begins a change as the only writer, so that what it reads cannot move before it writes.
    async fn change(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(StoreError::from)
    }

    async fn draw_tag(&self, change: &mut Transaction<'static, Sqlite>) -> Result<TenantTag, StoreError> {
        for _ in 0..TAG_DRAWS_MAX {
            let mut bytes = [0; 8];
            self.random.fill(&mut bytes).map_err(|_| StoreError::NoRandomness)?;
            let tag = u64::from_ne_bytes(bytes);
            let drawn = sqlx::query("INSERT INTO tags (tag) VALUES (?) ON CONFLICT DO NOTHING")
                .bind(tag.cast_signed())
                .execute(&mut **change)
                .await?;
            if drawn.rows_affected() == 1 {
                return Ok(TenantTag::new(tag));
            }
        }
        Err(StoreError::NoRandomness)
    }
}

fn room_for_one_more(held: i64, limit: u32) -> Result<(), StoreError> {
    if held < i64::from(limit) { Ok(()) } else { Err(StoreError::Full { limit }) }
}

fn new_tenant_id(now: UnixMillis) -> TenantId {
    let (seconds, millis) = (now.unsigned() / 1_000, now.unsigned() % 1_000);
    let nanos = u32::try_from(millis.saturating_mul(1_000_000)).unwrap_or_default();
    TenantId(Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos)))
}

fn stored_window_cap(cap: WindowCap) -> Result<Option<i64>, StoreError> {
    match cap {
        WindowCap::Inherit => Ok(None),
        WindowCap::Tokens(tokens) if tokens.get() <= WINDOW_CAP_MAX => Ok(Some(i64::from(tokens.get()))),
        WindowCap::Tokens(tokens) => {
            Err(StoreError::WindowCapTooHigh { asked: tokens.get(), allowed: WINDOW_CAP_MAX })
        }
    }
}

fn stored_concurrency(concurrency: Concurrency) -> Result<Option<i64>, StoreError> {
    let allowed = Field::ConcurrencyPerKey.bounds().ceiling;
    match concurrency {
        Concurrency::Inherit => Ok(None),
        Concurrency::AtMost(limit) if limit.get() <= allowed => Ok(Some(NonZeroU32::get(limit).into())),
        Concurrency::AtMost(limit) => Err(StoreError::ConcurrencyTooHigh { asked: limit.get(), allowed }),
    }
}

const fn stored_expiry(expires: Expiry) -> Option<i64> {
    match expires {
        Expiry::Never => None,
        Expiry::At(moment) => Some(moment.get()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
