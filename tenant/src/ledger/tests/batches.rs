//! Usage reaches a store exactly once.

use super::*;

fn claim<'a>(payer: Payer, name: &'a ModelName, pricing: Pricing) -> Claim<'a> {
    let worst = WorstCase::new(1_000, 1_000, 1).unwrap();
    Claim { payer, model: name, pricing, budgets: &[], worst }
}

fn batch(taken: Taken) -> Batch {
    match taken {
        Taken::Batch(batch) => batch,
        Taken::Nothing => panic!("there is usage"),
    }
}

fn once(bench: &mut Bench, claim: &Claim<'_>, hour: i64, used: Used) {
    let reservation = bench.reserve(claim, at(hour * 3_600_000 + 5)).unwrap();
    drop(reservation.settle(used).unwrap());
}

#[test]
fn rows_are_by_hour_payer_and_model_with_cached_tokens_priced_apart() {
    let mut bench = Bench::fresh(Bounds::FULL);
    assert_eq!(bench.take(), Taken::Nothing);
    let (a, b) = (model("a"), model("b"));
    once(&mut bench, &claim(payer(1, 1, 0), &a, price()), 0, used(100, 40, 10));
    once(&mut bench, &claim(payer(1, 1, 0), &a, price()), 0, used(1, 0, 0));
    once(&mut bench, &claim(payer(1, 1, 0), &a, Pricing::Unpriced), 0, used(1, 0, 0));
    once(&mut bench, &claim(payer(1, 1, 0), &a, price()), 1, used(1, 0, 0));
    once(&mut bench, &claim(payer(1, 1, 0), &b, price()), 0, used(0, 0, 0));
    once(&mut bench, &claim(payer(1, 2, 0), &a, price()), 0, used(1, 0, 0));
    once(&mut bench, &claim(payer(1, 1, 1), &a, price()), 0, used(1, 0, 0));
    let batch = batch(bench.take());
    assert_eq!((batch.number, batch.rows.len()), (1, 5));
    let first = batch.rows.iter().find(|row| row.amounts.requests == 3).unwrap();
    // 60 prompt tokens at 2, 40 cached ones at 0.5, 10 of the completion at 8; and one at 2.
    let amounts =
        Amounts { requests: 3, prompt: 102, cached: 40, completion: 10, cost_micro: 222, unpriced: 1 };
    assert_eq!(first.amounts, amounts);
    assert_eq!((first.hour, first.payer, &first.model), (0, payer(1, 1, 0), &a));
    assert_eq!(bench.shared.backlog.taken(), 5);
    bench.confirm(1).unwrap();
    assert_eq!((bench.shared.backlog.taken(), bench.take()), (0, Taken::Nothing));
}

#[test]
fn a_batch_is_the_same_until_it_is_confirmed_over_crashes() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let name = model("a");
    once(&mut bench, &claim(payer(1, 1, 0), &name, price()), 0, used(5, 0, 1));
    let first = batch(bench.take());
    // What comes later goes into the next, the same row too.
    once(&mut bench, &claim(payer(1, 1, 0), &name, price()), 0, used(7, 0, 1));
    bench.commit(usize::MAX).unwrap();
    for _ in 0..3 {
        assert_eq!(batch(bench.take()), first);
        bench = Bench::reopen(bench.medium.synced()).unwrap();
        assert_eq!(bench.shared.backlog.taken(), 2);
    }
    assert!(matches!(bench.confirm(2), Err(LedgerError::NotOut { number: 2 })));
    bench.confirm(1).unwrap();
    assert!(matches!(bench.confirm(1), Err(LedgerError::NotOut { number: 1 })));
    bench = Bench::reopen(bench.medium.synced()).unwrap();
    let second = batch(bench.take());
    assert_eq!((second.journal, second.number, second.rows[0].amounts.prompt), (first.journal, 2, 7));
    bench.confirm(2).unwrap();
    bench = Bench::reopen(bench.medium.synced()).unwrap();
    assert_eq!((bench.take(), bench.shared.backlog.taken()), (Taken::Nothing, 0));
    once(&mut bench, &claim(payer(1, 1, 0), &name, price()), 0, used(1, 0, 0));
    let third = batch(bench.take());
    assert_eq!(third.number, 3, "numbers rise, also over restarts");
    assert_ne!(third.journal, first.journal, "what came after a restart has another name");
}

#[test]
fn a_batch_has_a_bound_and_the_rest_comes_next() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let name = model("a");
    for hour in 0..=BATCH_ROWS_MAX as i64 {
        once(&mut bench, &claim(payer(1, 1, 0), &name, price()), hour, used(1, 0, 0));
    }
    bench.commit(usize::MAX).unwrap();
    let first = batch(bench.take());
    assert_eq!(first.rows.len(), BATCH_ROWS_MAX);
    assert_eq!(first.rows[0].hour, 0, "the oldest first");
    bench.confirm(1).unwrap();
    assert_eq!(batch(bench.take()).rows.len(), 1);
}

#[test]
fn a_store_that_is_away_loses_nothing() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let name = model("a");
    once(&mut bench, &claim(payer(1, 1, 0), &name, price()), 0, used(1, 0, 0));
    let out = batch(bench.take());
    for minute in 0..60 {
        let reservation = bench.reserve(&claim(payer(1, 1, 0), &name, price()), at(minute * 1_000)).unwrap();
        drop(reservation.settle(used(2, 0, 3)).unwrap());
    }
    bench.commit(usize::MAX).unwrap();
    assert_eq!(batch(bench.take()), out);
    bench.confirm(out.number).unwrap();
    let rest = batch(bench.take());
    assert_eq!((rest.rows.len(), rest.rows[0].amounts.requests, rest.rows[0].amounts.prompt), (1, 60, 120));
}
