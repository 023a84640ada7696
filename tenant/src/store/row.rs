//! What rows mean. A row that says what no program of ours writes is refused, not guessed at.

use core::fmt;
use core::num::NonZeroU32;

use policies::WindowCap;
use sqlx::Row;
use sqlx::any::AnyRow;
use uuid::Uuid;

use crate::error::StoreError;
use crate::key::{KeyId, KeyKind};
use crate::level::ProjectId;
use crate::limits::{Concurrency, Expiry, KeyLimits};
use crate::name::Name;
use crate::purpose::{Mode, Purpose, Reach, Role};
use crate::share::{MemoryCap, MemoryShare};
use crate::store::TenantState;
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

/// Names a store, wherever it lies: 16 random bytes that were drawn when it was first opened. A backup is the same store.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct StoreId(pub(crate) Uuid);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// Where a store has come to. Two that are equal are of one store and one history of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Revision {
    /// Rises with each change.
    pub(crate) number: i64,
    /// Drawn by the change that came to it; none where that was one by hand.
    pub(crate) token: Option<i64>,
    pub(crate) store: StoreId,
}

impl Revision {
    /// Before the first change.
    pub(crate) const NONE: Self = Self { number: 0, token: None, store: StoreId(Uuid::nil()) };

    /// What [`Self::read`] reads.
    pub(super) const SELECT: &str = "SELECT r.value, h.token, i.id FROM revision r
         LEFT JOIN history h ON h.revision = r.value LEFT JOIN identity i ON i.one = r.one";

    pub(super) fn read(row: &AnyRow) -> Result<Self, StoreError> {
        let store: Option<&[u8]> = row.try_get(2)?;
        let store = store.and_then(|id| Uuid::from_slice(id).ok()).map(StoreId);
        Ok(Self {
            number: row.try_get(0)?,
            token: row.try_get(1)?,
            store: store.ok_or_else(|| damaged("identity", "id"))?,
        })
    }
}

pub(crate) fn share(
    floor: Option<i64>,
    cap: Option<i64>,
    weight: Option<i64>,
) -> Result<MemoryShare, StoreError> {
    let (floor, weight) = match (floor, weight) {
        (None, None) => return Ok(MemoryShare::default()),
        (Some(floor), Some(weight)) => (floor, weight),
        (None, Some(_)) | (Some(_), None) => return Err(damaged("shares", "weight")),
    };
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

/// Columns 1 to 5 of a key: kind, tenant, project, role, scopes.
pub(super) fn purpose(row: &AnyRow) -> Result<Purpose, StoreError> {
    let stored = StoredPurpose {
        kind: row.try_get(1)?,
        tenant: row.try_get(2)?,
        project: row.try_get(3)?,
        role: row.try_get(4)?,
        scopes: row.try_get(5)?,
    };
    stored.read()
}

/// A purpose as it is stored.
pub(crate) struct StoredPurpose<'a> {
    pub(crate) kind: &'a str,
    pub(crate) tenant: Option<&'a [u8]>,
    pub(crate) project: Option<&'a [u8]>,
    pub(crate) role: Option<&'a str>,
    pub(crate) scopes: &'a str,
}

impl StoredPurpose<'_> {
    pub(crate) fn read(&self) -> Result<Purpose, StoreError> {
        let kind = KeyKind::parse(self.kind).ok_or_else(|| damaged("api_keys", "kind"))?;
        let tenant = self.tenant.map(|stored| tenant_id(stored, "api_keys", "tenant")).transpose()?;
        let of_tenant = || tenant.ok_or_else(|| damaged("api_keys", "tenant"));
        let service = |mode| {
            let project = self.project.ok_or_else(|| damaged("api_keys", "project"))?;
            let scopes = serde_json::from_str(self.scopes).map_err(|_| damaged("api_keys", "scopes"))?;
            let project = project_id(project, "api_keys", "project")?;
            Ok(Purpose::Service { tenant: of_tenant()?, project, mode, scopes })
        };
        match kind {
            KeyKind::Live => service(Mode::Live),
            KeyKind::Test => service(Mode::Test),
            KeyKind::Audit => Ok(Purpose::Auditor { tenant: of_tenant()? }),
            KeyKind::Admin => {
                let role = self.role.and_then(Role::parse).ok_or_else(|| damaged("api_keys", "role"))?;
                Ok(Purpose::Person { reach: tenant.map_or(Reach::Installation, Reach::Tenant), role })
            }
        }
    }
}

pub(crate) fn state(suspended: Option<i64>) -> Result<TenantState, StoreError> {
    let since = maybe_millis(suspended, "tenants", "suspended_ms")?;
    Ok(since.map_or(TenantState::Active, TenantState::Suspended))
}

pub(super) fn millis(
    stored: i64,
    table: &'static str,
    column: &'static str,
) -> Result<UnixMillis, StoreError> {
    UnixMillis::new(stored).ok_or_else(|| damaged(table, column))
}

pub(super) fn maybe_millis(
    stored: Option<i64>,
    table: &'static str,
    column: &'static str,
) -> Result<Option<UnixMillis>, StoreError> {
    stored.map(|stored| millis(stored, table, column)).transpose()
}

pub(crate) fn expiry(
    stored: Option<i64>,
    table: &'static str,
    column: &'static str,
) -> Result<Expiry, StoreError> {
    Ok(maybe_millis(stored, table, column)?.map_or(Expiry::Never, Expiry::At))
}

pub(crate) fn tenant_id(
    stored: &[u8],
    table: &'static str,
    column: &'static str,
) -> Result<TenantId, StoreError> {
    Uuid::from_slice(stored).map(TenantId).map_err(|_| damaged(table, column))
}

pub(super) fn project_id(
    stored: &[u8],
    table: &'static str,
    column: &'static str,
) -> Result<ProjectId, StoreError> {
    Uuid::from_slice(stored).map(ProjectId).map_err(|_| damaged(table, column))
}

pub(crate) fn key_id(stored: &str) -> Result<KeyId, StoreError> {
    KeyId::parse(stored).ok_or_else(|| damaged("api_keys", "id"))
}

pub(super) fn serial(stored: i64) -> Result<u32, StoreError> {
    u32::try_from(stored).map_err(|_| damaged("secrets", "serial"))
}

pub(super) fn name(stored: &str, table: &'static str) -> Result<Name, StoreError> {
    Name::new(stored).map_err(|_| damaged(table, "name"))
}

pub(crate) fn limits(window_cap: Option<i64>, concurrency: Option<i64>) -> Result<KeyLimits, StoreError> {
    let positive = |stored: i64, column| {
        u32::try_from(stored).ok().and_then(NonZeroU32::new).ok_or_else(|| damaged("api_keys", column))
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

pub(crate) const fn damaged(table: &'static str, column: &'static str) -> StoreError {
    StoreError::Damaged { table, column }
}
