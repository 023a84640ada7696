//! Each guard, taken away: a test must notice. Built with `--features seeded-faults`.
#![cfg(feature = "seeded-faults")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::world::Plan;
use super::worlds::run;
use super::*;
use crate::fault::{Fault, with};

/// Whether `act` panics without the guard; with it, it must not.
fn control(fault: Fault, act: impl Fn()) {
    act();
    let lost = with(fault, || catch_unwind(AssertUnwindSafe(&act)));
    assert!(lost.is_err(), "nobody notices {fault:?}");
}

/// Few worlds of 64 clients find it.
fn control_by_worlds(fault: Fault) {
    control(fault, || {
        run(0..12, Plan { clients: 64, requests_each: 1, kill_one_in: 100 });
    });
}

fn claim<'a>(name: &'a ModelName, budgets: &'a [Budget]) -> Claim<'a> {
    let worst = WorstCase::new(10, 10, 1).unwrap();
    Claim { payer: payer(1, 1, 0), model: name, pricing: price(), budgets, worst }
}

#[test]
fn control_spent_only() {
    control_by_worlds(Fault::SpentOnly);
}

#[test]
fn control_refund_twice() {
    control_by_worlds(Fault::RefundTwice);
}

#[test]
fn control_settled_late() {
    control_by_worlds(Fault::SettledLate);
}

#[test]
fn control_unclamped() {
    control_by_worlds(Fault::Unclamped);
}

#[test]
fn control_cached_cheap() {
    control_by_worlds(Fault::CachedCheap);
}

#[test]
fn control_told_early() {
    control_by_worlds(Fault::ToldEarly);
}

#[test]
fn control_unsettled_forgotten() {
    control_by_worlds(Fault::UnsettledForgotten);
}

#[test]
fn control_batch_twice() {
    let name = model("a");
    control(Fault::BatchTwice, || {
        let mut bench = Bench::fresh(Bounds::FULL);
        drop(bench.reserve(&claim(&name, &[]), at(0)).unwrap().settle(used(1, 0, 0)).unwrap());
        assert!(matches!(bench.take(), Taken::Batch(Batch { number: 1, .. })));
        bench.confirm(1).unwrap();
        assert_eq!(bench.take(), Taken::Nothing, "given twice");
    });
}

#[test]
fn control_life_unnamed() {
    control(Fault::LifeUnnamed, super::lives::restored_once);
}

#[test]
fn control_damage_cut() {
    let (name, budgets) = (model("a"), [hard(Level::Key(payer(1, 1, 0).key), Unit::Tokens, Period::Day, 99)]);
    control(Fault::DamageCut, || {
        let mut bench = Bench::fresh(Bounds::FULL);
        let checkpoint = bench.medium.synced().len();
        for _ in 0..2 {
            drop(bench.reserve(&claim(&name, &budgets), at(0)).unwrap().settle(used(9, 0, 9)).unwrap());
            bench.commit(usize::MAX).unwrap();
        }
        let mut bytes = bench.medium.synced();
        bytes[checkpoint + HEADER_BYTES] ^= 1;
        assert!(Bench::reopen(bytes).is_err(), "what was acknowledged is gone, and nobody is told");
    });
}

#[test]
fn control_backlog_unbounded() {
    let name = model("a");
    control(Fault::BacklogUnbounded, || {
        let mut bench = Bench::fresh(Bounds { rows_max: 2, ..Bounds::FULL });
        for hour in 0..4 {
            bench.reserve(&claim(&name, &[]), at(hour * 3_600_000)).map(drop).unwrap_or_default();
            bench.commit(usize::MAX).unwrap();
        }
        assert_eq!(bench.writer.image.usage.rows(), 2, "more rows than may be");
    });
}

#[test]
fn control_unpriced_free() {
    let (name, payer) = (model("a"), payer(1, 1, 0));
    let budgets = [hard(Level::Key(payer.key), Unit::MicroMoney, Period::Day, 0)];
    control(Fault::UnpricedFree, || {
        let bench = Bench::fresh(Bounds::FULL);
        let claim = Claim { pricing: Pricing::Unpriced, ..claim(&name, &budgets) };
        assert!(bench.begin(&claim, at(0)).is_err(), "a budget of nothing is used");
    });
}

#[test]
fn control_told_early_by_a_disk_that_fails() {
    let name = model("a");
    control(Fault::ToldEarly, || {
        let medium = Medium::default();
        let source = Source::Fresh(Uuid::from_u128(7));
        let (ledger, _) = Ledger::open_on(&source, medium.clone(), Bounds::FULL).unwrap();
        medium.fail_after(1);
        let (_reservation, ticket) = ledger.shared.begin(&claim(&name, &[]), at(0)).unwrap();
        assert!(ticket.wait().is_err(), "told that it is on disk, and it is not");
    });
}
