//! How a budget's period, and numbers, are stored.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::ledger::{Line, Period, Slice, Unit};
use crate::store::limits::{self, scope};
use crate::store::row;

/// Level, subject, model, unit and period, as they are stored.
pub(super) fn names(slice: &Slice) -> [String; 5] {
    let Line { level, models, unit, period } = &slice.line;
    let [level_name, model, unit, period] =
        [level.name(), limits::model(models), unit.name(), period.name()].map(ToOwned::to_owned);
    [level_name, limits::subject(*level), model, unit, period]
}

pub(super) type Query<'q> = sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments>;

/// With what names a budget's period as its first six arguments.
pub(super) fn named<'q>(query: Query<'q>, slice: &Slice) -> Query<'q> {
    let [level, subject, model, unit, period] = names(slice);
    query.bind(level).bind(subject).bind(model).bind(unit).bind(period).bind(signed(slice.start))
}

/// What names a budget's period, from the first six columns.
pub(super) fn slice_of(stored: &AnyRow) -> Result<Slice, StoreError> {
    let text = |place: usize| stored.try_get::<&str, _>(place);
    let damaged = |column| row::damaged("budget_parts", column);
    let of = scope(text(0)?, text(1)?, text(2)?)?;
    let unit = Unit::parse(text(3)?).ok_or_else(|| damaged("unit"))?;
    let period = Period::parse(text(4)?).ok_or_else(|| damaged("period"))?;
    let line = Line { level: of.level, models: of.models, unit, period };
    Ok(Slice { line, start: unsigned(stored.try_get(5)?, "starts")? })
}

pub(super) fn unsigned(stored: i64, column: &'static str) -> Result<u64, StoreError> {
    u64::try_from(stored).map_err(|_| row::damaged("budget_parts", column))
}

/// Saturates at what a database counts to, which is the largest budget.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
