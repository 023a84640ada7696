//! A reservation belongs to the windows in which it was made.

use super::*;

fn bound<'a>(payer: Payer, name: &'a ModelName, budgets: &'a [Budget]) -> Claim<'a> {
    let worst = WorstCase::new(10, 10, 1).unwrap();
    Claim { payer, model: name, pricing: price(), budgets, worst }
}

#[test]
fn it_settles_where_it_was_made_and_leaves_the_next_window_free() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let budgets = [Period::Day, Period::Month, Period::Total]
        .map(|period| hard(Level::Key(payer.key), Unit::Tokens, period, 40));
    // The last millisecond of January, and the first of February.
    let (before, after) = (at(31 * DAY - 1), at(31 * DAY));
    let claim = bound(payer, &name, &budgets);
    let old = bench.reserve(&claim, before).unwrap();
    let new = bench.reserve(&claim, after).unwrap();
    let sums = |bench: &Bench, now| [0, 1, 2].map(|i| bench.sum(payer.tenant, &budgets[i], now));
    assert_eq!(sums(&bench, before), [(0, 20), (0, 20), (0, 40)]);
    assert_eq!(sums(&bench, after), [(0, 20), (0, 20), (0, 40)]);
    drop(old.settle(used(10, 0, 3)).unwrap());
    assert_eq!(sums(&bench, before), [(13, 0), (13, 0), (13, 20)]);
    assert_eq!(sums(&bench, after), [(0, 20), (0, 20), (13, 20)]);
    drop(new);
    assert_eq!(sums(&bench, after), [(0, 0), (0, 0), (13, 0)]);
    bench.commit(usize::MAX).unwrap();
    let bench = Bench::reopen(bench.medium.synced()).unwrap();
    assert_eq!(sums(&bench, before), [(13, 0), (13, 0), (13, 0)]);
    match bench.take_rows().as_slice() {
        [january, february] => {
            assert_eq!((january.hour, january.amounts.prompt), (31 * 24 - 1, 10));
            assert_eq!((february.hour, february.amounts.prompt), (31 * 24, 0));
        }
        other => panic!("{other:?}"),
    }
}

impl Bench {
    fn take_rows(&self) -> Vec<UsageRow> {
        self.writer.image.usage.lives().flat_map(|(_, rows)| rows).map(|(_, row)| row).collect()
    }
}

#[test]
fn a_window_with_an_open_reservation_outlives_many() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let budgets = [hard(Level::Key(payer.key), Unit::Tokens, Period::Day, 20)];
    let claim = bound(payer, &name, &budgets);
    let old = bench.reserve(&claim, at(0)).unwrap();
    for day in 1..200 {
        bench.reserve(&claim, at(day * DAY)).map(drop).unwrap();
        assert!(bench.shared.sums.taken() <= 1 + book::WINDOWS_KEPT, "windows that are over are let go");
    }
    assert_eq!(bench.sum(payer.tenant, &budgets[0], at(0)), (0, 20));
    drop(old.settle(used(1, 0, 1)).unwrap());
    assert_eq!(bench.sum(payer.tenant, &budgets[0], at(0)), (2, 0));
    bench.commit(usize::MAX).unwrap();
    assert_eq!(bench.writer.image.sums(), bench.shared.sums.taken());
}

#[test]
fn a_clock_that_jumps_away_and_back_loses_nothing() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let (payer, name) = (payer(1, 1, 0), model("a"));
    let budgets = [Period::Day, Period::Month, Period::Total]
        .map(|period| hard(Level::Key(payer.key), Unit::Tokens, period, 40));
    let claim = bound(payer, &name, &budgets);
    let (now, far) = (at(20_000 * DAY), at(60_000 * DAY));
    drop(bench.reserve(&claim, now).unwrap().settle(used(10, 0, 5)).unwrap());
    drop(bench.reserve(&claim, far).unwrap().settle(used(1, 0, 0)).unwrap());
    let sums = [0, 1, 2].map(|i| bench.sum(payer.tenant, &budgets[i], now));
    assert_eq!(sums, [(15, 0), (15, 0), (16, 0)]);
    let again = bench.reserve(&claim, now).unwrap();
    assert_eq!([0, 1, 2].map(|i| bench.sum(payer.tenant, &budgets[i], now)), [(15, 20), (15, 20), (16, 20)]);
    drop(again);
}

#[test]
fn lines_that_nobody_uses_are_forgotten_and_totals_never() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let name = model("a");
    let (idle, busy) = (payer(1, 1, 0), payer(1, 1, 1));
    let of = |who: Payer| {
        [Period::Day, Period::Month, Period::Total]
            .map(|period| hard(Level::Key(who.key), Unit::Tokens, period, 40))
    };
    drop(bench.reserve(&bound(idle, &name, &of(idle)), at(0)).unwrap().settle(used(9, 0, 0)).unwrap());
    for month in 0..6 {
        bench.reserve(&bound(busy, &name, &of(busy)), at(month * 31 * DAY)).map(drop).unwrap();
    }
    assert_eq!(bench.sum(idle.tenant, &of(idle)[2], at(0)), (9, 0));
    let lines = bench.writer.image.books[&idle.tenant].lines().count();
    assert_eq!(lines, 3 + 1, "of the idle key, the total alone is kept");
    assert_eq!(bench.writer.image.sums(), bench.shared.sums.taken());
}

#[test]
fn a_clock_that_swings_about_the_end_of_a_month_forgets_nothing() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let name = model("a");
    let (idle, busy) = (payer(1, 1, 0), payer(1, 1, 1));
    let of = |who: Payer| [hard(Level::Key(who.key), Unit::Tokens, Period::Month, 40)];
    let (before, after) = (at(31 * DAY - 1), at(31 * DAY));
    drop(bench.reserve(&bound(idle, &name, &of(idle)), before).unwrap().settle(used(9, 0, 0)).unwrap());
    for _ in 0..10 {
        bench.reserve(&bound(busy, &name, &of(busy)), after).map(drop).unwrap();
        bench.reserve(&bound(busy, &name, &of(busy)), before).map(drop).unwrap();
    }
    assert_eq!(bench.sum(idle.tenant, &of(idle)[0], before), (9, 0));
}
