//! Parts of budgets: handed out to gateways, so that all of them together stay within each budget.
//!
//! Each gateway has one row for a budget's period. What it asks is said whole (how much it holds, how large its part should be), and
//! so is the answer: a message that is lost, or comes twice, changes nothing that was not asked. To lower a row takes its version,
//! so that a message which comes late, after others, lowers nothing.

use std::time::Duration;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::ledger::Slice;
use crate::store::dialect::Dialect;
use crate::store::patience::within;
use crate::store::{Store, TenantId, row};

use decide::{Decided, Row as PartRow, decide};
use fold::fold;
use names::{named, names, signed, slice_of, unsigned};
pub(crate) use old::CLOCKS_APART_MAX_MS;
pub use records::{PART_RECORDS_MAX, PartRecord, Released};

// By the database's clock, in milliseconds: those of gateways may differ.
macro_rules! by_clock {
    ($dialect:expr, $before:literal, $after:literal) => {
        match $dialect {
            crate::store::dialect::Dialect::Sqlite => {
                concat!($before, "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)", $after)
            }
            crate::store::dialect::Dialect::Postgres => {
                concat!($before, "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)", $after)
            }
        }
    };
}
macro_rules! of_the_slice {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " WHERE level = $1 AND subject = $2 AND model = $3 AND unit = $4 AND period = $5 AND starts = $6",
            $after
        )
    };
}
macro_rules! select {
    () => {
        of_the_slice!(
            "SELECT gateway, epoch, version, amount, spent, used, wanted, wanted_ms, seen_ms, released FROM budget_parts",
            ""
        )
    };
}
macro_rules! delete {
    () => {
        of_the_slice!("DELETE FROM budget_parts", " AND gateway = $7")
    };
}
macro_rules! set_base {
    () => {
        of_the_slice!("UPDATE budget_periods SET epoch = $7, base = $8", "")
    };
}
macro_rules! touch {
    ($dialect:expr) => {
        by_clock!(
            $dialect,
            "INSERT INTO budget_periods (level, subject, model, unit, period, starts, epoch, base, touched)
         VALUES ($1, $2, $3, $4, $5, $6, 0, 0, 1)
         ON CONFLICT (level, subject, model, unit, period, starts)
         DO UPDATE SET touched = budget_periods.touched + 1 RETURNING epoch, base, touched, ",
            ""
        )
    };
}
macro_rules! write {
    () => {
        "INSERT INTO budget_parts (level, subject, model, unit, period, starts, gateway, epoch, version, amount, spent, used,
                                   wanted, wanted_ms, seen_ms, released)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (level, subject, model, unit, period, starts, gateway)
         DO UPDATE SET epoch = excluded.epoch, version = excluded.version, amount = excluded.amount, spent = excluded.spent,
            used = excluded.used, wanted = excluded.wanted, wanted_ms = excluded.wanted_ms, seen_ms = excluded.seen_ms,
            released = excluded.released"
    };
}

mod decide;
mod fold;
mod names;
mod old;
mod records;

/// Gateways that may hold parts of one budget in one period. One more takes the place of one that has spent all that it held.
pub const PART_GATEWAYS_MAX: usize = 256;
/// How long a request that waits for a part keeps others from what is free; longer than it waits.
pub(crate) const WANT_KEPT: Duration = Duration::from_secs(3);

/// What a gateway says of one budget's period, and asks.
#[derive(Clone, Debug)]
pub(crate) struct PartAsk {
    pub(crate) slice: Slice,
    /// Which count what it holds is of; 0 where it holds nothing.
    pub(crate) epoch: u64,
    /// As much it holds; not more can be spent there until it is answered.
    pub(crate) held: u64,
    /// Its row's, if the last answer came.
    pub(crate) version: Option<i64>,
    /// Of that.
    pub(crate) spent: u64,
    /// The same, with what is reserved.
    pub(crate) used: u64,
    pub(crate) grow: Grow,
    /// The hard budget's limit, as the gateway knows it: no more is handed out than fits this one as well.
    pub(crate) limit: Option<u64>,
    /// What was used before there were parts, if it had to be summed up.
    pub(crate) base: Option<Base>,
}

/// How much larger a part should be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Grow {
    /// Not at all.
    Not,
    /// As the store sees fit.
    AsMayBe,
    /// So much has to fit beside what is used.
    For {
        /// For the request that asks least.
        one: u64,
        /// For all that wait.
        all: u64,
    },
}

/// What the store had as used, for the count of this epoch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Base {
    pub(crate) epoch: u64,
    pub(crate) used: u64,
}

/// What becomes of an ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PartAnswer {
    /// This is held now.
    Told(PartTold),
    /// What the gateway holds is of another count: to be forgotten first.
    Stale,
    /// Its row is of another count, and may be given up only by who knows its version: this one.
    Blind { version: i64 },
    /// There is no such budget.
    Lifted,
    /// What was used before is to be summed up first, for this count.
    BaseUnknown { epoch: u64 },
    /// As many gateways hold parts as may.
    Crowded,
}

