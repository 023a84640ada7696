//! Projects: parts of a tenant with keys and accounts of their own.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::level::ProjectId;
use crate::name::Name;
use crate::store::change::Change;
use crate::store::events::{Action, Told};
use crate::store::{Belonging, Store, TenantId, new_id, room_for_one_more, row};
use crate::time::UnixMillis;

/// A part of a tenant.
#[derive(Clone, Debug)]
pub struct Project {
    /// Names it.
    pub id: ProjectId,
    /// Whose it is.
    pub tenant: TenantId,
    /// What people call it; unique within its tenant.
    pub name: Name,
    /// When it was made.
    pub created: UnixMillis,
}

impl Project {
    /// What the project that a tenant begins with is called.
    pub const DEFAULT: &'static str = "default";

    pub(super) fn read(row: &AnyRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row::project_id(row.try_get(0)?, "projects", "id")?,
            tenant: row::tenant_id(row.try_get(1)?, "projects", "tenant")?,
            name: row::name(row.try_get(2)?, "projects")?,
            created: row::millis(row.try_get(3)?, "projects", "created_ms")?,
        })
    }
}

pub(super) fn default_name() -> Result<Name, StoreError> {
    Name::new(Project::DEFAULT).map_err(|_| StoreError::Damaged { table: "projects", column: "name" })
}

pub(super) async fn insert(
    change: &mut Change,
    room: u32,
    tenant: TenantId,
    name: Name,
    now: UnixMillis,
) -> Result<Project, StoreError> {
    let held = sqlx::query_scalar("SELECT count(*) FROM projects").fetch_one(change.on()).await?;
    room_for_one_more(held, room)?;
    let project = Project { id: ProjectId(new_id(now)), tenant, name, created: now };
    let revision = change.revision();
    let inserted = sqlx::query(
        "INSERT INTO projects (id, tenant, name, created_ms, revision) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(project.id.bytes().as_slice())
    .bind(tenant.bytes().as_slice())
    .bind(project.name.as_str())
    .bind(now.get())
    .bind(revision)
    .execute(change.on())
    .await;
    match inserted {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(StoreError::NameTaken),
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => {
            Err(StoreError::NoSuchTenant(tenant))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(project),
    }
}

/// Refuses a project that is not the tenant's.
pub(super) async fn demand(
    change: &mut Change,
    tenant: TenantId,
    project: ProjectId,
) -> Result<(), StoreError> {
    let found: Option<i64> =
        sqlx::query_scalar("SELECT created_ms FROM projects WHERE id = $1 AND tenant = $2")
            .bind(project.bytes().as_slice())
            .bind(tenant.bytes().as_slice())
            .fetch_optional(change.on())
            .await?;
    found.map(|_| ()).ok_or(StoreError::NoSuchProject(project))
}

impl Store {
    /// Makes a project of a tenant.
    ///
    /// # Errors
    /// [`StoreError::NoSuchTenant`]; [`StoreError::NameTaken`] within the tenant; [`StoreError::Full`], [`StoreError::TenantFull`].
    pub async fn create_project(
        &self,
        tenant: TenantId,
        name: Name,
        now: UnixMillis,
    ) -> Result<Project, StoreError> {
        let mut change = self.change().await?;
        self.demand_room(&mut change, tenant, Belonging::Projects).await?;
        let project = insert(&mut change, self.room.projects, tenant, name, now).await?;
        self.tell_project(&mut change, &project).await?;
        change.commit().await?;
        Ok(project)
    }

    /// Says that a project was made.
    pub(super) async fn tell_project(
        &self,
        change: &mut Change,
        project: &Project,
    ) -> Result<(), StoreError> {
        let told = Told {
            action: Action::ProjectCreate,
            subject: project.id.to_string(),
            tenant: Some(project.tenant),
            before: None,
            after: Some(project.public()),
        };
        self.tell(change, project.created, told).await
    }

    /// A tenant's projects, the oldest first.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_projects(&self, tenant: TenantId) -> Result<Vec<Project>, StoreError> {
        let rows =
            sqlx::query("SELECT id, tenant, name, created_ms FROM projects WHERE tenant = $1 ORDER BY id")
                .bind(tenant.bytes().as_slice())
                .fetch_all(&self.pool)
                .await?;
        rows.iter().map(Project::read).collect()
    }

    /// A tenant's project of this name; none when there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn find_project(&self, tenant: TenantId, name: &str) -> Result<Option<Project>, StoreError> {
        let row =
            sqlx::query("SELECT id, tenant, name, created_ms FROM projects WHERE tenant = $1 AND name = $2")
                .bind(tenant.bytes().as_slice())
                .bind(name)
                .fetch_optional(&self.pool)
                .await?;
        row.as_ref().map(Project::read).transpose()
    }
}
