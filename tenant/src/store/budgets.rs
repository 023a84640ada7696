//! Budgets of keys, projects and tenants.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::ledger::{Budget, BudgetKind, BudgetName, Period, Thresholds, Unit};
use crate::store::events::{Action, Told};
use crate::store::limits::{model, scope, subject, tenant_of};
use crate::store::{Store, TenantId, room_for_one_more, row};
use crate::time::UnixMillis;

/// Budgets that a store may hold, those that were lifted included.
pub const BUDGETS_MAX: u32 = 1_000_000;
/// The largest budget: tokens, or micro-units of money. What a database counts in ends there.
pub const BUDGET_MAX: u64 = i64::MAX.cast_unsigned();

/// What [`read`] reads.
macro_rules! select {
    ($which:literal) => {
        concat!("SELECT level, subject, model, unit, period, kind, amount, thresholds FROM budgets ", $which)
    };
}
pub(super) use select;

/// A budget, or that there is none of this name any more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum BudgetEntry {
    Set(Budget),
    Lifted(BudgetName),
}

impl Store {
    /// Sets a budget, in place of the one that has its name.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`], [`StoreError::NoSuchProject`], [`StoreError::NoSuchTenant`]; [`StoreError::NoLimits`] for an
    /// operator's key, which asks no models; [`StoreError::BudgetTooHigh`] above [`BUDGET_MAX`]; [`StoreError::Full`].
    pub async fn set_budget(&self, budget: &Budget, now: UnixMillis) -> Result<(), StoreError> {
        if budget.limit > BUDGET_MAX {
            return Err(StoreError::BudgetTooHigh { asked: budget.limit, allowed: BUDGET_MAX });
        }
        self.change_budget(budget.name(), Some(budget), now).await
    }

    /// Lifts a budget; what it counted is kept, and counts again if it is set again within the period.
    ///
    /// # Errors
    /// As [`Store::set_budget`].
    pub async fn lift_budget(&self, name: &BudgetName, now: UnixMillis) -> Result<(), StoreError> {
        self.change_budget(name.clone(), None, now).await
    }

    async fn change_budget(
        &self,
        name: BudgetName,
        budget: Option<&Budget>,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let mut change = self.change().await?;
        let tenant = tenant_of(change.on(), name.level).await?;
        let before = held(change.on(), &name).await?;
        if before.is_none() {
            // The rows of budgets that were lifted are counted too: they are kept.
            let all = sqlx::query_scalar("SELECT count(*) FROM budgets").fetch_one(change.on()).await?;
            room_for_one_more(all, self.room.budgets)?;
        }
        let revision = change.revision();
        write(change.on(), tenant, (&name, budget), revision).await?;
        let before = before.and_then(|entry| match entry {
            BudgetEntry::Set(budget) => Some(budget.public()),
            BudgetEntry::Lifted(_) => None,
        });
        let told = Told {
            action: Action::BudgetChange,
            subject: subject(name.level),
            tenant: Some(tenant),
            before,
            after: budget.map(Budget::public),
        };
        self.tell(&mut change, now, told).await?;
        change.commit().await
    }

    /// The budgets of a tenant, its projects and its keys, but for those that were lifted.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_budgets(&self, tenant: TenantId) -> Result<Vec<Budget>, StoreError> {
        let rows = sqlx::query(select!(
            "WHERE tenant = $1 AND amount IS NOT NULL ORDER BY level, subject, model, unit, period, kind"
        ))
        .bind(tenant.bytes().as_slice())
        .fetch_all(&self.pool)
        .await?;
        let entries = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let set = |entry| match entry {
            BudgetEntry::Set(budget) => Some(budget),
            BudgetEntry::Lifted(_) => None,
        };
        Ok(entries.into_iter().filter_map(set).collect())
    }
}

/// The budget of this name, or that it was lifted; none where there never was one.
async fn held(on: &mut AnyConnection, name: &BudgetName) -> Result<Option<BudgetEntry>, StoreError> {
    let BudgetName { level, models, unit, period, kind } = name;
    let row = sqlx::query(select!(
        "WHERE level = $1 AND subject = $2 AND model = $3 AND unit = $4 AND period = $5 AND kind = $6"
    ))
    .bind(level.name())
    .bind(subject(*level))
    .bind(model(models).to_owned())
    .bind(unit.name())
    .bind(period.name())
    .bind(kind.name())
    .fetch_optional(on)
    .await?;
    row.as_ref().map(read).transpose()
}

async fn write(
    on: &mut AnyConnection,
    tenant: TenantId,
    (name, budget): (&BudgetName, Option<&Budget>),
    revision: i64,
) -> Result<(), StoreError> {
    let BudgetName { level, models, unit, period, kind } = name;
    sqlx::query(
        "INSERT INTO budgets (level, subject, model, unit, period, kind, tenant, amount, thresholds, revision)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (level, subject, model, unit, period, kind)
         DO UPDATE SET amount = excluded.amount, thresholds = excluded.thresholds, revision = excluded.revision",
    )
    .bind(level.name())
    .bind(subject(*level))
    .bind(model(models).to_owned())
    .bind(unit.name())
    .bind(period.name())
    .bind(kind.name())
    .bind(tenant.bytes().as_slice())
    // At most `BUDGET_MAX`, as was looked at before.
    .bind(budget.map(|budget| i64::try_from(budget.limit).unwrap_or(i64::MAX)))
    .bind(budget.map_or_else(String::new, |budget| stored(budget.thresholds)))
    .bind(revision)
    .execute(on)
    .await?;
    Ok(())
}

pub(super) fn read(row: &AnyRow) -> Result<BudgetEntry, StoreError> {
    let text = |place: usize| row.try_get::<&str, _>(place);
    entry([text(0)?, text(1)?, text(2)?, text(3)?, text(4)?, text(5)?], row.try_get(6)?, text(7)?)
}

/// A budget from what is stored of it: level, subject, model, unit, period, kind; amount; thresholds.
pub(crate) fn entry(
    name: [&str; 6],
    amount: Option<i64>,
    thresholds: &str,
) -> Result<BudgetEntry, StoreError> {
    let damaged = |column| row::damaged("budgets", column);
    let [level, subject, model, unit, period, kind] = name;
    let of = scope(level, subject, model)?;
    let name = BudgetName {
        level: of.level,
        models: of.models,
        unit: Unit::parse(unit).ok_or_else(|| damaged("unit"))?,
        period: Period::parse(period).ok_or_else(|| damaged("period"))?,
        kind: BudgetKind::parse(kind).ok_or_else(|| damaged("kind"))?,
    };
    let Some(amount) = amount else { return Ok(BudgetEntry::Lifted(name)) };
    let limit = u64::try_from(amount).map_err(|_| damaged("amount"))?;
    let percents = thresholds.split(',').filter(|percent| !percent.is_empty()).map(str::parse);
    let percents = percents.collect::<Result<Vec<u8>, _>>().map_err(|_| damaged("thresholds"))?;
    let thresholds = Thresholds::new(&percents).map_err(|_| damaged("thresholds"))?;
    Ok(BudgetEntry::Set(name.budget(limit, thresholds)))
}

/// Thresholds as they are stored.
pub(crate) fn stored(thresholds: Thresholds) -> String {
    thresholds.percents().map(|percent| percent.to_string()).collect::<Vec<_>>().join(",")
}