/// How a gateway's row stands now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PartTold {
    pub(crate) epoch: u64,
    pub(crate) version: i64,
    pub(crate) amount: u64,
    /// The hard budget's limit as it was decided under, where base and all parts fit it.
    pub(crate) limit: Option<u64>,
    /// What is spent of it; more than the gateway said where it has forgotten.
    pub(crate) spent: u64,
    /// What its row says of that: less, where the store could not know that the gateway's word was its latest.
    pub(crate) noted: u64,
    /// What was used before there were parts, and is spent of those of others.
    pub(crate) spent_elsewhere: u64,
}

impl Store {
    /// Asks for, gives back and tells of parts, in one transaction. The answers are in the order of the asks.
    ///
    /// # Errors
    /// As the database reports, or when it does not answer in time. Whether anything was changed is not known then.
    pub(crate) async fn exchange_parts(
        &self,
        gateway: &str,
        asks: &[PartAsk],
        limit: Duration,
    ) -> Result<Vec<PartAnswer>, StoreError> {
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let exchanged = within(limit, self.exchange_on(&mut connection, gateway, asks)).await;
        if exchanged.is_err() {
            // Given back, it might be waited for once more.
            connection.close_on_drop();
        }
        exchanged
    }

    async fn exchange_on(
        &self,
        connection: &mut AnyConnection,
        gateway: &str,
        asks: &[PartAsk],
    ) -> Result<Vec<PartAnswer>, StoreError> {
        // In one order, so that two gateways never wait for each other in a ring.
        let mut order: Vec<_> = asks.iter().enumerate().collect();
        order.sort_by_cached_key(|(_, ask)| (names(&ask.slice), ask.slice.start));
        let mut answers = Vec::with_capacity(asks.len());
        let mut changing = sqlx::Connection::begin_with(connection, self.dialect.begin_exchange()).await?;
        for (place, ask) in order {
            answers.push((place, exchange_one(&mut changing, self.dialect, gateway, ask).await?));
        }
        changing.commit().await?;
        answers.sort_unstable_by_key(|(place, _)| *place);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// What the store has as used of a line in a window: the base of a new count.
    ///
    /// # Errors
    /// As the database reports, or when it does not answer within 30 s.
    pub(crate) async fn used_before(&self, slice: &Slice) -> Result<u64, StoreError> {
        let Slice { line, start } = slice;
        let hours = crate::ledger::hours_from(line.period, *start);
        self.spent_in((line.level, &line.models, line.unit), hours).await
    }

    /// Those of this gateway's parts that others want of, and whose budgets they are of.
    ///
    /// # Errors
    /// As the database reports.
    pub(crate) async fn wanted_parts(&self, gateway: &str) -> Result<Vec<(TenantId, Slice)>, StoreError> {
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let asked = sqlx::query(by_clock!(
            self.dialect,
            "SELECT DISTINCT mine.level, mine.subject, mine.model, mine.unit, mine.period, mine.starts, b.tenant
             FROM budget_parts wants JOIN budget_parts mine
               ON mine.level = wants.level AND mine.subject = wants.subject AND mine.model = wants.model
              AND mine.unit = wants.unit AND mine.period = wants.period AND mine.starts = wants.starts
             JOIN budgets b
               ON b.level = mine.level AND b.subject = mine.subject AND b.model = mine.model
              AND b.unit = mine.unit AND b.period = mine.period
             WHERE wants.wanted_ms > ",
            " - $1 AND wants.gateway <> $2 AND mine.gateway = $2 LIMIT $3"
        ))
        .bind(want_kept_ms())
        .bind(gateway.to_owned())
        .bind(PART_RECORDS_MAX)
        .fetch_all(&mut *connection);
        let rows = self.patience.answer(asked).await;
        if rows.is_err() {
            connection.close_on_drop();
        }
        let read = |row: &AnyRow| Ok((row::tenant_id(row.try_get(6)?, "budgets", "tenant")?, slice_of(row)?));
        rows?.iter().map(read).collect()
    }
}

/// For how many milliseconds a wish counts.
fn want_kept_ms() -> i64 {
    i64::try_from(WANT_KEPT.as_millis()).unwrap_or(i64::MAX)
}

async fn exchange_one(
    on: &mut AnyConnection,
    dialect: Dialect,
    gateway: &str,
    ask: &PartAsk,
) -> Result<PartAnswer, StoreError> {
    // First, so that from here on no other gateway is answered for this budget, and what is read next does not move for any.
    let Touched { epoch, base, touched, now_ms } = touch(on, dialect, &ask.slice).await?;
    let Some(standing) = standing(on, &ask.slice).await? else {
        if ask.epoch != 0 {
            // Its row counts until it has forgotten what it holds: the budget may be set again by then.
            return Ok(PartAnswer::Stale);
        }
        return let_go(on, gateway, ask).await;
    };
    let base = match ask.base {
        _ if epoch == standing.epoch => base,
        Some(given) if given.epoch == standing.epoch => {
            let query = named(sqlx::query(set_base!()), &ask.slice);
            query.bind(signed(given.epoch)).bind(signed(given.used)).execute(&mut *on).await?;
            given.used
        }
        Some(_) | None => return Ok(PartAnswer::BaseUnknown { epoch: standing.epoch }),
    };
    let rows = named(sqlx::query(select!()), &ask.slice).fetch_all(&mut *on).await?;
    let rows = rows.iter().map(PartRow::read).collect::<Result<Vec<_>, _>>()?;
    let (mine, mut others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.gateway == gateway);
    let base = if mine.is_empty() && others.len() >= PART_GATEWAYS_MAX {
        match fold(on, &ask.slice, &mut others, (standing.epoch, base)).await? {
            Some(base) => base,
            None => return Ok(PartAnswer::Crowded),
        }
    } else {
        base
    };
    if let Some(row) = mine.first().filter(|row| is_blind(row.epoch != standing.epoch, row.version, ask)) {
        return Ok(PartAnswer::Blind { version: row.version });
    }
    let whole = decide::Whole { epoch: standing.epoch, limit: standing.limit, base, touched };
    let Some(Decided { row, told }) = decide(whole, (mine.first(), &others), ask, now_ms) else {
        return Ok(PartAnswer::Stale);
    };
    let query = named(sqlx::query(write!()), &ask.slice).bind(gateway.to_owned());
    query
        .bind(signed(row.epoch))
        .bind(row.version)
        .bind(signed(row.amount))
        .bind(signed(row.spent))
        .bind(signed(row.used))
        .bind(row.want.map(|want| signed(want.amount)))
        .bind(row.want.map(|want| want.since_ms))
        .bind(now_ms)
        .bind(i64::from(row.is_released))
        .execute(on)
        .await?;
    Ok(PartAnswer::Told(told))
}

/// Whether a gateway that says that it holds nothing of an older count may say so from before it held that.
fn is_blind(is_older: bool, version: i64, ask: &PartAsk) -> bool {
    let is_let_go = is_older && ask.epoch == 0;
    is_let_go && ask.version != Some(version) && !seeded(Fault::LateBelieved)
}

/// Takes away the row of a budget that was lifted, of which its gateway holds nothing any more.
async fn let_go(on: &mut AnyConnection, gateway: &str, ask: &PartAsk) -> Result<PartAnswer, StoreError> {
    let rows = named(sqlx::query(select!()), &ask.slice).fetch_all(&mut *on).await?;
    let rows = rows.iter().map(PartRow::read).collect::<Result<Vec<_>, _>>()?;
    let mine = rows.iter().find(|row| row.gateway == gateway);
    if let Some(row) = mine.filter(|row| is_blind(true, row.version, ask)) {
        return Ok(PartAnswer::Blind { version: row.version });
    }
    named(sqlx::query(delete!()), &ask.slice).bind(gateway.to_owned()).execute(on).await?;
    Ok(PartAnswer::Lifted)
}

/// How a budget stands.
struct Stands {
    epoch: u64,
    /// None of a soft one alone: nothing is handed out of it.
    limit: Option<u64>,
}

/// A budget's period, as whoever is answered now finds it.
struct Touched {
    epoch: u64,
    base: u64,
    /// One more each time.
    touched: i64,
    /// By the database's clock.
    now_ms: i64,
}

async fn touch(on: &mut AnyConnection, dialect: Dialect, slice: &Slice) -> Result<Touched, StoreError> {
    let row = named(sqlx::query(touch!(dialect)), slice).fetch_one(on).await?;
    let (epoch, base) = (unsigned(row.try_get(0)?, "epoch")?, unsigned(row.try_get(1)?, "base")?);
    Ok(Touched { epoch, base, touched: row.try_get(2)?, now_ms: row.try_get(3)? })
}

async fn standing(on: &mut AnyConnection, slice: &Slice) -> Result<Option<Stands>, StoreError> {
    let [level, subject, model, unit, period] = names(slice);
    let rows = sqlx::query(
        "SELECT kind, amount, since FROM budgets
         WHERE level = $1 AND subject = $2 AND model = $3 AND unit = $4 AND period = $5 AND amount IS NOT NULL",
    )
    .bind(level)
    .bind(subject)
    .bind(model)
    .bind(unit)
    .bind(period)
    .fetch_all(on)
    .await?;
    let mut found = None;
    for row in &rows {
        let (kind, epoch) = (row.try_get::<&str, _>(0)?, unsigned(row.try_get(2)?, "since")?);
        if kind == "hard" {
            return Ok(Some(Stands { epoch, limit: Some(unsigned(row.try_get(1)?, "amount")?) }));
        }
        found = Some(Stands { epoch, limit: None });
    }
    Ok(found)
}
