//! Makes room for one gateway more: what one that holds nothing has spent is added to what was used before there were parts.

use sqlx::AnyConnection;

use super::decide::Row;
use super::{named, signed};
use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::ledger::Slice;

/// The row to fold: of those that hold nothing, whose gateway told longest ago; of one that was released only when there is no other.
fn longest_gone(rows: &[Row]) -> Option<usize> {
    let holds_nothing = |row: &Row| row.amount <= row.spent || row.is_released;
    let all = rows.iter().enumerate().filter(|(_, row)| holds_nothing(row));
    all.min_by_key(|(_, row)| (row.is_released, row.seen_ms)).map(|(place, _)| place)
}

/// Folds one of `rows` into the base of this count, and says what that is then; none where all hold something. A gateway that comes
/// back all the same is counted twice.
pub(super) async fn fold(
    on: &mut AnyConnection,
    slice: &Slice,
    rows: &mut Vec<Row>,
    (epoch, base): (u64, u64),
) -> Result<Option<u64>, StoreError> {
    let Some(place) = longest_gone(rows) else { return Ok(None) };
    let row = rows.swap_remove(place);
    // What was spent of an older count is in the base already.
    let is_counted = row.epoch == epoch && !seeded(Fault::FoldedFree);
    let added = if is_counted { row.amount.max(row.spent) } else { 0 };
    let base = base.saturating_add(added);
    let query = named(sqlx::query(set_base!()), slice).bind(signed(epoch)).bind(signed(base));
    query.execute(&mut *on).await?;
    named(sqlx::query(delete!()), slice).bind(row.gateway).execute(on).await?;
    Ok(Some(base))
}
