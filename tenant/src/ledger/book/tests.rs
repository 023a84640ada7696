use uuid::Uuid;

use super::*;
use crate::key::KeyId;
use crate::ledger::budget::{Budget, Thresholds, Unit};
use crate::level::{Level, Models, ProjectId};
use crate::store::TenantId;

fn open(made: i64) -> Open {
    let payer = Payer {
        tenant: TenantId(Uuid::from_u128(1)),
        project: ProjectId(Uuid::from_u128(2)),
        key: KeyId::parse("aaaaaaaaaaaa").unwrap(),
    };
    let budget = Budget {
        level: Level::Key(payer.key),
        models: Models::All,
        unit: Unit::Tokens,
        period: Period::Day,
        limit: 0,
        kind: BudgetKind::Soft,
        thresholds: Thresholds::NONE,
    };
    Open {
        made: UnixMillis::new(made).unwrap(),
        payer,
        model: ModelName::new("m").unwrap(),
        pricing: Pricing::Unpriced,
        binds: Binds::default().and(&budget),
        worst: WorstCase::new(5, 5, 1).unwrap(),
        used: Used::NONE,
    }
}

#[test]
fn a_change_that_does_not_fit_changes_nothing() {
    let mut book = Book::default();
    book.reserve(1, open(0)).unwrap();
    let before = book.clone();
    let more = Used { prompt: 6, cached: 0, completion: 0 };
    assert_eq!(book.reserve(1, open(0)), Err(Unfit::SameNumber));
    assert_eq!(book.mark(2, Used::NONE), Err(Unfit::NoSuchReservation));
    assert_eq!(book.mark(1, more), Err(Unfit::BeyondWorst));
    assert_eq!(book.settle(2, Used::NONE).map(drop), Err(Unfit::NoSuchReservation));
    assert_eq!(book.settle(1, more).map(drop), Err(Unfit::BeyondWorst));
    assert_eq!(book.restore_open(1, open(0)), Err(Unfit::SameNumber));
    assert_eq!(book.restore_open(2, open(86_400_000)), Err(Unfit::NoSum));
    assert_eq!(book.restore_open(2, Open { used: more, ..open(0) }), Err(Unfit::BeyondWorst));
    assert_eq!(book, before);
    book.settle(1, Used::NONE).unwrap();
    assert_eq!(book.settle(1, Used::NONE).map(drop), Err(Unfit::NoSuchReservation), "once");
}

#[test]
fn the_windows_of_a_line_are_those_used_last() {
    let mut book = Book::default();
    for (id, day) in [(1, 0), (2, 1), (3, 0), (4, 2), (5, 3)] {
        book.reserve(id, open(day * 86_400_000)).unwrap();
        book.settle(id, Used { prompt: 1, cached: 0, completion: 0 }).unwrap();
    }
    let (_, _, sums) = book.lines().next().unwrap();
    let held: Vec<_> = sums.iter().map(|sum| (sum.start, sum.spent)).collect();
    assert_eq!(held, [(0, 2), (2, 1), (3, 1)]);
    assert_eq!((book.sums(), book.sums_missing(&open(0)), book.sums_missing(&open(86_400_000))), (3, 0, 1));
}
