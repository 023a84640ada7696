//! Budgets of keys, projects and tenants.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::ledger::{Budget, BudgetKind, BudgetName, Period, Thresholds, Unit};
use crate::store::events::{Action, Told};
use crate::store::limits::{model, scope, subject, tenant_of};
use crate::store::{Belonging, Expect, LIST_PAGE_MAX, Store, TenantId, room_for_one_more, row};
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

/// What stands under a budget's name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BudgetEntry {
    /// This budget.
    Set(Budget),
    /// None: it was lifted, or never set.
    Lifted(BudgetName),
}

impl BudgetEntry {
    /// The name under which it stands.
    pub fn name(&self) -> BudgetName {
        match self {
            Self::Set(budget) => budget.name(),
            Self::Lifted(name) => name.clone(),
        }
    }

    const fn budget(&self) -> Option<&Budget> {
        match self {
            Self::Set(budget) => Some(budget),
            Self::Lifted(_) => None,
        }
    }
}

impl Store {
    /// Sets a budget, in place of the one that has its name.
    ///
    /// # Errors
    /// As [`Store::change_budget`].
    pub async fn set_budget(&self, budget: &Budget, now: UnixMillis) -> Result<(), StoreError> {
        self.change_budget(&BudgetEntry::Set(budget.clone()), Expect::Any, now).await
    }

    /// Lifts a budget. Set again, it begins with what the store has as used of its period by then.
    ///
    /// # Errors
    /// As [`Store::change_budget`].
    pub async fn lift_budget(&self, name: &BudgetName, now: UnixMillis) -> Result<(), StoreError> {
        self.change_budget(&BudgetEntry::Lifted(name.clone()), Expect::Any, now).await
    }

    /// Sets or lifts a budget. To lift one that is not set, or to set one as it is, changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`], [`StoreError::NoSuchProject`], [`StoreError::NoSuchTenant`]; [`StoreError::NoLimits`] for an
    /// operator's key, which asks no models; [`StoreError::BudgetTooHigh`] above [`BUDGET_MAX`]; [`StoreError::Stale`];
    /// [`StoreError::Full`], [`StoreError::TenantFull`].
    pub async fn change_budget(
        &self,
        asked: &BudgetEntry,
        expect: Expect,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        if let Some(Budget { limit, .. }) = asked.budget().filter(|budget| budget.limit > BUDGET_MAX) {
            return Err(StoreError::BudgetTooHigh { asked: *limit, allowed: BUDGET_MAX });
        }
        let name = asked.name();
        let mut change = self.change().await?;
        let tenant = tenant_of(change.on(), name.level).await?;
        let row = held(change.on(), &name).await?;
        let has_row = row.is_some();
        let before = row.unwrap_or_else(|| BudgetEntry::Lifted(name.clone()));
        expect.check(before.version())?;
        if before == *asked {
            return Ok(());
        }
        if !has_row {
            // The rows of budgets that were lifted are counted too: they are kept.
            let all = sqlx::query_scalar("SELECT count(*) FROM budgets").fetch_one(change.on()).await?;
            room_for_one_more(all, self.room.budgets)?;
            self.demand_room(&mut change, tenant, Belonging::Budgets).await?;
        }
        let revision = change.revision();
        write(change.on(), tenant, (&name, asked.budget()), revision).await?;
        let told = Told {
            action: Action::BudgetChange,
            subject: subject(name.level),
            tenant: Some(tenant),
            before: before.budget().map(Budget::public),
            after: asked.budget().map(Budget::public),
        };
        self.tell(&mut change, now, told).await?;
        change.commit().await
    }

    /// What stands under a budget's name, and whose it is.
    ///
    /// # Errors
    /// As [`Store::change_budget`], where there is nothing that a budget of this name could bind.
    pub async fn budget_of(&self, name: &BudgetName) -> Result<(TenantId, BudgetEntry), StoreError> {
        let mut connection = self.pool.acquire().await?;
        let tenant = tenant_of(&mut connection, name.level).await?;
        let found = held(&mut connection, name).await?;
        Ok((tenant, found.unwrap_or_else(|| BudgetEntry::Lifted(name.clone()))))
    }

    /// Budgets of a tenant, its projects and its keys after the one of this name, in the order of their names as the database
    /// compares texts; those that were lifted are left out. At most [`LIST_PAGE_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn budgets_page(
        &self,
        tenant: TenantId,
        after: Option<&BudgetName>,
        most: u32,
    ) -> Result<Vec<Budget>, StoreError> {
        // Before all names: no level is called nothing.
        let [level, subject, model, unit, period, kind] = after.map(stored_name).unwrap_or_default();
        let rows = sqlx::query(select!(
            "WHERE tenant = $1 AND amount IS NOT NULL
               AND (level, subject, model, unit, period, kind) > ($2, $3, $4, $5, $6, $7)
             ORDER BY level, subject, model, unit, period, kind LIMIT $8"
        ))
        .bind(tenant.bytes().as_slice())
        .bind(level)
        .bind(subject)
        .bind(model)
        .bind(unit)
        .bind(period)
        .bind(kind)
        .bind(i64::from(most.min(LIST_PAGE_MAX)))
        .fetch_all(&self.pool)
        .await?;
        set_ones(&rows)
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
        set_ones(&rows)
    }
}

fn set_ones(rows: &[AnyRow]) -> Result<Vec<Budget>, StoreError> {
    let entries = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let set = |entry| match entry {
        BudgetEntry::Set(budget) => Some(budget),
        BudgetEntry::Lifted(_) => None,
    };
    Ok(entries.into_iter().filter_map(set).collect())
}

/// A name as it is stored: level, subject, model, unit, period, kind.
fn stored_name(name: &BudgetName) -> [String; 6] {
    let BudgetName { level, models, unit, period, kind } = name;
    let texts = [level.name(), model(models), unit.name(), period.name(), kind.name()];
    let [level_name, model, unit, period, kind] = texts.map(ToOwned::to_owned);
    [level_name, subject(*level), model, unit, period, kind]
}

/// The row of this name; none where there never was a budget of it.
async fn held(on: &mut AnyConnection, name: &BudgetName) -> Result<Option<BudgetEntry>, StoreError> {
    let [level, subject, model, unit, period, kind] = stored_name(name);
    let row = sqlx::query(select!(
        "WHERE level = $1 AND subject = $2 AND model = $3 AND unit = $4 AND period = $5 AND kind = $6"
    ))
    .bind(level)
    .bind(subject)
    .bind(model)
    .bind(unit)
    .bind(period)
    .bind(kind)
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
    let [level, subject, model, unit, period, kind] = stored_name(name);
    sqlx::query(
        "INSERT INTO budgets (level, subject, model, unit, period, kind, tenant, amount, thresholds, revision, since)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
         ON CONFLICT (level, subject, model, unit, period, kind)
         DO UPDATE SET amount = excluded.amount, thresholds = excluded.thresholds, revision = excluded.revision,
            since = CASE WHEN budgets.amount IS NULL THEN excluded.since ELSE budgets.since END",
    )
    .bind(level)
    .bind(subject)
    .bind(model)
    .bind(unit)
    .bind(period)
    .bind(kind)
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
