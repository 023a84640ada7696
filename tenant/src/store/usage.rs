//! What was used, hour by hour: taken over from gateways in batches, each exactly once, and asked for by who bills.

use std::ops::Range;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Connection, Row};

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::key::KeyId;
use crate::ledger::{Amounts, Batch, Budget, Unit, UsageRow, hour, window_hours};
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::store::patience::within;
use crate::store::{Store, TenantId, limits, row};
use crate::time::UnixMillis;

/// Rows that one answer may have.
pub const USAGE_ANSWER_MAX: u32 = 10_000;
/// Hours for which usage is kept: 400 days.
pub const USAGE_HOURS_KEPT: u64 = 24 * 400;

/// What is spent, of those whose id is in this column.
macro_rules! spent {
    ($column:literal) => {
        concat!(
            "SELECT CAST(coalesce(sum(CASE WHEN $1 = 1 THEN cost_micro ELSE prompt + completion END), 0) AS BIGINT)
             FROM usage WHERE hour >= $2 AND hour < $3 AND ",
            $column,
            " = $4 AND ($5 = '' OR model = $5)"
        )
    };
}

/// Whose usage, and of when.
#[derive(Clone, Debug)]
pub struct UsageOf {
    /// The tenant.
    pub tenant: TenantId,
    /// Of one project; of all where there is none.
    pub project: Option<ProjectId>,
    /// Of one key; of all where there is none.
    pub key: Option<KeyId>,
    /// Of one model; of all where there is none.
    pub model: Option<ModelName>,
    /// Whole hours from 1970-01-01 UTC, the last one excluded.
    pub hours: Range<u64>,
}

/// The time that one sum covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UsageBy {
    /// An hour.
    Hour,
    /// A day, from midnight to midnight UTC.
    Day,
}

/// What has a sum of its own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UsageParts {
    /// Each project.
    pub project: bool,
    /// Each key.
    pub key: bool,
    /// Each model.
    pub model: bool,
}

/// What was used in an hour or a day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UsageSum {
    /// The hour in which it begins, from 1970-01-01 UTC.
    pub hour: u64,
    /// The project, if each has a sum of its own.
    pub project: Option<ProjectId>,
    /// The key, if each has a sum of its own.
    pub key: Option<KeyId>,
    /// The model, if each has a sum of its own.
    pub model: Option<ModelName>,
    /// How much.
    pub amounts: Amounts,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stored {
    /// It was added.
    Added,
    /// It had been before: nothing was added.
    Before,
}

impl UsageBy {
    const fn hours(self) -> i64 {
        match self {
            Self::Hour => 1,
            Self::Day => 24,
        }
    }
}

impl Store {
    /// Adds a batch, all of it, unless it was added before; forgets what is older than [`USAGE_HOURS_KEPT`].
    ///
    /// # Errors
    /// As the database reports, or when it does not answer within 30 s; then it is to be tried again, with the same batch.
    pub async fn add_usage(&self, batch: &Batch, now: UnixMillis) -> Result<Stored, StoreError> {
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let added = within(self.patience.rows_max, self.add_usage_on(&mut connection, batch, now)).await;
        if added.is_err() {
            // Given back, it might be waited for once more.
            connection.close_on_drop();
        }
        added
    }

    async fn add_usage_on(
        &self,
        connection: &mut AnyConnection,
        batch: &Batch,
        now: UnixMillis,
    ) -> Result<Stored, StoreError> {
        let (journal, number) = (batch.journal.to_string(), signed(batch.number));
        let mut adding = connection.begin_with(self.dialect.begin_change()).await?;
        // Taken or raised first: of two that add the same batch, one waits for the other, and then adds nothing.
        let raised = sqlx::query(
            "INSERT INTO usage_batches (journal, number, confirmed_ms) VALUES ($1, $2, $3)
             ON CONFLICT (journal) DO UPDATE SET number = excluded.number, confirmed_ms = excluded.confirmed_ms
             WHERE usage_batches.number < excluded.number",
        )
        .bind(journal)
        .bind(number)
        .bind(now.get())
        .execute(&mut *adding)
        .await?;
        if raised.rows_affected() == 0 && !seeded(Fault::BatchAgain) {
            return Ok(Stored::Before);
        }
        for UsageRow { hour, payer, model, amounts } in &batch.rows {
            sqlx::query(
                "INSERT INTO usage (hour, tenant, project, subject, model, requests, prompt, cached, completion, cost_micro, unpriced)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                 ON CONFLICT (tenant, hour, project, subject, model) DO UPDATE SET
                    requests = usage.requests + excluded.requests, prompt = usage.prompt + excluded.prompt,
                    cached = usage.cached + excluded.cached, completion = usage.completion + excluded.completion,
                    cost_micro = usage.cost_micro + excluded.cost_micro, unpriced = usage.unpriced + excluded.unpriced",
            )
            .bind(signed(*hour))
            .bind(payer.tenant.to_string())
            .bind(payer.project.to_string())
            .bind(payer.key.to_string())
            .bind(model.as_str().to_owned())
            .bind(signed(amounts.requests))
            .bind(signed(amounts.prompt))
            .bind(signed(amounts.cached))
            .bind(signed(amounts.completion))
            .bind(signed(amounts.cost_micro))
            .bind(signed(amounts.unpriced))
            .execute(&mut *adding)
            .await?;
        }
        sqlx::query("DELETE FROM usage WHERE hour < $1")
            .bind(signed(hour(now).saturating_sub(USAGE_HOURS_KEPT)))
            .execute(&mut *adding)
            .await?;
        // A batch whose rows are all older than what is kept adds nothing, whether it is known or not.
        let kept_ms = USAGE_HOURS_KEPT.saturating_mul(3_600_000);
        sqlx::query("DELETE FROM usage_batches WHERE confirmed_ms < $1")
            .bind(signed(now.unsigned().saturating_sub(kept_ms)))
            .execute(&mut *adding)
            .await?;
        adding.commit().await?;
        Ok(Stored::Added)
    }

