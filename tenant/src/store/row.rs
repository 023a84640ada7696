//! What rows mean. A row that says what no program of ours writes is refused, not guessed at.

use core::fmt;
use core::num::NonZeroU32;
use std::collections::HashMap;
use std::sync::Arc;

use isolation::tag::TenantTag;
use policies::WindowCap;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use crate::error::StoreError;
use crate::key::KeyId;
use crate::limits::{Concurrency, Expiry, KeyLimits};
use crate::name::Name;
use crate::share::{MemoryCap, MemoryShare, TenantShare};
use crate::time::UnixMillis;

/// Names a tenant, outside the engine. A UUID v7: ids sort by birth.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TenantId(pub(crate) Uuid);

impl TenantId {
    /// Reads an id, as it stands in a listing.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// The 16 bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({self})")
    }
}

/// A customer.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Names it outside the engine.
    pub id: TenantId,
    /// What people call it; unique.
    pub name: Name,
    /// Names it inside the engine; 64 random bits, never given to another tenant.
    pub tag: TenantTag,
    /// When it was made.
    pub created: UnixMillis,
    /// What it may hold of an engine's memory.
    pub share: MemoryShare,
}

/// A key, without its secret.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    /// Names it in listings and logs.
    pub id: KeyId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Tells it from the tenant's other keys.
    pub name: Name,
    /// What it may take.
    pub limits: KeyLimits,
    /// When it stops working by itself.
    pub expires: Expiry,
    /// When it was made.
    pub created: UnixMillis,
    /// When it was revoked; none while it is not.
    pub revoked: Option<UnixMillis>,
}

/// Rises with each change of the store.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub(crate) i64);

/// All keys that were not revoked, as one moment saw them.
pub struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) entries: HashMap<KeyId, Entry>,
    /// Of tenants that have one; by tag.
    pub(crate) shares: Arc<[TenantShare]>,
}

impl Snapshot {
    /// Which moment.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// How many keys.
    pub fn keys(&self) -> usize {
        self.entries.len()
    }
}

/// What authentication needs of one key.
pub(crate) struct Entry {
    pub(crate) tenant: TenantId,
    pub(crate) tag: TenantTag,
    pub(crate) pepper_version: u32,
    pub(crate) digest: [u8; 32],
    pub(crate) limits: KeyLimits,
    pub(crate) expires: Expiry,
}

impl Tenant {
    /// Columns: id, name, tag, created_ms, floor, cap, weight.
    pub(super) fn read(row: &SqliteRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: tenant_id(row.try_get(0)?, "tenants", "id")?,
            name: name(row.try_get(1)?, "tenants")?,
            tag: TenantTag::new(row.try_get::<i64, _>(2)?.cast_unsigned()),
            created: millis(row.try_get(3)?, "tenants", "created_ms")?,
            share: match row.try_get::<Option<i64>, _>(4)? {
                None => MemoryShare::default(),
                Some(floor) => share(floor, row.try_get(5)?, row.try_get(6)?)?,
            },
        })
    }
}

/// Columns: tag, floor, cap, weight.
pub(super) fn tenant_share(row: &SqliteRow) -> Result<TenantShare, StoreError> {
    Ok(TenantShare {
        tag: TenantTag::new(row.try_get::<i64, _>(0)?.cast_unsigned()),
        share: share(row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)?,
    })
}

fn share(floor: i64, cap: Option<i64>, weight: i64) -> Result<MemoryShare, StoreError> {
    let positive = |stored: i64, column| {
        u32::try_from(stored).ok().and_then(NonZeroU32::new).ok_or_else(|| damaged("shares", column))
    };
    let share = MemoryShare {
        floor: u32::try_from(floor).map_err(|_| damaged("shares", "floor"))?,
        cap: match cap {
            None => MemoryCap::Pool,
            Some(tokens) => MemoryCap::Tokens(positive(tokens, "cap")?),
        },
        weight: positive(weight, "weight")?,
    };
    share.checked().map_err(|_| damaged("shares", "floor"))
}

impl KeyRecord {
    /// Columns: id, tenant, name, window_cap, concurrency, expires_ms, created_ms, revoked_ms.
    pub(super) fn read(row: &SqliteRow) -> Result<Self, StoreError> {
        let revoked: Option<i64> = row.try_get(7)?;
        Ok(Self {
            id: key_id(row.try_get(0)?)?,
            tenant: tenant_id(row.try_get(1)?, "keys", "tenant")?,
            name: name(row.try_get(2)?, "keys")?,
            limits: limits(row.try_get(3)?, row.try_get(4)?)?,
            expires: expiry(row.try_get(5)?)?,
            created: millis(row.try_get(6)?, "keys", "created_ms")?,
            revoked: revoked.map(|at| millis(at, "keys", "revoked_ms")).transpose()?,
        })
    }
}

impl Entry {
    /// Columns: id, tenant, tag, pepper_version, digest, window_cap, concurrency, expires_ms.
    pub(super) fn read(row: &SqliteRow) -> Result<(KeyId, Self), StoreError> {
        let version: i64 = row.try_get(3)?;
        let digest: &[u8] = row.try_get(4)?;
        let entry = Self {
            tenant: tenant_id(row.try_get(1)?, "keys", "tenant")?,
            tag: TenantTag::new(row.try_get::<i64, _>(2)?.cast_unsigned()),
            pepper_version: u32::try_from(version).map_err(|_| damaged("keys", "pepper_version"))?,
            digest: digest.try_into().map_err(|_| damaged("keys", "digest"))?,
            limits: limits(row.try_get(5)?, row.try_get(6)?)?,
            expires: expiry(row.try_get(7)?)?,
        };
        Ok((key_id(row.try_get(0)?)?, entry))
    }
}

pub(super) fn millis(
    stored: i64,
    table: &'static str,
    column: &'static str,
) -> Result<UnixMillis, StoreError> {
    UnixMillis::new(stored).ok_or_else(|| damaged(table, column))
}

fn tenant_id(stored: &[u8], table: &'static str, column: &'static str) -> Result<TenantId, StoreError> {
    Uuid::from_slice(stored).map(TenantId).map_err(|_| damaged(table, column))
}

fn key_id(stored: &str) -> Result<KeyId, StoreError> {
    KeyId::parse(stored).ok_or_else(|| damaged("keys", "id"))
}

fn name(stored: &str, table: &'static str) -> Result<Name, StoreError> {
    Name::new(stored).map_err(|_| damaged(table, "name"))
}

fn limits(window_cap: Option<i64>, concurrency: Option<i64>) -> Result<KeyLimits, StoreError> {
    let positive = |stored: i64, column| {
        u32::try_from(stored).ok().and_then(NonZeroU32::new).ok_or_else(|| damaged("keys", column))
    };
    Ok(KeyLimits {
        window_cap: match window_cap {
            None => WindowCap::Inherit,
            Some(tokens) => WindowCap::Tokens(positive(tokens, "window_cap")?),
        },
        concurrency: match concurrency {
            None => Concurrency::Inherit,
            Some(limit) => Concurrency::AtMost(positive(limit, "concurrency")?),
        },
    })
}

fn expiry(stored: Option<i64>) -> Result<Expiry, StoreError> {
    match stored {
        None => Ok(Expiry::Never),
        Some(at) => millis(at, "keys", "expires_ms").map(Expiry::At),
    }
}

const fn damaged(table: &'static str, column: &'static str) -> StoreError {
    StoreError::Damaged { table, column }
}
