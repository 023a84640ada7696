//! Parts in the ledger: what is held, over crashes and starts.

use super::*;
use crate::ledger::record::Record;

fn budget() -> Budget {
    hard(Level::Tenant(payer(1, 1, 0).tenant), Unit::Tokens, Period::Day, 100)
}

fn claim<'a>(budgets: &'a [Budget], model: &'a ModelName, tokens: u64) -> Claim<'a> {
    let worst = WorstCase::new(tokens, 0, 0).unwrap();
    Claim { payer: payer(1, 1, 0), model, pricing: price(), budgets, worst }
}

fn slice() -> Slice {
    Slice { line: budget().line(), start: 0 }
}

fn part(epoch: u64, amount: u64) -> Part {
    Part { epoch, amount, seen: 100, ..Part::NONE }
}

fn short(refused: Result<(Reservation, Journalled), BudgetRefusal>) -> Shortage {
    let Some(BudgetRefusal::Short(mut short)) = refused.err() else { panic!("it is not short of anything") };
    assert_eq!(short.len(), 1);
    short.remove(0)
}

#[test]
fn only_what_is_held_can_be_reserved_and_it_lasts_over_a_crash() {
    let (tenant, name, budgets) = (payer(1, 1, 0).tenant, model("m"), [budget()]);
    let mut bench = Bench::fresh(Bounds::FULL);
    let lacking = short(bench.shared.begin(&claim(&budgets, &name, 1), at(0)));
    assert_eq!((lacking.slice.clone(), lacking.left_here, lacking.over.left), (slice(), 0, 100));
    assert!(!lacking.nothing_left(), "nobody said that others have it");
    let told = Part { spent_elsewhere: 30, ..part(3, 50) };
    bench.shared.share(tenant, &slice(), told, Spent::default()).unwrap();
    let (held, ticket) = bench.shared.begin(&claim(&budgets, &name, 40), at(0)).unwrap();
    assert_eq!(held.low().len(), 1, "10 are left, and the next may be as large");
    let lacking = short(bench.shared.begin(&claim(&budgets, &name, 11), at(0)));
    assert_eq!(
        (lacking.left_here, lacking.over.left),
        (10, 30),
        "others have spent 30 of 100, and we use 40"
    );
    assert!(!lacking.nothing_left());
    assert!(short(bench.shared.begin(&claim(&budgets, &name, 31), at(0))).nothing_left());
    drop((held.settle(used(25, 0, 0)).unwrap(), ticket));
    bench.commit(usize::MAX).unwrap();

    let again = Bench::reopen(bench.medium.synced()).unwrap();
    let sum = again.shared.held(tenant, &slice());
    assert_eq!((sum.part, sum.spent, sum.total()), (told, 25, 55));
    let lower = [Budget { limit: 60, ..budget() }];
    assert_eq!(
        short(again.shared.begin(&claim(&lower, &name, 1), at(0))).left_here,
        0,
        "asked for under 100"
    );
    again.shared.begin(&claim(&budgets, &name, 25), at(0)).map(drop).unwrap();
    short(again.shared.begin(&claim(&budgets, &name, 26), at(0)));
    short(again.shared.begin(&claim(&budgets, &name, 1), at(DAY)));
}

#[test]
fn what_is_given_back_is_lower_on_disk_before_anybody_is_told() {
    let (tenant, name, budgets) = (payer(1, 1, 0).tenant, model("m"), [budget()]);
    let mut bench = Bench::fresh(Bounds::FULL);
    bench.shared.share(tenant, &slice(), part(3, 50), Spent::default()).unwrap();
    let open = bench.reserve_held(&claim(&budgets, &name, 20), at(0));
    let mut ticket = bench.shared.lower(tenant, &slice()).unwrap().expect("30 are not used");
    assert_eq!(bench.shared.held(tenant, &slice()).part.amount, 20);
    short(bench.shared.begin(&claim(&budgets, &name, 1), at(0)));
    assert!(poll_now(&mut ticket).is_pending());
    let before = Bench::reopen(bench.medium.synced()).unwrap();
    assert_eq!(before.shared.held(tenant, &slice()).part.amount, 50, "a crash before that");
    bench.commit(usize::MAX).unwrap();
    assert!(matches!(poll_now(&mut ticket), Poll::Ready(Ok(()))));
    let after = Bench::reopen(bench.medium.synced()).unwrap();
    assert_eq!(after.shared.held(tenant, &slice()).part.amount, 20);
    assert!(bench.shared.lower(tenant, &slice()).unwrap().is_none(), "all of it is used");
    drop(open);
}

