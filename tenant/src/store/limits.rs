//! Limits of keys, projects and tenants.

use core::num::NonZeroU32;

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::rate::{Limit, Limits, Rule, Scope};
use crate::store::change::Change;
use crate::store::{Store, TenantId, room_for_one_more, row};

/// Limits that a store may hold, those that were lifted included.
pub const LIMITS_MAX: u32 = 1_000_000;

/// What [`read`] reads.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT level, subject, model, requests_per_minute, tokens_per_minute, at_once, prompt_tokens, output_tokens
             FROM limits ",
            $which
        )
    };
}
pub(super) use select;

impl Store {
    /// Sets the limits of a scope, in place of those that it has.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`], [`StoreError::NoSuchProject`], [`StoreError::NoSuchTenant`]; [`StoreError::NoLimits`] for an
    /// operator's key, which asks no models; [`StoreError::Full`].
    pub async fn set_limits(&self, rule: &Rule) -> Result<(), StoreError> {
        let Rule { scope, limits } = rule;
        let mut change = self.change().await?;
        let tenant = tenant_of(&mut change, scope.level).await?;
        let others = sqlx::query_scalar(
            "SELECT count(*) FROM limits WHERE NOT (level = $1 AND subject = $2 AND model = $3)",
        )
        .bind(scope.level.name())
        .bind(subject(scope.level))
        .bind(model(&scope.models).to_owned())
        .fetch_one(change.on())
        .await?;
        room_for_one_more(others, self.room.limits)?;
        let revision = change.revision();
        sqlx::query(
            "INSERT INTO limits (level, subject, model, tenant, requests_per_minute, tokens_per_minute, at_once, prompt_tokens,
                                 output_tokens, revision)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (level, subject, model) DO UPDATE SET requests_per_minute = excluded.requests_per_minute,
                tokens_per_minute = excluded.tokens_per_minute, at_once = excluded.at_once,
                prompt_tokens = excluded.prompt_tokens, output_tokens = excluded.output_tokens, revision = excluded.revision",
        )
        .bind(scope.level.name())
        .bind(subject(scope.level))
        .bind(model(&scope.models).to_owned())
        .bind(tenant.bytes().as_slice())
        .bind(stored(limits.requests_per_minute))
        .bind(stored(limits.tokens_per_minute))
        .bind(stored(limits.at_once))
        .bind(stored(limits.prompt_tokens))
        .bind(stored(limits.output_tokens))
        .bind(revision)
        .execute(change.on())
        .await?;
        change.commit().await
    }

    /// The limits of a tenant, its projects and its keys, but for those that were lifted.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_limits(&self, tenant: TenantId) -> Result<Vec<Rule>, StoreError> {
        let rows = sqlx::query(select!("WHERE tenant = $1 ORDER BY level, subject, model"))
            .bind(tenant.bytes().as_slice())
            .fetch_all(&self.pool)
            .await?;
        let rules = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(rules.into_iter().filter(|rule| rule.limits != Limits::OPEN).collect())
    }
}

/// Whose key or project it is.
pub(super) async fn tenant_of(change: &mut Change, level: Level) -> Result<TenantId, StoreError> {
    let found: Option<Option<Vec<u8>>> = match level {
        Level::Key(id) => {
            sqlx::query_scalar("SELECT tenant FROM api_keys WHERE id = $1")
                .bind(id.as_str().to_owned())
                .fetch_optional(change.on())
                .await?
        }
        Level::Project(id) => {
            sqlx::query_scalar("SELECT tenant FROM projects WHERE id = $1")
                .bind(id.bytes().to_vec())
                .fetch_optional(change.on())
                .await?
        }
        Level::Tenant(id) => {
            sqlx::query_scalar("SELECT id FROM tenants WHERE id = $1")
                .bind(id.bytes().to_vec())
                .fetch_optional(change.on())
                .await?
        }
    };
    let missing = match level {
        Level::Key(id) => StoreError::NoSuchKey(id),
        Level::Project(id) => StoreError::NoSuchProject(id),
        Level::Tenant(id) => StoreError::NoSuchTenant(id),
    };
    let tenant = found.ok_or(missing)?.ok_or(StoreError::NoLimits)?;
    row::tenant_id(&tenant, "limits", "tenant")
}

pub(super) fn read(row: &AnyRow) -> Result<Rule, StoreError> {
    let (level, subject, model): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let limit = |place: usize, column| limit(row.try_get(place)?, column);
    let limits = Limits {
        requests_per_minute: limit(3, "requests_per_minute")?,
        tokens_per_minute: limit(4, "tokens_per_minute")?,
        at_once: limit(5, "at_once")?,
        prompt_tokens: limit(6, "prompt_tokens")?,
        output_tokens: limit(7, "output_tokens")?,
    };
    Ok(Rule { scope: scope(level, subject, model)?, limits })
}

/// A scope as it is stored.
pub(crate) fn scope(level: &str, subject: &str, model: &str) -> Result<Scope, StoreError> {
    let damaged = || row::damaged("limits", "subject");
    let level = match level {
        "key" => Level::Key(row::key_id(subject)?),
        "project" => Level::Project(ProjectId::parse(subject).ok_or_else(damaged)?),
        "tenant" => Level::Tenant(TenantId::parse(subject).ok_or_else(damaged)?),
        _ => return Err(row::damaged("limits", "level")),
    };
    let models = match model {
        "" => Models::All,
        name => Models::One(ModelName::new(name).ok_or_else(|| row::damaged("limits", "model"))?),
    };
    Ok(Scope { level, models })
}

/// The id of a level, as it is stored.
pub(crate) fn subject(level: Level) -> String {
    match level {
        Level::Key(id) => id.to_string(),
        Level::Project(id) => id.to_string(),
        Level::Tenant(id) => id.to_string(),
    }
}

/// The models of a scope, as they are stored.
pub(crate) fn model(models: &Models) -> &str {
    match models {
        Models::All => "",
        Models::One(name) => name.as_str(),
    }
}

pub(crate) fn limit(stored: Option<i64>, column: &'static str) -> Result<Limit, StoreError> {
    let Some(stored) = stored else { return Ok(Limit::Open) };
    let most = u32::try_from(stored).ok().and_then(NonZeroU32::new);
    most.map(Limit::AtMost).ok_or_else(|| row::damaged("limits", column))
}

pub(crate) fn stored(limit: Limit) -> Option<i64> {
    match limit {
        Limit::Open => None,
        Limit::AtMost(most) => Some(most.get().into()),
    }
}
