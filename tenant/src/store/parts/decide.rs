//! How much a gateway gets of a budget. Pure: from rows as one moment has them, and what is asked.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::store::parts::{Grow, PartAsk, PartTold, unsigned, want_kept_ms};

/// Of what is free, a gateway gets one such part beside what it needs now: one that is alone soon has nearly all, and a budget that
/// is nearly used up is split finely.
const FREE_PARTS: u64 = 8;

/// The budget and what was used before there were parts of it.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    pub(super) epoch: u64,
    /// None where nothing is handed out.
    pub(super) limit: Option<u64>,
    pub(super) base: u64,
    /// How often it was asked for: more than any row's version, also of rows that there are no more.
    pub(super) touched: i64,
}

/// What a gateway holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Row {
    pub(super) gateway: String,
    pub(super) epoch: u64,
    pub(super) version: i64,
    pub(super) amount: u64,
    pub(super) spent: u64,
    pub(super) used: u64,
    pub(super) want: Option<Want>,
    /// When it told.
    pub(super) seen_ms: i64,
    /// What it had not used was taken back, and it has not heard of that.
    pub(super) is_released: bool,
}

/// A request waits until its gateway's part is as large as this.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Want {
    pub(super) amount: u64,
    pub(super) since_ms: i64,
}

impl Want {
    /// Whether somebody waits still.
    fn lasts(self, now_ms: i64) -> bool {
        self.since_ms > now_ms.saturating_sub(want_kept_ms()) && self.since_ms <= now_ms
    }
}

pub(super) struct Decided {
    pub(super) row: Row,
    pub(super) told: PartTold,
}

impl Row {
    pub(super) fn read(stored: &AnyRow) -> Result<Self, StoreError> {
        let want = match (stored.try_get::<Option<i64>, _>(6)?, stored.try_get::<Option<i64>, _>(7)?) {
            (Some(amount), Some(since_ms)) => Some(Want { amount: unsigned(amount, "wanted")?, since_ms }),
            (None, _) | (_, None) => None,
        };
        Ok(Self {
            gateway: stored.try_get::<&str, _>(0)?.to_owned(),
            epoch: unsigned(stored.try_get(1)?, "epoch")?,
            version: stored.try_get(2)?,
            amount: unsigned(stored.try_get(3)?, "amount")?,
            spent: unsigned(stored.try_get(4)?, "spent")?,
            used: unsigned(stored.try_get(5)?, "used")?,
            want,
            seen_ms: stored.try_get(8)?,
            is_released: stored.try_get::<i64, _>(9)? != 0,
        })
    }
}

