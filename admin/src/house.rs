//! What all handlers share, and what they find in the store for somebody.

use core::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tenant::{
    Actor, Directory, Failures, KeyId, KeyRecord, Project, ProjectId, Reach, Store, Tenant, TenantId,
    UnixMillis,
};

use crate::asker::Asker;
use crate::leaks::Account;
use crate::pace::Pace;
use crate::problem::{Kind, Problem};
use crate::scanners::Scanners;

/// What all handlers share.
pub(crate) struct House {
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) failures: Failures,
    pub(crate) failures_per_minute: NonZeroU32,
    pub(crate) keys_age_max: Duration,
    /// Who may sign reports of leaked keys, and how often they were sent.
    pub(crate) scanners: Scanners,
    pub(crate) reports: Pace<Account>,
    /// Where the clock of failures began.
    pub(crate) began: Instant,
}

pub(crate) type Shared = Arc<House>;

/// The clock of this server.
pub(crate) fn now() -> UnixMillis {
    UnixMillis::from_system(SystemTime::now())
}

impl House {
    /// The store, in which what is changed is this person's doing.
    pub(crate) fn store_of(&self, asker: &Asker) -> Store {
        self.store.acting_as(Actor::Key(asker.key))
    }

    pub(crate) async fn tenant(&self, asker: &Asker, id: &str) -> Result<Tenant, Problem> {
        let id = TenantId::parse(id).filter(|id| asker.reaches(Some(*id))).ok_or_else(Problem::not_found)?;
        self.store.tenant(id).await?.ok_or_else(Problem::not_found)
    }

    pub(crate) async fn project(&self, asker: &Asker, id: &str) -> Result<Project, Problem> {
        let id = ProjectId::parse(id).ok_or_else(Problem::not_found)?;
        let found = self.store.project(id).await?;
        found.filter(|project| asker.reaches(Some(project.tenant))).ok_or_else(Problem::not_found)
    }

    pub(crate) async fn key(&self, asker: &Asker, id: &str) -> Result<KeyRecord, Problem> {
        let id = KeyId::parse(id).ok_or_else(Problem::not_found)?;
        let found = self.store.find_key(id).await?;
        found.filter(|key| asker.reaches(key.purpose.tenant())).ok_or_else(Problem::not_found)
    }

    /// The one tenant of which something is listed that is never listed over all.
    pub(crate) async fn one_tenant(&self, asker: &Asker, named: Option<&str>) -> Result<TenantId, Problem> {
        match self.reach(asker, named).await? {
            Reach::Tenant(tenant) => Ok(tenant),
            Reach::Installation => Err(Problem::new(Kind::BadRequest, "an operator must say `tenant`")),
        }
    }

    /// The tenant of which something is listed or made: the one that is named, or the asker's own. For an operator who names none,
    /// all.
    pub(crate) async fn reach(&self, asker: &Asker, named: Option<&str>) -> Result<Reach, Problem> {
        match named {
            Some(named) => Ok(Reach::Tenant(self.tenant(asker, named).await?.id)),
            None => Ok(asker.reach),
        }
    }
}
