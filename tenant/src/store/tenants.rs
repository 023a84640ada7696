//! Tenants, and what they may hold of an engine's memory.

use core::num::NonZeroU32;

use isolation::tag::TenantTag;
use ring::rand::SecureRandom;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::name::Name;
use crate::share::{MemoryCap, MemoryShare};
use crate::store::change::Change;
use crate::store::events::{Action, Told};
use crate::store::{Expect, Store, TenantId, new_id, projects, room_for_one_more, row};
use crate::time::UnixMillis;

/// Draws of a tag. That even two of 100,000 tags meet has a chance of 1 in 10^9.
const TAG_DRAWS_MAX: usize = 4;

/// What [`Tenant::read`] reads.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT id, name, tag, created_ms, suspended_ms, floor, cap, weight
             FROM tenants LEFT JOIN shares ON shares.tenant = tenants.id ",
            $which
        )
    };
}
pub(super) use select;

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
    /// Whether its keys work.
    pub state: TenantState,
    /// What it may hold of an engine's memory.
    pub share: MemoryShare,
}

/// Whether a tenant's keys work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TenantState {
    /// They do.
    Active,
    /// None does, since this moment.
    Suspended(UnixMillis),
}

impl Tenant {
    pub(super) fn read(row: &AnyRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row::tenant_id(row.try_get(0)?, "tenants", "id")?,
            name: row::name(row.try_get(1)?, "tenants")?,
            tag: TenantTag::new(row.try_get::<i64, _>(2)?.cast_unsigned()),
            created: row::millis(row.try_get(3)?, "tenants", "created_ms")?,
            state: row::state(row.try_get(4)?)?,
            share: row::share(row.try_get(5)?, row.try_get(6)?, row.try_get(7)?)?,
        })
    }
}

impl Store {
    /// Makes a tenant with a fresh id, a tag that no tenant ever had, and a project `default`.
    ///
    /// # Errors
    /// [`StoreError::NameTaken`], [`StoreError::Full`].
    pub async fn create_tenant(&self, name: Name, now: UnixMillis) -> Result<Tenant, StoreError> {
        let mut change = self.change().await?;
        let held = sqlx::query_scalar("SELECT count(*) FROM tenants").fetch_one(change.on()).await?;
        room_for_one_more(held, self.room.tenants)?;
        let tag = self.draw_tag(&mut change).await?;
        let (state, share) = (TenantState::Active, MemoryShare::default());
        let tenant = Tenant { id: TenantId(new_id(now)), name, tag, created: now, state, share };
        let revision = change.revision();
        let inserted = sqlx::query(
            "INSERT INTO tenants (id, name, tag, created_ms, revision) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(tenant.id.bytes().as_slice())
        .bind(tenant.name.as_str())
        .bind(tenant.tag.get().cast_signed())
        .bind(tenant.created.get())
        .bind(revision)
        .execute(change.on())
        .await;
        match inserted {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Err(StoreError::NameTaken);
            }
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let told = Told {
            action: Action::TenantCreate,
            subject: tenant.id.to_string(),
            tenant: Some(tenant.id),
            before: None,
            after: Some(tenant.public()),
        };
        self.tell(&mut change, now, told).await?;
        let (room, first) = (self.room.projects, projects::default_name()?);
        let project = projects::insert(&mut change, room, tenant.id, first, now).await?;
        self.tell_project(&mut change, &project).await?;
        change.commit().await?;
        Ok(tenant)
    }

    /// All tenants, the oldest first; at most [`crate::TENANTS_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        let rows = sqlx::query(select!("ORDER BY id")).fetch_all(&self.pool).await?;
        rows.iter().map(Tenant::read).collect()
    }