/// The row that a gateway has after it has asked; none where what it holds is of another count.
pub(super) fn decide(
    whole: Whole,
    (mine, others): (Option<&Row>, &[Row]),
    ask: &PartAsk,
    now_ms: i64,
) -> Option<Decided> {
    let Whole { epoch, limit: in_force, base, touched } = whole;
    // What a gateway would not let pass under the limit that it knows is not handed out to it.
    let limit =
        in_force.map(|limit| ask.limit.filter(|_| !seeded(Fault::LimitUnheard)).unwrap_or(limit).min(limit));
    if ask.epoch != 0 && ask.epoch != epoch {
        return None;
    }
    // A row of an older count was let go with what it was for: nothing of it is held any more.
    let counted = mine.filter(|row| row.epoch == epoch);
    let spent = counted.map_or(ask.spent, |row| row.spent.max(ask.spent));
    let used = ask.used.saturating_add(spent.saturating_sub(ask.spent));
    let is_late = |row: &&Row| ask.version != Some(row.version) && !seeded(Fault::LateBelieved);
    // Only as the answer to this very row does the gateway's word count for less than the row, and say how much is spent.
    let (held, noted) = match counted.filter(is_late) {
        Some(row) => {
            // Of what was taken back, others may hold some by now: it keeps what it uses.
            let is_kept = row.is_released && !seeded(Fault::ReleasedTaken);
            let holds = if is_kept { ask.used } else { ask.held };
            (row.amount.max(holds).max(row.spent), (row.spent, row.used.max(used)))
        }
        None if seeded(Fault::SpentUnheld) => (ask.held, (spent, used)),
        // One that has forgotten says that it holds less than it had spent of it: that stays spent.
        None => (ask.held.max(used), (spent, used)),
    };

    let of_this = |row: &&Row| row.epoch == epoch;
    let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(base, u64::saturating_add);
    // What was given of an older count may still be spent until it is let go; how much of it is used is in the base, or is not known.
    let counts = |row: &&Row| {
        !seeded(Fault::PartsUncounted) && (row.epoch == epoch || !seeded(Fault::OldPartsUncounted))
    };
    let held_elsewhere = sum(&mut others.iter().filter(counts).map(|row| row.amount));
    let spent_elsewhere = sum(&mut others.iter().filter(of_this).map(|row| row.spent));

    let before = mine.and_then(|row| row.want).filter(|want| want.lasts(now_ms));
    let free = limit.unwrap_or(0).saturating_sub(held_elsewhere).saturating_sub(held);
    let kept = kept_for(
        (in_force.unwrap_or(0), sum(&mut others.iter().filter(of_this).map(|row| row.used))),
        (others, used),
        before,
        now_ms,
    );
    let free = free.saturating_sub(kept);
    let lacks = |need: u64| used.saturating_add(need).saturating_sub(held);
    let (more, want) = match ask.grow {
        _ if limit.is_none() => (0, None),
        Grow::Not => (0, None),
        // What does not do for whom it is asked for stays where it does for another.
        Grow::For { one, .. } if lacks(one) > free => (0, Some(used.saturating_add(one))),
        // The answer was lost.
        Grow::For { all, .. } if lacks(all) == 0 => (0, None),
        Grow::For { all, .. } => (lacks(all).max(free.div_euclid(FREE_PARTS)).min(free), None),
        Grow::AsMayBe => (free.div_euclid(FREE_PARTS), None),
    };
    // A wish that could not be fulfilled, even if others used no more of what they hold, is none.
    let left = limit.unwrap_or(0).saturating_sub(spent_elsewhere);
    let since_ms = before.map_or(now_ms, |want| want.since_ms);
    let want = want.filter(|amount| *amount <= left).map(|amount| Want { amount, since_ms });
    // Never one that a row of it had before, so that no late message of then is taken for the answer to this one.
    let version = mine.map_or(touched, |row| row.version.saturating_add(1).max(touched));
    let (amount, is_released) =
        (held.saturating_add(more), counted.filter(is_late).is_some_and(|row| row.is_released));
    let (gateway, (note, used)) = (String::new(), noted);
    let row = Row { gateway, epoch, version, amount, spent: note, used, want, seen_ms: now_ms, is_released };
    let limit = limit.filter(|limit| held_elsewhere.saturating_add(amount) <= *limit);
    let told = PartTold { epoch, version, amount, limit, spent, noted: note, spent_elsewhere };
    Some(Decided { row, told })
}

/// What is kept for gateways that have waited for longer, and would have what they need if others gave back what they do not use.
/// Who waits for what others use keeps nothing from anybody.
fn kept_for(
    (limit, used_elsewhere): (u64, u64),
    (others, used): (&[Row], u64),
    before: Option<Want>,
    now_ms: i64,
) -> u64 {
    let mine = before.map_or(i64::MAX, |want| want.since_ms);
    let all = used_elsewhere.saturating_add(used);
    let waits = |row: &Row| {
        let want = row.want.filter(|want| want.lasts(now_ms) && want.since_ms < mine)?;
        let by_others = all.saturating_sub(row.used);
        (want.amount <= limit.saturating_sub(by_others)).then(|| want.amount.saturating_sub(row.amount))
    };
    others.iter().filter_map(waits).fold(0, u64::saturating_add)
}
