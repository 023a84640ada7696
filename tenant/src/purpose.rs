//! What a key is for, and for whom. What makes no sense together cannot be said.

use crate::key::KeyKind;
use crate::level::ProjectId;
use crate::scopes::Scopes;
use crate::store::TenantId;

/// What a key is for.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Purpose {
    /// Asks models, on a project's account.
    Service {
        /// The project's tenant.
        tenant: TenantId,
        /// On whose account.
        project: ProjectId,
        /// Whether it is listed apart in usage.
        mode: Mode,
        /// What it may be used for.
        scopes: Scopes,
    },
    /// Changes tenants, projects and keys, in the name of a person.
    Person {
        /// Of whom.
        reach: Reach,
        /// What the person may do there.
        role: Role,
    },
    /// Reads a tenant's part of the audit log (`audit.read`).
    Auditor {
        /// Whose.
        tenant: TenantId,
    },
}

impl Purpose {
    /// The kind of key that serves it.
    pub const fn kind(&self) -> KeyKind {
        match self {
            Self::Service { mode: Mode::Live, .. } => KeyKind::Live,
            Self::Service { mode: Mode::Test, .. } => KeyKind::Test,
            Self::Person { .. } => KeyKind::Admin,
            Self::Auditor { .. } => KeyKind::Audit,
        }
    }

    /// The tenant that the key belongs to; none for one of the installation's operators.
    pub const fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Service { tenant, .. }
            | Self::Person { reach: Reach::Tenant(tenant), .. }
            | Self::Auditor { tenant } => Some(*tenant),
            Self::Person { reach: Reach::Installation, .. } => None,
        }
    }
}

/// Whether the requests of a key are listed apart in usage. In all else both are alike.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Mode {
    /// Like all others.
    Live,
    /// As tests.
    Test,
}

/// What a person's key reaches.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Reach {
    /// All tenants, and what is common to them.
    Installation,
    /// One tenant.
    Tenant(TenantId),
}

/// What a person may do. Each may do all that the one after it may, but that an auditor alone reads the audit log beside the owner.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// All, with the keys of persons among it.
    Owner,
    /// All but the keys of persons.
    Admin,
    /// Makes, rotates and revokes service keys, and reads.
    Member,
    /// Reads settings, usage and the audit log; changes nothing.
    Auditor,
}

impl Role {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Owner, Self::Admin, Self::Member, Self::Auditor];

    /// As it stands in a listing and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Member => "member",
            Self::Auditor => "auditor",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == text)
    }
}