#[test]
fn a_line_that_is_forgotten_keeps_what_runs_and_is_counted_anew() {
    let (tenant, name, budgets) = (payer(1, 1, 0).tenant, model("m"), [budget()]);
    let mut bench = Bench::fresh(Bounds::FULL);
    bench.shared.share(tenant, &slice(), part(3, 50), Spent::default()).unwrap();
    drop(bench.reserve_held(&claim(&budgets, &name, 20), at(0)).settle(used(20, 0, 0)).unwrap());
    let runs = bench.reserve_held(&claim(&budgets, &name, 10), at(0));
    bench.shared.let_go(tenant, &slice(), 20).unwrap();
    assert_eq!(bench.shared.held(tenant, &slice()).spent, 20, "something runs: it is not let go");
    drop(bench.shared.forget(tenant, &slice()).unwrap());
    let sum = bench.shared.held(tenant, &slice());
    assert_eq!((sum.part, sum.spent, sum.reserved), (Part::NONE, 0, 10));
    bench.shared.share(tenant, &slice(), part(4, 15), Spent::default()).unwrap();
    short(bench.shared.begin(&claim(&budgets, &name, 6), at(0)));
    drop(runs.settle(used(10, 0, 0)).unwrap());
    short(bench.shared.begin(&claim(&budgets, &name, 6), at(0)));
    bench.commit(usize::MAX).unwrap();
    let again = Bench::reopen(bench.medium.synced()).unwrap();
    let sum = again.shared.held(tenant, &slice());
    assert_eq!((sum.part, sum.spent, sum.reserved), (part(4, 15), 10, 0));
    // The store knows of more that was spent: a folder that was restored, or a start that found nothing.
    again.shared.share(tenant, &slice(), part(4, 15), Spent { told: 12, counted: 10 }).unwrap();
    assert_eq!(again.shared.held(tenant, &slice()).spent, 12);
    again.shared.let_go(tenant, &slice(), 12).unwrap();
    assert_eq!(again.shared.sums.taken(), 0);
    assert!(again.shared.all_held(tenant).is_empty());
}

/// A journal of before there were parts: its usage is kept, and of its budgets nothing is held.
#[test]
fn a_journal_without_parts_is_read() {
    let (tenant, name, budgets) = (payer(1, 1, 0).tenant, model("m"), [budget()]);
    let line = budget().line();
    let soft = [Budget { kind: BudgetKind::Soft, ..budget() }];
    let mut bench = Bench::fresh(Bounds::FULL);
    drop(bench.reserve(&claim(&soft, &name, 20), at(0)).unwrap().settle(used(20, 0, 0)).unwrap());
    let mut before = Vec::new();
    Record::Part { tenant, line, start: 0, part: Part::NONE, spent: 0 }.write(&mut before);
    // The old form: the kind, and then a moment and what was spent in place of the rest.
    before[0] = 7;
    before.truncate(before.len() - 48);
    before.extend([0; 8]);
    before.extend(60_u64.to_le_bytes());
    assert!(matches!(Record::read(&before), Some(Record::Part { part: Part::NONE, spent: 0, .. })));
    let (mut begin, id) = (Vec::new(), Uuid::from_u128(7));
    Record::Begin { journal: id, last_id: 0, last_batch: 0 }.write(&mut begin);
    begin[1] = 1;
    assert_eq!(Record::read(&begin), Some(Record::Begin { journal: id, last_id: 0, last_batch: 0 }));
    begin[1] = 3;
    assert_eq!(Record::read(&begin), None);
    let sum = bench.shared.held(tenant, &slice());
    let mut stated = Vec::new();
    Record::Sum { tenant, line: budget().line(), era: 1, sum: Sum { part: part(3, 5), ..sum } }
        .write(&mut stated);
    stated[0] = 18;
    stated.truncate(stated.len() - 32);
    assert!(matches!(
        Record::read(&stated),
        Some(Record::Sum { sum: Sum { part: Part::NONE, spent: 0, .. }, .. })
    ));
    short(bench.shared.begin(&claim(&budgets, &name, 1), at(0)));
}
