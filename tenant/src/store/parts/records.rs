//! What is handed out, for an operator to see, and to take back from a gateway that is gone.

use serde_json::json;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::ledger::Line;
use crate::ledger::{Period, Unit};
use crate::level::{Level, Models};
use crate::store::events::{Action, Told};
use crate::store::limits::{subject, tenant_of};
use crate::store::parts::{slice_of, unsigned};
use crate::store::{Store, TenantId, row};
use crate::time::UnixMillis;

/// Parts that one listing shows, and that one command takes back.
pub const PART_RECORDS_MAX: i64 = 10_000;

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT level, subject, model, unit, period, starts, gateway, amount, spent, used, seen_ms FROM budget_parts p ",
            $which,
            " ORDER BY level, subject, model, unit, period, starts, gateway LIMIT $2"
        )
    };
}

/// What a gateway holds of a budget in a period, as it told last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartRecord {
    /// Whom the budget binds.
    pub level: Level,
    /// Which requests it counts.
    pub models: Models,
    /// What it counts.
    pub unit: Unit,
    /// For how long.
    pub period: Period,
    /// The first day of the period, from 1970-01-01 UTC.
    pub starts: u64,
    /// The gateway, by the name of its journal.
    pub gateway: String,
    /// What it was given, what is spent of it included.
    pub amount: u64,
    /// What it had spent of it.
    pub spent: u64,
    /// The same, with what it had reserved.
    pub used: u64,
    /// When it told.
    pub seen: UnixMillis,
}

impl PartRecord {
    /// Whether it is of the same budget and period, of the same gateway.
    fn is_of(&self, other: &Self) -> bool {
        let line = |part: &Self| (part.level, part.unit, part.period, part.starts);
        line(self) == line(other) && self.models == other.models && self.gateway == other.gateway
    }
}

/// What was taken back of a gateway's parts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Released {
    /// The part, as it was.
    pub part: PartRecord,
    /// What is free again of it.
    pub freed: u64,
}

impl Store {
    /// What gateways hold of the budgets of a tenant, its projects and its keys; at most [`PART_RECORDS_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn list_parts(&self, tenant: TenantId) -> Result<Vec<PartRecord>, StoreError> {
        let rows = sqlx::query(select!(
            "WHERE EXISTS (SELECT 1 FROM budgets b WHERE b.tenant = $1 AND b.level = p.level AND b.subject = p.subject
                AND b.model = p.model AND b.unit = p.unit AND b.period = p.period)"
        ))
        .bind(tenant.bytes().as_slice())
        .bind(PART_RECORDS_MAX)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(read).collect()
    }

    /// Takes back what a gateway had not used of its parts when it told last. That it is gone for good is for the caller to know: one
    /// that only cannot reach the store spends what it holds, and then more than the budget may be spent.
    ///
    /// # Errors
    /// [`StoreError::NoSuchGateway`] when it holds nothing; as the database reports.
    pub async fn release_parts(&self, gateway: &str, now: UnixMillis) -> Result<Vec<Released>, StoreError> {
        let mut change = self.change().await?;
        let rows = sqlx::query(select!("WHERE p.gateway = $1"))
            .bind(gateway.to_owned())
            .bind(PART_RECORDS_MAX)
            .fetch_all(change.on())
            .await?;
        if rows.is_empty() {
            return Err(StoreError::NoSuchGateway);
        }
        let parts = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        // What it held of a count that is over may be spent by nobody: should it come back, it is told so.
        sqlx::query(
            "DELETE FROM budget_parts WHERE gateway = $1 AND epoch <> COALESCE((
                SELECT b.since FROM budgets b WHERE b.level = budget_parts.level AND b.subject = budget_parts.subject
                   AND b.model = budget_parts.model AND b.unit = budget_parts.unit AND b.period = budget_parts.period
                   AND b.amount IS NOT NULL ORDER BY b.kind LIMIT 1), -1)",
        )
        .bind(gateway.to_owned())
        .execute(change.on())
        .await?;
        // A late word of it must not make them what they were, nor a wish of its keep anything from others.
        sqlx::query(
            "UPDATE budget_parts SET amount = CASE WHEN amount > used THEN used ELSE amount END, wanted = NULL, wanted_ms = NULL,
                version = version + 1, released = 1 WHERE gateway = $1",
        )
        .bind(gateway.to_owned())
        .execute(change.on())
        .await?;
        let left = sqlx::query(select!("WHERE p.gateway = $1"))
            .bind(gateway.to_owned())
            .bind(PART_RECORDS_MAX)
            .fetch_all(change.on())
            .await?;
        let left = left.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut released = Vec::new();
        for part in parts {
            let kept = left.iter().find(|one| one.is_of(&part)).map_or(0, |one| one.amount);
            let PartRecord { level, starts, amount, .. } = part;
            if amount <= kept {
                continue;
            }
            let said = |amount: u64| json!({ "gateway": gateway, "starts": starts, "part": amount });
            let told = Told {
                action: Action::BudgetRelease,
                subject: subject(level),
                tenant: Some(tenant_of(change.on(), level).await?),
                before: Some(said(amount)),
                after: Some(said(kept)),
            };
            self.tell(&mut change, now, told).await?;
            released.push(Released { freed: amount.saturating_sub(kept), part });
        }
        change.commit().await?;
        Ok(released)
    }
}

fn read(stored: &AnyRow) -> Result<PartRecord, StoreError> {
    let slice = slice_of(stored)?;
    let Line { level, models, unit, period } = slice.line;
    Ok(PartRecord {
        level,
        models,
        unit,
        period,
        starts: slice.start,
        gateway: stored.try_get::<&str, _>(6)?.to_owned(),
        amount: unsigned(stored.try_get(7)?, "amount")?,
        spent: unsigned(stored.try_get(8)?, "spent")?,
        used: unsigned(stored.try_get(9)?, "used")?,
        seen: row::millis(stored.try_get(10)?, "budget_parts", "seen_ms")?,
    })
}
