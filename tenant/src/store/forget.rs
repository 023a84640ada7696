//! Which events are forgotten: when there are too many, the oldest of whoever has most of them. So nobody who has few loses one to
//! another's many.

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::store::change::Change;
use crate::store::{Store, TenantId};

/// Events that are kept. Who must keep them longer reads them before that.
pub const EVENTS_KEPT: u32 = 1_000_000;
/// Events that one new one lets be forgotten: more than one, so that a store which has too many comes down to its bound.
const FORGOTTEN_AT_ONCE_MAX: usize = 2;

impl Store {
    /// Counts a new event of this tenant, or of nobody, and forgets old ones beyond the bound.
    pub(super) async fn count_event(
        &self,
        change: &mut Change,
        tenant: Option<TenantId>,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO event_accounts (account, held) VALUES ($1, 1)
             ON CONFLICT (account) DO UPDATE SET held = event_accounts.held + 1",
        )
        .bind(tenant.map(|tenant| tenant.bytes().to_vec()).unwrap_or_default())
        .execute(change.on())
        .await?;
        let mut held: i64 =
            sqlx::query_scalar("UPDATE events_held SET value = value + 1 WHERE one = 1 RETURNING value")
                .fetch_one(change.on())
                .await?;
        for _ in 0..FORGOTTEN_AT_ONCE_MAX {
            if held <= i64::from(self.room.events) {
                return Ok(());
            }
            held = forget_one(change).await?;
        }
        Ok(())
    }
}

/// Forgets the oldest event of whoever has most; returns how many are left.
async fn forget_one(change: &mut Change) -> Result<i64, StoreError> {
    let fullest = if seeded(Fault::EventsInOneLine) {
        "SELECT coalesce(tenant, CAST('' AS BLOB)) FROM events ORDER BY revision, part LIMIT 1"
    } else {
        "SELECT account FROM event_accounts ORDER BY held DESC, account LIMIT 1"
    };
    let account: Vec<u8> = sqlx::query_scalar(fullest).fetch_one(change.on()).await?;
    // What is nobody's has no tenant: each text is served by the index of tenants.
    let text = if account.is_empty() {
        "DELETE FROM events WHERE (revision, part) IN
         (SELECT revision, part FROM events WHERE tenant IS NULL AND revision < $1 ORDER BY revision, part LIMIT 1)"
    } else {
        "DELETE FROM events WHERE (revision, part) IN
         (SELECT revision, part FROM events WHERE tenant = $2 AND revision < $1 ORDER BY revision, part LIMIT 1)"
    };
    let query = sqlx::query(text).bind(change.revision());
    let query = if account.is_empty() { query } else { query.bind(account.clone()) };
    let forgotten = query.execute(change.on()).await?.rows_affected();
    if forgotten == 0 {
        return count_anew(change, account).await;
    }
    sqlx::query("UPDATE event_accounts SET held = held - 1 WHERE account = $1")
        .bind(account)
        .execute(change.on())
        .await?;
    let all = "UPDATE events_held SET value = value - 1 WHERE one = 1 RETURNING value";
    Ok(sqlx::query_scalar(all).fetch_one(change.on()).await?)
}

/// Events were taken away by hand: those that were counted are not there.
async fn count_anew(change: &mut Change, account: Vec<u8>) -> Result<i64, StoreError> {
    let held: i64 = if account.is_empty() {
        sqlx::query_scalar("SELECT count(*) FROM events WHERE tenant IS NULL").fetch_one(change.on()).await?
    } else {
        let count = sqlx::query_scalar("SELECT count(*) FROM events WHERE tenant = $1");
        count.bind(account.clone()).fetch_one(change.on()).await?
    };
    sqlx::query("UPDATE event_accounts SET held = $1 WHERE account = $2")
        .bind(held)
        .bind(account)
        .execute(change.on())
        .await?;
    let all = "UPDATE events_held SET value = (SELECT count(*) FROM events) WHERE one = 1 RETURNING value";
    Ok(sqlx::query_scalar(all).fetch_one(change.on()).await?)
}
