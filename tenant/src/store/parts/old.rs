//! Forgets parts of periods that are long over.

use sqlx::AnyConnection;

use super::signed;
use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::ledger::Period;
use crate::store::Store;
use crate::store::dialect::Dialect;
use crate::time::UnixMillis;

/// Days after the end of its period for which a day's part is kept, and for which a month's is.
const DAYS_KEPT: u64 = 7;
const MONTH_DAYS_KEPT: u64 = 70;
/// With clocks further apart nobody knows which periods are over.
pub(crate) const CLOCKS_APART_MAX_MS: u64 = 60_000;

impl Store {
    /// Forgets parts of periods that are long over by the database's clock. Says by how many milliseconds the clocks differ, and does
    /// nothing, where the one of whoever asks differs by more than [`CLOCKS_APART_MAX_MS`].
    ///
    /// # Errors
    /// As the database reports.
    pub(crate) async fn forget_old_parts(&self, now: UnixMillis) -> Result<Option<u64>, StoreError> {
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let forgotten = self.patience.rows(forget(&mut connection, self.dialect, now)).await;
        if forgotten.is_err() {
            connection.close_on_drop();
        }
        Ok(forgotten?)
    }
}

async fn forget(
    on: &mut AnyConnection,
    dialect: Dialect,
    now: UnixMillis,
) -> Result<Option<u64>, sqlx::Error> {
    let clock: i64 = sqlx::query_scalar(by_clock!(dialect, "SELECT ", "")).fetch_one(&mut *on).await?;
    let clock = if seeded(Fault::ClockBelieved) { now.get() } else { clock };
    let apart = clock.abs_diff(now.get());
    if apart > CLOCKS_APART_MAX_MS {
        return Ok(Some(apart));
    }
    // Within a minute of each other, and days are kept: either does.
    let today = crate::ledger::window(Period::Day, now);
    for sql in [
        "DELETE FROM budget_parts WHERE period = $1 AND starts < $2",
        "DELETE FROM budget_periods WHERE period = $1 AND starts < $2",
    ] {
        for (period, kept) in [(Period::Day, DAYS_KEPT), (Period::Month, MONTH_DAYS_KEPT)] {
            let query = sqlx::query(sql).bind(period.name()).bind(signed(today.saturating_sub(kept)));
            query.execute(&mut *on).await?;
        }
    }
    Ok(None)
}
