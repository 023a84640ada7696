//! Thresholds are told once a period, also over restarts.

use super::*;

fn percents(warnings: &[BudgetWarning]) -> Vec<u8> {
    warnings.iter().map(|warning| warning.percent).collect()
}

#[test]
fn each_threshold_is_told_once_a_period_and_noticed_as_long_as_it_is_passed() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let soft = Budget {
        kind: BudgetKind::Soft,
        thresholds: Thresholds::new(&[50, 80]).unwrap(),
        ..hard(Level::Project(payer.project), Unit::Tokens, Period::Day, 100)
    };
    let budgets = [soft];
    let worst = WorstCase::new(100, 100, 1).unwrap();
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
    let spend = |bench: &mut Bench, prompt, now| {
        let reservation = bench.reserve(&claim, now).unwrap();
        let notices = percents(reservation.notices());
        let settled = reservation.settle(used(prompt, 0, 0)).unwrap();
        bench.commit(usize::MAX).unwrap();
        (notices, percents(&settled.warnings))
    };
    assert_eq!(spend(&mut bench, 49, at(0)), (vec![], vec![]));
    assert_eq!(spend(&mut bench, 1, at(0)), (vec![], vec![50]));
    assert_eq!(spend(&mut bench, 1, at(0)), (vec![50], vec![]));
    // Told before the crash, and not again after it.
    let bench = Bench::reopen(bench.medium.synced()).unwrap();
    let mut bench = Bench::reopen(bench.medium.synced()).unwrap();
    assert_eq!(spend(&mut bench, 1, at(0)), (vec![50], vec![]));
    assert_eq!(spend(&mut bench, 90, at(0)), (vec![50], vec![80, 100]));
    assert_eq!(spend(&mut bench, 90, at(0)), (vec![100], vec![]));
    assert_eq!(spend(&mut bench, 90, at(DAY)), (vec![], vec![50, 80]), "the next day");
}

#[test]
fn what_a_drop_passed_is_told_with_the_next_settlement() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let thresholds = Thresholds::new(&[10]).unwrap();
    let limit = hard(Level::Tenant(payer.tenant), Unit::MicroMoney, Period::Total, 10_000);
    let budgets = [Budget { thresholds, ..limit }];
    let worst = WorstCase::new(1_000, 10, 1).unwrap();
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
    let mut lost = bench.reserve(&claim, at(0)).unwrap();
    lost.mark(used(900, 0, 0)).unwrap();
    drop(lost);
    let next = bench.reserve(&claim, at(0)).unwrap();
    let [notice] = next.notices() else { panic!("{:?}", next.notices()) };
    assert_eq!(
        (notice.percent, notice.spent, notice.limit, notice.resets),
        (10, 1_800, 10_000, Resets::Never)
    );
    assert_eq!(percents(&next.settle(Used::NONE).unwrap().warnings), [10]);
    // Another limit is another budget to whoever set it.
    let [budget] = budgets.clone();
    let budgets = [Budget { limit: 12_000, ..budget }];
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
    let next = bench.reserve(&claim, at(0)).unwrap();
    assert_eq!(percents(&next.settle(Used::NONE).unwrap().warnings), [10]);
}
