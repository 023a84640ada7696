//! Listings in pages: each in an order that stays, so that a page goes on where the one before ended, whatever was made meanwhile.

use crate::error::StoreError;
use crate::key::KeyId;
use crate::level::ProjectId;
use crate::purpose::Reach;
use crate::rate::{Rule, Scope};
use crate::store::{KeyRecord, Project, Store, Tenant, TenantId, keys, limits, tenants};

/// Things of one page.
pub const LIST_PAGE_MAX: u32 = 1_000;

/// The same statement for all, and for one tenant with its id as `$3`: `$1` is where to go on, `$2` how many at most.
macro_rules! by_reach {
    ($of:expr, $all:expr, $one:expr) => {
        match $of {
            Reach::Installation => $all,
            Reach::Tenant(_) => $one,
        }
    };
}

impl Store {
    /// Tenants after this one, the oldest first: all, or the one that is reached.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn tenants_page(
        &self,
        of: Reach,
        after: Option<TenantId>,
        most: u32,
    ) -> Result<Vec<Tenant>, StoreError> {
        let text = by_reach!(
            of,
            tenants::select!("WHERE id > $1 ORDER BY id LIMIT $2"),
            tenants::select!("WHERE id > $1 AND id = $3 ORDER BY id LIMIT $2")
        );
        let after = after.map(|after| after.bytes().to_vec()).unwrap_or_default();
        let query = sqlx::query(text).bind(after).bind(page(most));
        let query = match of {
            Reach::Installation => query,
            Reach::Tenant(tenant) => query.bind(tenant.bytes().to_vec()),
        };
        query.fetch_all(&self.pool).await?.iter().map(Tenant::read).collect()
    }

    /// Projects after this one, the oldest first.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn projects_page(
        &self,
        of: Reach,
        after: Option<ProjectId>,
        most: u32,
    ) -> Result<Vec<Project>, StoreError> {
        let text = by_reach!(
            of,
            "SELECT id, tenant, name, created_ms FROM projects WHERE id > $1 ORDER BY id LIMIT $2",
            "SELECT id, tenant, name, created_ms FROM projects WHERE id > $1 AND tenant = $3 ORDER BY id LIMIT $2"
        );
        let after = after.map(|after| after.bytes().to_vec()).unwrap_or_default();
        let query = sqlx::query(text).bind(after).bind(page(most));
        let query = match of {
            Reach::Installation => query,
            Reach::Tenant(tenant) => query.bind(tenant.bytes().to_vec()),
        };
        query.fetch_all(&self.pool).await?.iter().map(Project::read).collect()
    }

    /// One project; none when there is none.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn project(&self, id: ProjectId) -> Result<Option<Project>, StoreError> {
        let query = sqlx::query("SELECT id, tenant, name, created_ms FROM projects WHERE id = $1");
        let row = query.bind(id.bytes().as_slice()).fetch_optional(&self.pool).await?;
        row.as_ref().map(Project::read).transpose()
    }

    /// Keys after this one, in the order of their ids as the database compares texts.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn keys_page(
        &self,
        of: Reach,
        after: Option<KeyId>,
        most: u32,
    ) -> Result<Vec<KeyRecord>, StoreError> {
        let text = by_reach!(
            of,
            keys::select_in_order!(
                "WHERE k.id IN (SELECT id FROM api_keys WHERE id > $1 ORDER BY id LIMIT $2)",
                "k.id, s.serial"
            ),
            keys::select_in_order!(
                "WHERE k.id IN (SELECT id FROM api_keys WHERE id > $1 AND tenant = $3 ORDER BY id LIMIT $2)",
                "k.id, s.serial"
            )
        );
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        let query = sqlx::query(text).bind(after).bind(page(most));
        let query = match of {
            Reach::Installation => query,
            Reach::Tenant(tenant) => query.bind(tenant.bytes().to_vec()),
        };
        keys::gather(&query.fetch_all(&self.pool).await?)
    }

    /// Limits of a tenant after this scope, in the order of level, subject and model as the database compares texts; those that were
    /// lifted are left out.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn limits_page(
        &self,
        tenant: TenantId,
        after: Option<&Scope>,
        most: u32,
    ) -> Result<Vec<Rule>, StoreError> {
        let (level, subject, model) = after.map_or(("", String::new(), ""), |scope| {
            (scope.level.name(), limits::subject(scope.level), limits::model(&scope.models))
        });
        let rows = sqlx::query(limits::select!(
            "WHERE tenant = $1 AND (level > $2 OR (level = $2 AND (subject > $3 OR (subject = $3 AND model > $4))))
               AND NOT (requests_per_minute IS NULL AND tokens_per_minute IS NULL AND at_once IS NULL
                        AND prompt_tokens IS NULL AND output_tokens IS NULL)
             ORDER BY level, subject, model LIMIT $5"
        ))
        .bind(tenant.bytes().as_slice())
        .bind(level)
        .bind(&subject)
        .bind(model.to_owned())
        .bind(page(most))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(limits::read).collect()
    }
}

fn page(most: u32) -> i64 {
    most.min(LIST_PAGE_MAX).into()
}