    /// Usage, summed up, in the order of time and then of its parts.
    ///
    /// # Errors
    /// [`StoreError::UsageTooLong`] when there are more than [`USAGE_ANSWER_MAX`] sums; as the database reports.
    pub async fn usage(
        &self,
        of: &UsageOf,
        by: UsageBy,
        parts: UsageParts,
    ) -> Result<Vec<UsageSum>, StoreError> {
        let named = |name: Option<String>| name.unwrap_or_default();
        let rows = sqlx::query(
            "SELECT hour / $1 * $1 AS begins,
                    CASE WHEN $2 = 1 THEN project ELSE '' END AS of_project,
                    CASE WHEN $3 = 1 THEN subject ELSE '' END AS of_key,
                    CASE WHEN $4 = 1 THEN model ELSE '' END AS of_model,
                    CAST(sum(requests) AS BIGINT), CAST(sum(prompt) AS BIGINT), CAST(sum(cached) AS BIGINT),
                    CAST(sum(completion) AS BIGINT), CAST(sum(cost_micro) AS BIGINT), CAST(sum(unpriced) AS BIGINT)
             FROM usage
             WHERE tenant = $5 AND hour >= $6 AND hour < $7
               AND ($8 = '' OR project = $8) AND ($9 = '' OR subject = $9) AND ($10 = '' OR model = $10)
             GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT $11",
        )
        .bind(by.hours())
        .bind(i64::from(parts.project))
        .bind(i64::from(parts.key))
        .bind(i64::from(parts.model))
        .bind(of.tenant.to_string())
        .bind(signed(of.hours.start))
        .bind(signed(of.hours.end))
        .bind(named(of.project.map(|project| project.to_string())))
        .bind(named(of.key.map(|key| key.to_string())))
        .bind(named(of.model.as_ref().map(|model| model.as_str().to_owned())))
        .bind(i64::from(USAGE_ANSWER_MAX).saturating_add(1))
        .fetch_all(&self.pool)
        .await?;
        if u32::try_from(rows.len()).map_or(true, |rows| rows > USAGE_ANSWER_MAX) {
            return Err(StoreError::UsageTooLong { allowed: USAGE_ANSWER_MAX });
        }
        rows.iter().map(read).collect()
    }

    /// What of a budget is spent in the window that `now` lies in, as far as gateways have told, and usage is kept.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn spent(&self, budget: &Budget, now: UnixMillis) -> Result<u64, StoreError> {
        let of = (budget.level, &budget.models, budget.unit);
        self.spent_in(of, window_hours(budget.period, now)).await
    }

    /// What was used in these hours of what is counted so.
    pub(super) async fn spent_in(
        &self,
        (level, models, unit): (Level, &Models, Unit),
        hours: Range<u64>,
    ) -> Result<u64, StoreError> {
        // One text for each level: an index serves what a statement names, and not what it might.
        let asked = match level {
            Level::Tenant(_) => sqlx::query_scalar(spent!("tenant")),
            Level::Project(_) => sqlx::query_scalar(spent!("project")),
            Level::Key(_) => sqlx::query_scalar(spent!("subject")),
        };
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let asked = asked
            .bind(i64::from(unit == Unit::MicroMoney))
            .bind(signed(hours.start))
            .bind(signed(hours.end))
            .bind(limits::subject(level))
            .bind(limits::model(models).to_owned())
            .fetch_one(&mut *connection);
        let spent = self.patience.rows(asked).await;
        if spent.is_err() {
            // Given back, it might be waited for once more.
            connection.close_on_drop();
        }
        number(spent?, "cost_micro")
    }
}

fn read(row: &AnyRow) -> Result<UsageSum, StoreError> {
    let damaged = |column| row::damaged("usage", column);
    let amount = |place: usize, column| number(row.try_get(place)?, column);
    let project = match row.try_get(1)? {
        "" => None,
        id => Some(ProjectId::parse(id).ok_or_else(|| damaged("project"))?),
    };
    let key = match row.try_get(2)? {
        "" => None,
        id => Some(KeyId::parse(id).ok_or_else(|| damaged("subject"))?),
    };
    let model = match row.try_get(3)? {
        "" => None,
        name => Some(ModelName::new(name).ok_or_else(|| damaged("model"))?),
    };
    let amounts = Amounts {
        requests: amount(4, "requests")?,
        prompt: amount(5, "prompt")?,
        cached: amount(6, "cached")?,
        completion: amount(7, "completion")?,
        cost_micro: amount(8, "cost_micro")?,
        unpriced: amount(9, "unpriced")?,
    };
    Ok(UsageSum { hour: amount(0, "hour")?, project, key, model, amounts })
}

fn number(stored: i64, column: &'static str) -> Result<u64, StoreError> {
    u64::try_from(stored).map_err(|_| row::damaged("usage", column))
}

/// Saturates at what a database counts to.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
