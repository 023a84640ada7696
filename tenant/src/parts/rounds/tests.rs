//! What is due, case by case.

use super::*;
use crate::ledger::{Part, Period, Unit};
use crate::level::{Level, Models};
use crate::store::TenantId;

const DAY_MS: i64 = 86_400_000;

fn at(millis: i64) -> UnixMillis {
    UnixMillis::new(millis).unwrap()
}

fn slice(period: Period) -> Slice {
    let level = Level::Tenant(TenantId(uuid::Uuid::from_u128(1)));
    Slice { line: Line { level, models: Models::All, unit: Unit::Tokens, period }, start: 0 }
}

fn sum(amount: u64, spent: u64, reserved: u64) -> Sum {
    let part = Part { epoch: 3, amount, seen: 100, ..Part::NONE };
    Sum { spent, reserved, holders: u32::from(reserved > 0), part, ..Sum::default() }
}

#[test]
fn a_part_is_given_back_when_nobody_uses_it_or_its_limit_is_lower() {
    let quiet = |seconds: u64| (Duration::from_secs(seconds), false);
    let set = |limit| LineStands::Set { limit: Some(limit) };
    let due =
        |stands, sum: &Sum, quiet| due(stands, &slice(Period::Day), sum, quiet, at(5)).map(|wish| wish.act);
    assert_eq!(due(set(100), &sum(50, 10, 0), quiet(59)), None);
    assert_eq!(due(set(100), &sum(50, 10, 0), quiet(60)), Some(Act::GiveBack));
    assert_eq!(due(set(100), &sum(50, 10, 5), quiet(60)), None, "something runs");
    assert_eq!(due(set(100), &sum(10, 10, 0), quiet(60)), None, "there is nothing to give back");
    assert_eq!(due(set(99), &sum(50, 10, 5), quiet(0)), Some(Act::GiveBack));
    assert_eq!(due(set(101), &sum(50, 10, 5), quiet(0)), None);
    assert_eq!(due(set(100), &sum(50, 10, 5), (Duration::ZERO, true)), Some(Act::Tell));
    assert_eq!(due(LineStands::Set { limit: None }, &sum(50, 10, 5), quiet(0)), None);
    assert_eq!(due(LineStands::Lifted, &sum(50, 10, 5), quiet(0)), Some(Act::Tell));
    assert_eq!(due(LineStands::Lifted, &Sum::default(), quiet(0)), Some(Act::Tell));
    let runs = Sum { holders: 1, ..Sum::default() };
    assert_eq!(due(LineStands::Lifted, &runs, quiet(0)), None, "forgotten, but for what runs still");
    assert_eq!(due(LineStands::KeyEnded, &sum(50, 10, 5), quiet(0)), None);
    assert_eq!(due(LineStands::KeyEnded, &sum(50, 10, 0), quiet(0)), Some(Act::LetGo));
    let tomorrow = at(DAY_MS + 5);
    let over = super::due(set(100), &slice(Period::Day), &sum(50, 10, 0), quiet(99), tomorrow);
    assert_eq!(over, None, "a period that is over is left alone");
}

#[test]
fn the_next_period_is_asked_for_a_little_before_it_begins() {
    let next = |period, sum: &Sum, now| next(&slice(period), sum, at(now)).map(|slice| slice.start);
    let end = DAY_MS - 600_000;
    assert_eq!(next(Period::Day, &sum(50, 10, 0), end - 1), None);
    assert_eq!(next(Period::Day, &sum(50, 10, 0), end), Some(1));
    assert_eq!(next(Period::Day, &sum(50, 10, 0), DAY_MS), None, "it has begun");
    assert_eq!(next(Period::Day, &sum(0, 0, 0), end), None, "nobody uses it");
    assert_eq!(next(Period::Month, &sum(50, 10, 0), end), None);
    assert_eq!(next(Period::Month, &sum(50, 10, 0), 30 * DAY_MS + end), Some(31));
    assert_eq!(next(Period::Total, &sum(50, 10, 0), end), None);
}
