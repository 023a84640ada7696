//! Limits of keys, projects and tenants.

use core::num::NonZeroU32;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::rate::{Limit, Limits, Rule, Scope};
use crate::store::events::{Action, Told};
use crate::store::{Belonging, Expect, Store, TenantId, room_for_one_more, row};
use crate::time::UnixMillis;

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
    /// operator's key, which asks no models; [`StoreError::Full`], [`StoreError::TenantFull`].
    pub async fn set_limits(&self, rule: &Rule, now: UnixMillis) -> Result<(), StoreError> {
        let Limits { requests_per_minute, tokens_per_minute, at_once, prompt_tokens, output_tokens } =
            rule.limits;
        let all = LimitsChange {
            requests_per_minute: Some(requests_per_minute),
            tokens_per_minute: Some(tokens_per_minute),
            at_once: Some(at_once),
            prompt_tokens: Some(prompt_tokens),
            output_tokens: Some(output_tokens),
        };
        self.change_limits(&rule.scope, all, Expect::Any, now).await.map(|_| ())
    }

    /// Changes what is asked of a scope's limits, and nothing else; returns how they are then. What they are already is no change, and
    /// has no event.
    ///
    /// # Errors
    /// As [`Store::set_limits`]; [`StoreError::Stale`].
    pub async fn change_limits(
        &self,
        scope: &Scope,
        asked: LimitsChange,
        expect: Expect,
        now: UnixMillis,
    ) -> Result<Rule, StoreError> {
        let mut change = self.change().await?;
        let tenant = tenant_of(change.on(), scope.level).await?;
        let row = held(change.on(), scope).await?;
        let has_row = row.is_some();
        let before = row.unwrap_or_else(|| open(scope));
        expect.check(before.version())?;
        let after = Rule { limits: asked.applied(before.limits), ..before.clone() };
        if after == before {
            return Ok(after);
        }
        if !has_row {
            let all = sqlx::query_scalar("SELECT count(*) FROM limits").fetch_one(change.on()).await?;
            room_for_one_more(all, self.room.limits)?;
            self.demand_room(&mut change, tenant, Belonging::Limits).await?;
        }
        let revision = change.revision();
        write(change.on(), tenant, &after, revision).await?;
        let told = Told {
            action: Action::LimitChange,
            subject: subject(scope.level),
            tenant: Some(tenant),
            before: Some(before.public()),
            after: Some(after.public()),
        };
        self.tell(&mut change, now, told).await?;
        change.commit().await?;
        Ok(after)
    }

    /// The limits of a scope, all open where none were set, and whose they are.
    ///
    /// # Errors
    /// As [`Store::set_limits`], where there is nothing that the scope could bind.
    pub async fn limits_of(&self, scope: &Scope) -> Result<(TenantId, Rule), StoreError> {
        let mut connection = self.pool.acquire().await?;
        let tenant = tenant_of(&mut connection, scope.level).await?;
        Ok((tenant, held(&mut connection, scope).await?.unwrap_or_else(|| open(scope))))
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

/// What is to be changed of a scope's limits; the default is nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LimitsChange {
    /// Of [`Limits::requests_per_minute`].
    pub requests_per_minute: Option<Limit>,
    /// Of [`Limits::tokens_per_minute`].
    pub tokens_per_minute: Option<Limit>,
    /// Of [`Limits::at_once`].
    pub at_once: Option<Limit>,
    /// Of [`Limits::prompt_tokens`].
    pub prompt_tokens: Option<Limit>,
    /// Of [`Limits::output_tokens`].
    pub output_tokens: Option<Limit>,
}

impl LimitsChange {
    fn applied(self, before: Limits) -> Limits {
        Limits {
            requests_per_minute: self.requests_per_minute.unwrap_or(before.requests_per_minute),
            tokens_per_minute: self.tokens_per_minute.unwrap_or(before.tokens_per_minute),
            at_once: self.at_once.unwrap_or(before.at_once),
            prompt_tokens: self.prompt_tokens.unwrap_or(before.prompt_tokens),
            output_tokens: self.output_tokens.unwrap_or(before.output_tokens),
        }
    }
}

/// What stands where nothing was set.
fn open(scope: &Scope) -> Rule {
    Rule { scope: scope.clone(), limits: Limits::OPEN }
}

/// The row of this scope; none where there never were limits of it.
async fn held(on: &mut AnyConnection, scope: &Scope) -> Result<Option<Rule>, StoreError> {
    let row = sqlx::query(select!("WHERE level = $1 AND subject = $2 AND model = $3"))
        .bind(scope.level.name())
        .bind(subject(scope.level))
        .bind(model(&scope.models).to_owned())
        .fetch_optional(on)
        .await?;
    row.as_ref().map(read).transpose()
}

async fn write(
    on: &mut AnyConnection,
    tenant: TenantId,
    Rule { scope, limits }: &Rule,
    revision: i64,
) -> Result<(), StoreError> {
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
    .execute(on)
    .await?;
    Ok(())
}

/// Whose key or project it is.
pub(super) async fn tenant_of(on: &mut AnyConnection, level: Level) -> Result<TenantId, StoreError> {
    let found: Option<Option<Vec<u8>>> = match level {
        Level::Key(id) => {
            sqlx::query_scalar("SELECT tenant FROM api_keys WHERE id = $1")
                .bind(id.as_str().to_owned())
                .fetch_optional(&mut *on)
                .await?
        }
        Level::Project(id) => {
            sqlx::query_scalar("SELECT tenant FROM projects WHERE id = $1")
                .bind(id.bytes().to_vec())
                .fetch_optional(&mut *on)
                .await?
        }
        Level::Tenant(id) => {
            sqlx::query_scalar("SELECT id FROM tenants WHERE id = $1")
                .bind(id.bytes().to_vec())
                .fetch_optional(&mut *on)
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
