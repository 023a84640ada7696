//! How many of each a store may hold, and how many of them one tenant may have: nobody's many keep another from the first.

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::store::change::Change;
use crate::store::{
    ANSWERS_PER_ACCOUNT_MAX, Actor, BUDGETS_MAX, EVENTS_KEPT, KEYS_MAX, LIMITS_MAX, PROJECTS_MAX, Store,
    TENANTS_MAX, TenantId,
};

/// Keys that one tenant may have where nobody says otherwise, revoked ones included.
pub const KEYS_PER_TENANT: u32 = 100_000;
/// Projects that one tenant may have where nobody says otherwise.
pub const PROJECTS_PER_TENANT: u32 = 10_000;
/// Limits that one tenant may have where nobody says otherwise, those that were lifted included.
pub const LIMITS_PER_TENANT: u32 = 100_000;
/// Budgets that one tenant may have where nobody says otherwise, those that were lifted included.
pub const BUDGETS_PER_TENANT: u32 = 100_000;

/// How many of each one tenant may have. What is done at the command line is not bound by it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TenantBounds {
    /// Keys, revoked ones included.
    pub keys: u32,
    /// Projects.
    pub projects: u32,
    /// Limits, those that were lifted included.
    pub limits: u32,
    /// Budgets, those that were lifted included.
    pub budgets: u32,
}

impl Default for TenantBounds {
    fn default() -> Self {
        Self {
            keys: KEYS_PER_TENANT,
            projects: PROJECTS_PER_TENANT,
            limits: LIMITS_PER_TENANT,
            budgets: BUDGETS_PER_TENANT,
        }
    }
}

/// What a tenant has many of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Belonging {
    /// Keys.
    Keys,
    /// Projects.
    Projects,
    /// Limits of a scope.
    Limits,
    /// Budgets.
    Budgets,
}

impl Belonging {
    /// As in "the tenant has 3 {}".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Projects => "projects",
            Self::Limits => "limits",
            Self::Budgets => "budgets",
        }
    }
}

/// How many of each the store may hold.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) tenants: u32,
    pub(super) projects: u32,
    pub(super) keys: u32,
    pub(super) limits: u32,
    pub(super) budgets: u32,
    pub(super) events: u32,
    pub(super) answers_per_account: u32,
    pub(super) of_tenant: TenantBounds,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            tenants: TENANTS_MAX,
            projects: PROJECTS_MAX,
            keys: KEYS_MAX,
            limits: LIMITS_MAX,
            budgets: BUDGETS_MAX,
            events: EVENTS_KEPT,
            answers_per_account: ANSWERS_PER_ACCOUNT_MAX,
            of_tenant: TenantBounds::default(),
        }
    }
}

impl Store {
    /// Another handle on the same store, in which a tenant may have so many.
    #[must_use]
    pub fn bounded(&self, of_tenant: TenantBounds) -> Self {
        Self { room: Room { of_tenant, ..self.room }, ..self.clone() }
    }

    /// Refuses one more of what a tenant has its part of already.
    pub(super) async fn demand_room(
        &self,
        change: &mut Change,
        tenant: TenantId,
        part: Belonging,
    ) -> Result<(), StoreError> {
        if matches!(self.actor, Actor::CommandLine) || seeded(Fault::PartUnbounded) {
            return Ok(());
        }
        let bounds = self.room.of_tenant;
        let (text, allowed) = match part {
            Belonging::Keys => ("SELECT count(*) FROM api_keys WHERE tenant = $1", bounds.keys),
            Belonging::Projects => ("SELECT count(*) FROM projects WHERE tenant = $1", bounds.projects),
            Belonging::Limits => ("SELECT count(*) FROM limits WHERE tenant = $1", bounds.limits),
            Belonging::Budgets => ("SELECT count(*) FROM budgets WHERE tenant = $1", bounds.budgets),
        };
        let count = sqlx::query_scalar(text).bind(tenant.bytes().to_vec());
        let held: i64 = count.fetch_one(change.on()).await?;
        if held < i64::from(allowed) {
            return Ok(());
        }
        Err(StoreError::TenantFull { part, held: u32::try_from(held).unwrap_or(u32::MAX), allowed })
    }
}

pub(super) fn room_for_one_more(held: i64, limit: u32) -> Result<(), StoreError> {
    if held < i64::from(limit) { Ok(()) } else { Err(StoreError::Full { limit }) }
}