    /// The tenant of this name; none when there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn find_tenant(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let row = sqlx::query(select!("WHERE name = $1")).bind(name).fetch_optional(&self.pool).await?;
        row.as_ref().map(Tenant::read).transpose()
    }

    /// One tenant; none when there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        let row = sqlx::query(select!("WHERE id = $1"));
        let row = row.bind(id.bytes().as_slice()).fetch_optional(&self.pool).await?;
        row.as_ref().map(Tenant::read).transpose()
    }

    /// Gives a tenant another share of the engine's memory. Whether all floors fit is the engine's to say, whose pool they
    /// must fit in.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`], [`StoreError::BadShare`].
    pub async fn set_share(
        &self,
        tenant: TenantId,
        share: MemoryShare,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let share =
            ShareChange { floor: Some(share.floor), cap: Some(share.cap), weight: Some(share.weight) };
        let asked = TenantChange { share, ..TenantChange::default() };
        self.change_tenant(tenant, &asked, Expect::Any, now).await.map(|_| ())
    }

    /// Lets no key of a tenant work from now on, or all those again that did. To do it again changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`].
    pub async fn set_state(
        &self,
        tenant: TenantId,
        state: TenantState,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let asked = TenantChange { state: Some(state), ..TenantChange::default() };
        self.change_tenant(tenant, &asked, Expect::Any, now).await.map(|_| ())
    }

    /// Changes what is asked of a tenant, and nothing else; returns how it is then. What it is already is no change, and has no event. Whether all floors fit is the engine's to say.
    /// The first moment of a suspension stays.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`], [`StoreError::Stale`], [`StoreError::BadShare`], [`StoreError::NameTaken`].
    pub async fn change_tenant(
        &self,
        id: TenantId,
        asked: &TenantChange,
        expect: Expect,
        now: UnixMillis,
    ) -> Result<Tenant, StoreError> {
        let mut change = self.change().await?;
        let row = sqlx::query(select!("WHERE id = $1"));
        let row = row.bind(id.bytes().to_vec()).fetch_optional(change.on()).await?;
        let before = Tenant::read(&row.ok_or(StoreError::NoSuchTenant(id))?)?;
        expect.check(before.version())?;
        let after = asked.applied(&before)?;
        if after.version() == before.version() {
            return Ok(after);
        }
        let revision = change.revision();
        write(change.on(), &after, revision).await?;
        let told = Told {
            action: Action::TenantChange,
            subject: id.to_string(),
            tenant: Some(id),
            before: Some(before.public()),
            after: Some(after.public()),
        };
        self.tell(&mut change, now, told).await?;
        change.commit().await?;
        Ok(after)
    }

    async fn draw_tag(&self, change: &mut Change) -> Result<TenantTag, StoreError> {
        for _ in 0..TAG_DRAWS_MAX {
            let mut bytes = [0; 8];
            self.random.fill(&mut bytes).map_err(|_| StoreError::NoRandomness)?;
            let tag = u64::from_ne_bytes(bytes);
            let drawn = sqlx::query("INSERT INTO tags (tag) VALUES ($1) ON CONFLICT DO NOTHING")
                .bind(tag.cast_signed())
                .execute(change.on())
                .await?;
            if drawn.rows_affected() == 1 {
                return Ok(TenantTag::new(tag));
            }
        }
        Err(StoreError::NoRandomness)
    }
}

/// What is to be changed of a tenant; the default is nothing.
#[derive(Clone, Debug, Default)]
pub struct TenantChange {
    /// Another name.
    pub name: Option<Name>,
    /// Whether its keys work.
    pub state: Option<TenantState>,
    /// What it may hold of an engine's memory.
    pub share: ShareChange,
}

/// What is to be changed of a tenant's share; the default is nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ShareChange {
    /// Tokens that no other tenant can hold.
    pub floor: Option<u32>,
    /// Tokens at most.
    pub cap: Option<MemoryCap>,
    /// The weight against other tenants.
    pub weight: Option<NonZeroU32>,
}

impl TenantChange {
    fn applied(&self, before: &Tenant) -> Result<Tenant, StoreError> {
        let ShareChange { floor, cap, weight } = self.share;
        let share = MemoryShare {
            floor: floor.unwrap_or(before.share.floor),
            cap: cap.unwrap_or(before.share.cap),
            weight: weight.unwrap_or(before.share.weight),
        };
        let state = match (before.state, self.state) {
            (TenantState::Suspended(since), Some(TenantState::Suspended(_))) => TenantState::Suspended(since),
            (state, None) | (_, Some(state)) => state,
        };
        let name = self.name.clone().unwrap_or_else(|| before.name.clone());
        Ok(Tenant { name, state, share: share.checked()?, ..before.clone() })
    }
}

async fn write(on: &mut AnyConnection, tenant: &Tenant, revision: i64) -> Result<(), StoreError> {
    let suspended = match tenant.state {
        TenantState::Active => None,
        TenantState::Suspended(since) => Some(since.get()),
    };
    let written = sqlx::query("UPDATE tenants SET name = $1, suspended_ms = $2, revision = $3 WHERE id = $4")
        .bind(tenant.name.as_str())
        .bind(suspended)
        .bind(revision)
        .bind(tenant.id.bytes().as_slice())
        .execute(&mut *on)
        .await;
    match written {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            return Err(StoreError::NameTaken);
        }
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    let MemoryShare { floor, cap, weight } = tenant.share;
    let cap = match cap {
        MemoryCap::Pool => None,
        MemoryCap::Tokens(tokens) => Some(i64::from(tokens.get())),
    };
    sqlx::query(
        "INSERT INTO shares (tenant, floor, cap, weight) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant) DO UPDATE SET floor = excluded.floor, cap = excluded.cap, weight = excluded.weight",
    )
    .bind(tenant.id.bytes().as_slice())
    .bind(i64::from(floor))
    .bind(cap)
    .bind(i64::from(weight.get()))
    .execute(on)
    .await?;
    Ok(())
}
