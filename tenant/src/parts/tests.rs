mod asks;
mod faults;
mod live;
mod world;
mod worlds;

use std::collections::{BTreeMap, HashMap};
use std::task::Poll;

use crate::ledger::tests::{Bench as Books, DAY, at, model, poll_now};
use crate::ledger::{
    Budget, BudgetKind, BudgetRefusal, Claim, Journalled, Line, Part, Payer, Period, Price, Pricing,
    Reservation, Slice, Sum, Taken, Thresholds, Unit, Used, WorstCase, window,
};
use crate::level::{Level, Models};
use crate::parts::flight::{Act, Wish, ask_of, begin, take_over};
use crate::store::parts::{Base, Grow, PartAnswer, PartAsk, PartTold};
use crate::store::tests::Bench as Database;
use crate::store::{PartRecord, Store};

/// The first noon of a month, so that a day's and a month's windows end at different times.
const NOON: i64 = 1_798_761_600_000 + DAY / 2;

fn hard(level: Level, period: Period, limit: u64) -> Budget {
    let (models, unit, thresholds) = (Models::All, Unit::Tokens, Thresholds::NONE);
    Budget { level, models, unit, period, limit, kind: BudgetKind::Hard, thresholds }
}

fn slice(budget: &Budget, now: i64) -> Slice {
    Slice { line: budget.line(), start: window(budget.period, at(now)) }
}

/// A tenant, and a key that pays.
async fn payer(database: &Database) -> Payer {
    let tenant = database.tenant("acme").await.id;
    let (key, _) = database.key(tenant).await;
    let projects = database.store.list_projects(tenant).await.unwrap();
    Payer { tenant, project: projects[0].id, key: key.id }
}
