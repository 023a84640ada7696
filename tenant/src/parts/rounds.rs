//! What is done beside requests: given back what others want or nobody uses, forgotten what no budget counts, asked for what a period
//! that begins soon will need.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::directory::LineStands;
use crate::ledger::{Line, Resets, Slice, Sum, resets, window};
use crate::parts::House;
use crate::parts::desk::Standing;
use crate::parts::flight::{self, Act, Wish};
use crate::store::parts::CLOCKS_APART_MAX_MS;
use crate::time::UnixMillis;

/// How often it is looked whether other gateways want of what is held here.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often all parts are looked at.
const SCAN_EVERY: Duration = Duration::from_secs(5);
/// A part that nobody has used for so long is given back.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How old what the store knows of a part that is used may be.
const TELL_EVERY: Duration = Duration::from_secs(30);
/// So long before a period begins its parts are asked for.
const LEAD: Duration = Duration::from_secs(600);
/// How often parts of periods long over are forgotten in the store.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

pub(super) async fn make(house: Arc<House>, mut stopped: watch::Receiver<bool>) {
    let (mut scanned, mut forgot) = (Instant::now(), None::<Instant>);
    while !*stopped.borrow() {
        look(&house).await;
        if scanned.elapsed() >= SCAN_EVERY {
            scanned = Instant::now();
            scan(&house, now());
        }
        if forgot.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
            forgot = Some(Instant::now());
            forget_old(&house).await;
        }
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }
    give_all_back(&house).await;
}

async fn forget_old(house: &House) {
    match house.store.forget_old_parts(now()).await {
        Ok(None) => {}
        Ok(Some(apart_ms)) => {
            tracing::warn!(
                apart_ms,
                allowed_ms = CLOCKS_APART_MAX_MS,
                "parts of periods long over are not forgotten: the clocks of this machine and of the database differ; set them"
            );
        }
        Err(error) => {
            tracing::debug!(%error, "parts of periods long over are not forgotten; it is tried again");
        }
    }
}

fn now() -> UnixMillis {
    UnixMillis::from_system(SystemTime::now())
}

/// Gives back what requests at other gateways wait for.
async fn look(house: &Arc<House>) {
    // A failure shows where parts are asked for.
    let Ok(wanted) = house.store.wanted_parts(&house.gateway).await else { return };
    for (tenant, slice) in wanted {
        if !house.desk().is_just_granted(tenant, &slice) {
            house.wish(tenant, slice, Wish::of(Act::GiveBack));
        }
    }
}

/// Looks at all parts.
pub(super) fn scan(house: &Arc<House>, now: UnixMillis) {
    let shared = house.ledger.shared();
    for tenant in shared.tenants() {
        let all = shared.all_held(tenant);
        for (slice, sum) in &all {
            let seen = house.desk().look(tenant, slice, Standing::of(sum));
            let quiet = seen.map_or(Duration::ZERO, |(quiet, _)| quiet);
            // After a start nothing is known of what the journal says.
            let stale = seen.map_or(sum.part.epoch != 0, |(_, known)| {
                known.told != Standing::of(sum) && known.answered.elapsed() >= TELL_EVERY
            });
            if let Some(wish) = due(house.directory.line_stands(&slice.line), slice, sum, (quiet, stale), now)
            {
                house.wish(tenant, slice.clone(), wish);
            }
            if let Some(next) = next(slice, sum, now)
                && !all.iter().any(|(other, _)| *other == next)
            {
                house.wish(tenant, next, Wish::as_may_be(None));
            }
        }
        house.desk().keep(tenant, &all.iter().map(|(slice, _)| slice).collect::<HashSet<_>>());
    }
}

/// What is to be done about a part, if anything.
fn due(
    stands: LineStands,
    slice: &Slice,
    sum: &Sum,
    (quiet, stale): (Duration, bool),
    now: UnixMillis,
) -> Option<Wish> {
    let limit = match stands {
        // What is reserved still is not held for any budget.
        LineStands::Lifted => {
            // The store has to say so too before anything is forgotten: what is known here may be older than the budget.
            return (sum.part.epoch != 0 || sum.holders == 0).then_some(Wish::of(Act::Tell));
        }
        // What runs of a key that ended is cut, and then settled.
        LineStands::KeyEnded => return (sum.holders == 0).then_some(Wish::of(Act::LetGo)),
        LineStands::Set { limit } => limit,
    };
    // A period that is over is forgotten with time, and one that comes is not idle yet.
    if slice.start != window(slice.line.period, now) {
        return None;
    }
    let is_lowered = limit.is_some_and(|limit| limit < sum.part.seen);
    let is_idle = sum.holders == 0 && quiet >= IDLE_MAX;
    if sum.part.amount > sum.used() && (is_lowered || is_idle) {
        return Some(Wish { limit, ..Wish::of(Act::GiveBack) });
    }
    stale.then_some(Wish { limit, ..Wish::of(Act::Tell) })
}

/// The next period of a budget that is used now, if that begins soon.
fn next(slice: &Slice, sum: &Sum, now: UnixMillis) -> Option<Slice> {
    let Line { period, .. } = slice.line;
    let Resets::At(end) = resets(period, now) else { return None };
    let lead = u64::try_from(LEAD.as_millis()).unwrap_or(u64::MAX);
    let is_soon = end.unsigned().saturating_sub(now.unsigned()) <= lead;
    let is_used = slice.start == window(period, now) && sum.part.amount > 0;
    (is_soon && is_used).then(|| Slice { line: slice.line.clone(), start: window(period, end) })
}

/// Gives back what is not used, and says the last of what is spent, once for each part.
async fn give_all_back(house: &Arc<House>) {
    let shared = house.ledger.shared();
    for tenant in shared.tenants() {
        let all = shared.all_held(tenant);
        let is_untold = |slice: &Slice, sum: &Sum| {
            let seen = house.desk().look(tenant, slice, Standing::of(sum));
            sum.part.epoch != 0 && seen.is_none_or(|(_, known)| known.told != Standing::of(sum))
        };
        for (slice, sum) in all {
            if sum.part.amount <= sum.used() && !is_untold(&slice, &sum) {
                continue;
            }
            house.wish(tenant, slice, Wish::of(Act::GiveBack));
        }
    }
    for tenant in shared.tenants() {
        while house.desk().is_flying(tenant) {
            sleep(flight::LANDING_LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests;
