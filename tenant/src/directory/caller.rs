//! Who called, made of a key that was proven and of nothing else.

use std::sync::Arc;

use isolation::tag::TenantTag;

use super::snapshot::{Entry, Snapshot, Terms};
use crate::key::KeyId;
use crate::ledger::Payer;
use crate::level::ProjectId;
use crate::limits::KeyLimits;
use crate::purpose::{Mode, Purpose, Reach, Role};
use crate::scopes::Scopes;
use crate::store::{TenantId, TenantState};

/// Who called. Only [`crate::Directory::authenticate`] makes one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Caller {
    /// A program that asks models.
    Service(Principal),
    /// A person that looks after tenants.
    Person(Administrator),
    /// Somebody who reads a tenant's part of the audit log.
    Auditor(AuditReader),
}

/// A program that asks models, and what it may take. Outside this crate only [`crate::Directory::authenticate`] makes one.
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

    /// Who pays for what it asks.
    pub const fn payer(&self) -> Payer {
        Payer { tenant: self.tenant, project: self.project, key: self.key }
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

/// Makes a caller of a key that is proven.
pub(super) fn identify(snapshot: &Snapshot, entry: &Entry) -> Result<Caller, NotAuthenticated> {
    let key = entry.id;
    let of = |id| {
        let tenant = snapshot.tenant(id).ok_or(NotAuthenticated::Invalid)?;
        match tenant.state {
            TenantState::Active => Ok(tenant.tag),
            TenantState::Suspended(_) => Err(NotAuthenticated::Suspended),
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
