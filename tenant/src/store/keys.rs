//! Keys and their secrets.

use core::time::Duration;

use sqlx::Row;
use sqlx::any::AnyRow;

use policies::{Field, WINDOW_CAP_MAX, WindowCap};

use crate::error::StoreError;
use crate::key::{ApiKey, KeyId};
use crate::limits::{Concurrency, Expiry, KeyLimits};
use crate::name::Name;
use crate::purpose::Purpose;
use crate::secret::Secret;
use crate::store::change::Change;
use crate::store::events::{Action, Told};
use crate::store::{Belonging, Expect, Store, projects, room_for_one_more, row};
use crate::time::UnixMillis;

/// How long an old secret may work beside a new one.
pub const OVERLAP_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What a key is, with each of its secrets; the text after it says which keys.
macro_rules! select_in_order {
    ($which:literal, $order:literal) => {
        concat!(
            "SELECT k.id, k.kind, k.tenant, k.project, k.role, k.scopes, k.window_cap, k.concurrency, k.expires_ms,
                    k.name, k.created_ms, k.revoked_ms, s.serial, s.created_ms, s.ends_ms, s.used_ms
             FROM api_keys k JOIN secrets s ON s.key = k.id ",
            $which,
            " ORDER BY ",
            $order
        )
    };
}
pub(super) use select_in_order;

/// The oldest first.
macro_rules! select {
    ($which:literal) => {
        select_in_order!($which, "k.created_ms, k.id, s.serial")
    };
}

/// What a new key shall be.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// Tells it from the tenant's other keys; need not be unique.
    pub name: Name,
    /// What it is for.
    pub purpose: Purpose,
    /// What it may take.
    pub limits: KeyLimits,
    /// When it stops working by itself.
    pub expires: Expiry,
}

/// A key, without its secrets.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    /// Names it in listings and logs.
    pub id: KeyId,
    /// Tells it from the tenant's other keys.
    pub name: Name,
    /// What it is for.
    pub purpose: Purpose,
    /// What it may take.
    pub limits: KeyLimits,
    /// When it stops working by itself.
    pub expires: Expiry,
    /// When it was made.
    pub created: UnixMillis,
    /// When it was revoked; none while it is not.
    pub revoked: Option<UnixMillis>,
    /// The newest last; two at most.
    pub secrets: Vec<SecretRecord>,
}

/// What is known of one secret of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SecretRecord {
    /// Counts the key's secrets from 1.
    pub serial: u32,
    /// When it was made.
    pub created: UnixMillis,
    /// When it stops working, if not with its key.
    pub ends: Expiry,
    /// When it was last seen to be used; none if never.
    pub used: Option<UnixMillis>,
}

/// A key's new secret. It is here and nowhere else, ever.
pub struct Rotated {
    /// The whole key, to be shown once.
    pub key: Secret<String>,
    /// When the secret before it stops working.
    pub old_ends: UnixMillis,
    /// The key, as it is from now on.
    pub record: KeyRecord,
}

impl KeyRecord {
    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row::key_id(row.try_get(0)?)?,
            purpose: row::purpose(row)?,
            limits: row::limits(row.try_get(6)?, row.try_get(7)?)?,
            expires: row::expiry(row.try_get(8)?, "api_keys", "expires_ms")?,
            name: row::name(row.try_get(9)?, "api_keys")?,
            created: row::millis(row.try_get(10)?, "api_keys", "created_ms")?,
            revoked: row::maybe_millis(row.try_get(11)?, "api_keys", "revoked_ms")?,
            secrets: vec![],
        })
    }
}

impl SecretRecord {
    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        Ok(Self {
            serial: row::serial(row.try_get(12)?)?,
            created: row::millis(row.try_get(13)?, "secrets", "created_ms")?,
            ends: row::expiry(row.try_get(14)?, "secrets", "ends_ms")?,
            used: row::maybe_millis(row.try_get(15)?, "secrets", "used_ms")?,
        })
    }
}

/// Joins the rows of each key, which follow one another.
pub(super) fn gather(rows: &[AnyRow]) -> Result<Vec<KeyRecord>, StoreError> {
    let mut keys: Vec<KeyRecord> = Vec::new();
    for row in rows {
        let (key, secret) = (KeyRecord::read(row)?, SecretRecord::read(row)?);
        match keys.last_mut().filter(|last| last.id == key.id) {
            Some(last) => last.secrets.push(secret),
            None => keys.push(KeyRecord { secrets: vec![secret], ..key }),
        }
    }
    Ok(keys)
}

