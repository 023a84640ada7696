//! Each bound is reached, and named by who is refused.

use super::*;

const WORST: [u64; 2] = [10, 10];

fn worst() -> WorstCase {
    WorstCase::new(WORST[0], WORST[1], 1).unwrap()
}

#[test]
fn a_budget_says_whose_it_is_what_is_left_and_when_it_resets() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let budgets = [
        hard(Level::Key(payer.key), Unit::Tokens, Period::Day, 1_000),
        hard(Level::Project(payer.project), Unit::MicroMoney, Period::Month, 150),
        hard(Level::Tenant(payer.tenant), Unit::Tokens, Period::Total, 1_000),
    ];
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst: worst() };
    let first = bench.reserve(&claim, at(DAY)).unwrap();
    let over = match bench.begin(&claim, at(DAY)) {
        Err(BudgetRefusal::OverBudget(over)) => *over,
        other => panic!("{:?}", other.err()),
    };
    let OverBudget { level, unit, period, asked, left, limit, resets, .. } = over.clone();
    assert_eq!((level, unit, period), (Level::Project(payer.project), Unit::MicroMoney, Period::Month));
    assert_eq!((asked, left, limit, resets), (100, 50, 150, Resets::At(at(31 * DAY))));
    assert_eq!(
        over.to_string(),
        format!(
            "the budget of 150 micro-units of money (month, all models) of project {} has 50 left, and this \
             request may need 100; it begins anew on 1970-02-01 at 00:00 UTC",
            payer.project
        )
    );
    for (budget, held) in budgets.iter().zip([20, 100, 20]) {
        assert_eq!(bench.sum(payer.tenant, budget, at(DAY)), (0, held), "all or nothing");
    }
    drop(first);
    for budget in &budgets {
        assert_eq!(bench.sum(payer.tenant, budget, at(DAY)), (0, 0), "all is given back");
    }
    bench.reserve(&claim, at(DAY)).map(drop).unwrap();
    let total = [hard(Level::Tenant(payer.tenant), Unit::Tokens, Period::Total, 19)];
    let claim = Claim { budgets: &total, ..claim };
    match bench.begin(&claim, at(DAY)) {
        Err(BudgetRefusal::OverBudget(over)) => {
            assert_eq!(over.resets, Resets::Never);
            assert!(over.to_string().ends_with("; it never begins anew"), "{over}");
        }
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn money_needs_a_price_and_tokens_do_not() {
    let bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let tokens = [hard(Level::Key(payer.key), Unit::Tokens, Period::Day, 1_000)];
    let claim = Claim { payer, model: &name, pricing: Pricing::Unpriced, budgets: &tokens, worst: worst() };
    let (reservation, _) = bench.begin(&claim, at(0)).unwrap();
    assert_eq!(reservation.settle(used(1, 0, 0)).unwrap().cost, Cost::Unpriced);
    for kind in [BudgetKind::Hard, BudgetKind::Soft] {
        let money = hard(Level::Key(payer.key), Unit::MicroMoney, Period::Day, u64::MAX);
        let budgets = [Budget { kind, ..money }];
        let refused = bench.begin(&Claim { budgets: &budgets, ..claim }, at(0)).err();
        assert!(matches!(refused, Some(BudgetRefusal::Unpriced { level: Level::Key(_) })), "{refused:?}");
    }
    assert_eq!(bench.shared.reservations.taken(), 0);
}

#[test]
fn what_is_beyond_the_reservation_is_clamped_and_said() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let budgets = [hard(Level::Key(payer.key), Unit::Tokens, Period::Day, 20)];
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst: worst() };
    for (said, charged) in [
        (used(11, 0, 10), used(10, 0, 10)),
        (used(10, 0, 11), used(10, 0, 10)),
        (used(5, 6, 0), used(5, 5, 0)),
        (used(u64::MAX, u64::MAX, u64::MAX), used(10, 10, 10)),
    ] {
        bench = Bench::fresh(Bounds::FULL);
        let mut reservation = bench.reserve(&claim, at(0)).unwrap();
        assert_eq!(reservation.mark(said), Err(MarkBeyond { reserved: worst(), used: said }));
        match reservation.settle(said) {
            Err(SettleDefect::Overrun { reserved, used, settled }) => {
                assert_eq!((reserved, used, settled.charged), (worst(), said, charged));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(bench.sum(payer.tenant, &budgets[0], at(0)), (charged.tokens(), 0));
        bench.commit(usize::MAX).unwrap();
        Bench::reopen(bench.medium.synced()).unwrap();
    }
    let _ = &mut bench;
}

#[test]
fn each_place_has_a_bound_and_is_given_back() {
    let small = Bounds {
        queue_max: 64,
        reservations_max: 2,
        sums_max: 3,
        rows_max: 3,
        tenants_max: 2,
        ..Bounds::FULL
    };
    let mut bench = Bench::fresh(small);
    let name = model("a");
    let ask = |bench: &mut Bench, payer: Payer, budgets: &[Budget], hour: i64| {
        let claim = Claim { payer, model: &name, pricing: price(), budgets, worst: worst() };
        bench.reserve(&claim, at(hour * 3_600_000))
    };
    let (one, other) = (payer(1, 1, 0), payer(2, 1, 0));
    let first = ask(&mut bench, one, &[], 0).unwrap();
    let second = ask(&mut bench, one, &[], 1).unwrap();
    let refused = ask(&mut bench, one, &[], 0).err();
    assert!(matches!(refused, Some(BudgetRefusal::ReservationsFull { limit: 2 })), "{refused:?}");
    drop((first, second));
    bench.commit(usize::MAX).unwrap();
    assert_eq!(bench.shared.backlog.taken(), 2, "two rows");

    // One more row at most may come, so that one more request at most may run.
    let third = ask(&mut bench, one, &[], 2).unwrap();
    let refused = ask(&mut bench, one, &[], 0).err();
    assert!(matches!(refused, Some(BudgetRefusal::UsageFull { limit: 3 })), "{refused:?}");
    drop(third);
    bench.commit(usize::MAX).unwrap();
    assert!(matches!(ask(&mut bench, one, &[], 0), Err(BudgetRefusal::UsageFull { .. })), "three rows");
    bench.take();
    bench.confirm(1).unwrap();
    assert_eq!(bench.shared.backlog.taken(), 0);

    let soft =
        |period| Budget { kind: BudgetKind::Soft, ..hard(Level::Key(one.key), Unit::Tokens, period, 99) };
    let sums = [Period::Day, Period::Month].map(soft);
    ask(&mut bench, one, &sums, 0).map(drop).unwrap();
    let sums = sums.map(|budget| Budget { level: Level::Key(other.key), ..budget });
    let refused = ask(&mut bench, other, &sums, 0).err();
    assert!(matches!(refused, Some(BudgetRefusal::SumsFull { limit: 3 })), "{refused:?}");
    ask(&mut bench, other, &sums[..1], 0).map(drop).unwrap();
    assert_eq!((bench.shared.sums.taken(), bench.shared.reservations.taken()), (3, 0));
    let refused = ask(&mut bench, payer(3, 1, 0), &[], 0).err();
    assert!(matches!(refused, Some(BudgetRefusal::TenantsFull { limit: 2 })), "{refused:?}");

    let many = vec![sums[0].clone(); REQUEST_BUDGETS_MAX + 1];
    assert!(matches!(ask(&mut bench, other, &many, 0), Err(BudgetRefusal::TooManyBudgets)));
    assert_eq!((bench.shared.sums.taken(), bench.shared.reservations.taken()), (3, 0));
}

#[test]
fn a_full_queue_refuses_reservations_and_never_a_settlement() {
    let mut bench = Bench::fresh(Bounds { queue_max: 2, ..Bounds::FULL });
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let budgets = [hard(Level::Key(payer.key), Unit::Tokens, Period::Day, 100)];
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst: worst() };
    bench.give_all(&claim, at(0));
    bench.commit(usize::MAX).unwrap();
    let mut first = bench.begin(&claim, at(0)).unwrap().0;
    let second = bench.begin(&claim, at(0)).unwrap().0;
    let refused = bench.begin(&claim, at(0)).err();
    let is_full = matches!(refused, Some(BudgetRefusal::Journal(LedgerError::QueueFull { limit: 2 })));
    assert!(is_full, "{refused:?}");
    assert_eq!(bench.sum(payer.tenant, &budgets[0], at(0)), (0, 40), "a refusal reserves nothing");
    first.mark(used(3, 0, 0)).unwrap();
    drop(first);
    drop(second.settle(used(1, 0, 1)).unwrap());
    assert_eq!(bench.shared.queue.len(), 4, "two settlements beside the two, and no mark");
    bench.commit(usize::MAX).unwrap();
    assert_eq!(bench.sum(payer.tenant, &budgets[0], at(0)), (5, 0));
    assert_eq!(bench.shared.backlog.taken(), 1);
}

#[test]
fn a_sum_that_would_not_fit_is_refused_and_never_wraps() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let soft = hard(Level::Key(payer.key), Unit::MicroMoney, Period::Total, 1);
    let budgets = [Budget { kind: BudgetKind::Soft, ..soft }];
    let dear = Pricing::Priced(Price::new(PRICE_MAX, PRICE_MAX, PRICE_MAX).unwrap());
    let worst = WorstCase::new(REQUEST_TOKENS_MAX, REQUEST_TOKENS_MAX, 1).unwrap();
    let claim = Claim { payer, model: &name, pricing: dear, budgets: &budgets, worst };
    let mut reserved = Vec::new();
    let refused = loop {
        match bench.reserve(&claim, at(0)) {
            Ok(reservation) => reserved.push(reservation),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, BudgetRefusal::TooLarge), "{refused}");
    assert_eq!(reserved.len(), 2_147, "2^64 / 2^33 / 10^6");
    drop(reserved);
    assert_eq!(bench.sum(payer.tenant, &budgets[0], at(0)), (0, 0));
}
