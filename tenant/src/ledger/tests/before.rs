//! What was spent before a budget was counted here.

use super::*;

fn claim<'a>(budgets: &'a [Budget], model: &'a ModelName, tokens: u64) -> Claim<'a> {
    let worst = WorstCase::new(tokens, 0, 0).unwrap();
    Claim { payer: payer(1, 1, 0), model, pricing: price(), budgets, worst }
}

#[test]
fn a_budget_begins_with_what_was_spent_before_and_keeps_it_over_a_crash() {
    let tenant = payer(1, 1, 0).tenant;
    let (month, day) = (
        hard(Level::Tenant(tenant), Unit::Tokens, Period::Month, 100),
        hard(Level::Tenant(tenant), Unit::Tokens, Period::Day, 100),
    );
    let (budgets, model) = ([month.clone(), day.clone()], model("m"));
    let mut bench = Bench::fresh(Bounds::FULL);
    let begin = |bench: &mut Bench, spent, now| {
        let before = [(month.clone(), spent), (day.clone(), 5)];
        let tickets = bench.shared.count_before(tenant, &before, at(now)).unwrap();
        let count = tickets.len();
        bench.commit(FRAME_RECORDS_MAX).unwrap();
        for mut ticket in tickets {
            assert!(matches!(poll_now(&mut ticket), Poll::Ready(Ok(()))));
        }
        count
    };
    assert_eq!(begin(&mut bench, 60, 0), 2);
    assert_eq!(begin(&mut bench, 7, 0), 0, "they are counted already");
    assert_eq!((bench.sum(tenant, &month, at(0)), bench.sum(tenant, &day, at(0))), ((60, 0), (5, 0)));
    assert!(matches!(
        bench.begin(&claim(&budgets, &model, 41), at(0)),
        Err(BudgetRefusal::OverBudget(over)) if over.left == 40
    ));
    bench.reserve(&claim(&budgets, &model, 40), at(0)).unwrap().settle(used(10, 0, 0)).unwrap();
    while bench.shared.queue.len() > 0 {
        bench.commit(FRAME_RECORDS_MAX).unwrap();
    }

    let mut again = Bench::reopen(bench.medium.synced()).unwrap();
    assert_eq!((again.sum(tenant, &month, at(0)), again.sum(tenant, &day, at(0))), ((70, 0), (15, 0)));
    assert_eq!(begin(&mut again, 0, 0), 0);
    // The next day begins anew, and the month does not.
    again.reserve(&claim(&budgets, &model, 30), at(DAY)).unwrap().settle(used(30, 0, 0)).unwrap();
    assert_eq!((again.sum(tenant, &month, at(DAY)), again.sum(tenant, &day, at(DAY))), ((100, 0), (30, 0)));
}