impl Store {
    /// Makes a key. The secret is returned here and nowhere else, ever.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`], [`StoreError::NoSuchProject`], a limit above its ceiling, an expiry that has passed,
    /// [`StoreError::Full`], [`StoreError::TenantFull`].
    pub async fn create_key(
        &self,
        spec: KeySpec,
        now: UnixMillis,
    ) -> Result<(KeyRecord, Secret<String>), StoreError> {
        checked(&spec, now)?;
        let key =
            ApiKey::generate(spec.purpose.kind(), &self.random).map_err(|_| StoreError::NoRandomness)?;
        let mut change = self.change().await?;
        let held = sqlx::query_scalar("SELECT count(*) FROM api_keys").fetch_one(change.on()).await?;
        room_for_one_more(held, self.room.keys)?;
        if let Some(tenant) = spec.purpose.tenant() {
            self.demand_room(&mut change, tenant, Belonging::Keys).await?;
        }
        insert(&mut change, key.id(), &spec, now).await?;
        self.insert_secret(&mut change, &key, 1, now).await?;
        let KeySpec { name, purpose, limits, expires } = spec;
        let secrets = vec![SecretRecord { serial: 1, created: now, ends: Expiry::Never, used: None }];
        let id = key.id();
        let record = KeyRecord { id, name, purpose, limits, expires, created: now, revoked: None, secrets };
        self.tell(&mut change, now, told(Action::KeyCreate, None, &record)).await?;
        change.commit().await?;
        Ok((record, key.reveal()))
    }

    /// All keys, revoked and expired ones too, the oldest first; at most [`crate::KEYS_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        gather(&sqlx::query(select!("")).fetch_all(&self.pool).await?)
    }

    /// One key; none when there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn find_key(&self, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        let rows = sqlx::query(select!("WHERE k.id = $1")).bind(id.as_str()).fetch_all(&self.pool).await?;
        Ok(gather(&rows)?.pop())
    }

    /// Gives a key a new secret. The one before works for `overlap` more, and any older one stops at once, so that there are
    /// never more than two.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`]; [`StoreError::KeyEnded`] for one that is revoked or has expired;
    /// [`StoreError::OverlapTooLong`].
    pub async fn rotate_key(
        &self,
        id: KeyId,
        overlap: Duration,
        now: UnixMillis,
    ) -> Result<Rotated, StoreError> {
        self.rotate_key_if(id, overlap, Expect::Any, now).await
    }

    /// The same, if the key looks as it is expected to.
    ///
    /// # Errors
    /// As [`Store::rotate_key`]; [`StoreError::Stale`].
    pub async fn rotate_key_if(
        &self,
        id: KeyId,
        overlap: Duration,
        expect: Expect,
        now: UnixMillis,
    ) -> Result<Rotated, StoreError> {
        if overlap > OVERLAP_MAX {
            return Err(StoreError::OverlapTooLong { asked: overlap, allowed: OVERLAP_MAX });
        }
        let old_ends = now.after(overlap);
        let mut change = self.change().await?;
        let record = found(&mut change, id).await?;
        expect.check(record.version())?;
        if record.revoked.is_some() || record.expires.has_passed(now) {
            return Err(StoreError::KeyEnded(id));
        }
        let newest = *record.secrets.last().ok_or(row::damaged("secrets", "key"))?;
        let serial = newest.serial.saturating_add(1);
        let key =
            ApiKey::another(record.purpose.kind(), id, &self.random).map_err(|_| StoreError::NoRandomness)?;
        sqlx::query("DELETE FROM secrets WHERE key = $1 AND serial < $2")
            .bind(id.as_str())
            .bind(i64::from(newest.serial))
            .execute(change.on())
            .await?;
        sqlx::query("UPDATE secrets SET ends_ms = $1 WHERE key = $2")
            .bind(old_ends.get())
            .bind(id.as_str())
            .execute(change.on())
            .await?;
        self.insert_secret(&mut change, &key, serial, now).await?;
        let revision = change.revision();
        sqlx::query("UPDATE api_keys SET revision = $1 WHERE id = $2")
            .bind(revision)
            .bind(id.as_str())
            .execute(change.on())
            .await?;
        let secrets = vec![
            SecretRecord { ends: Expiry::At(old_ends), ..newest },
            SecretRecord { serial, created: now, ends: Expiry::Never, used: None },
        ];
        let after = KeyRecord { secrets, ..record.clone() };
        self.tell(&mut change, now, told(Action::KeyRotate, Some(&record), &after)).await?;
        change.commit().await?;
        Ok(Rotated { key: key.reveal(), old_ends, record: after })
    }

    async fn insert_secret(
        &self,
        change: &mut Change,
        key: &ApiKey,
        serial: u32,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let digest = self.pepper.digest(key);
        sqlx::query("INSERT INTO secrets (key, serial, pepper_version, digest, created_ms) VALUES ($1, $2, $3, $4, $5)")
            .bind(key.id().as_str())
            .bind(i64::from(serial))
            .bind(i64::from(digest.version))
            .bind(digest.tag.as_slice())
            .bind(now.get())
            .execute(change.on())
            .await?;
        Ok(())
    }
}

pub(super) async fn found(change: &mut Change, id: KeyId) -> Result<KeyRecord, StoreError> {
    let rows = sqlx::query(select!("WHERE k.id = $1")).bind(id.as_str()).fetch_all(change.on()).await?;
    gather(&rows)?.pop().ok_or(StoreError::NoSuchKey(id))
}

/// What a change of a key tells.
pub(super) fn told(action: Action, before: Option<&KeyRecord>, after: &KeyRecord) -> Told {
    Told {
        action,
        subject: after.id.to_string(),
        tenant: after.purpose.tenant(),
        before: before.map(KeyRecord::public),
        after: Some(after.public()),
    }
}

async fn insert(change: &mut Change, id: KeyId, spec: &KeySpec, now: UnixMillis) -> Result<(), StoreError> {
    let (project, role, scopes) = match &spec.purpose {
        Purpose::Service { tenant, project, scopes, .. } => {
            projects::demand(change, *tenant, *project).await?;
            let scopes = serde_json::to_string(scopes);
            (Some(project.bytes().as_slice()), None, scopes.map_err(|_| row::damaged("api_keys", "scopes"))?)
        }
        Purpose::Person { role, .. } => (None, Some(role.name()), "{}".to_owned()),
        Purpose::Auditor { .. } => (None, None, "{}".to_owned()),
    };
    let tenant = spec.purpose.tenant();
    let revision = change.revision();
    let inserted = sqlx::query(
        "INSERT INTO api_keys (id, kind, tenant, project, role, name, scopes, window_cap, concurrency, expires_ms, created_ms, revision)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(id.as_str())
    .bind(spec.purpose.kind().name())
    .bind(tenant.as_ref().map(|tenant| tenant.bytes().as_slice()))
    .bind(project)
    .bind(role)
    .bind(spec.name.as_str())
    .bind(scopes)
    .bind(stored_window_cap(spec.limits.window_cap)?)
    .bind(stored_concurrency(spec.limits.concurrency)?)
    .bind(stored_expiry(spec.expires))
    .bind(now.get())
    .bind(revision)
    .execute(change.on())
    .await;
    match (inserted, tenant) {
        (Err(sqlx::Error::Database(error)), Some(tenant)) if error.is_foreign_key_violation() => {
            Err(StoreError::NoSuchTenant(tenant))
        }
        (Err(error), _) => Err(error.into()),
        (Ok(_), _) => Ok(()),
    }
}

fn checked(spec: &KeySpec, now: UnixMillis) -> Result<(), StoreError> {
    stored_window_cap(spec.limits.window_cap)?;
    stored_concurrency(spec.limits.concurrency)?;
    if let Purpose::Service { scopes, .. } = &spec.purpose {
        scopes.check()?;
    }
    if spec.expires.has_passed(now) { Err(StoreError::ExpiryPassed) } else { Ok(()) }
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
        Concurrency::AtMost(limit) if limit.get() <= allowed => Ok(Some(limit.get().into())),
        Concurrency::AtMost(limit) => Err(StoreError::ConcurrencyTooHigh { asked: limit.get(), allowed }),
    }
}

const fn stored_expiry(expires: Expiry) -> Option<i64> {
    match expires {
        Expiry::Never => None,
        Expiry::At(moment) => Some(moment.get()),
    }
}
