//! One bucket beside the definition, to the unit.

use proptest::prelude::*;

use super::super::bucket::{Bucket, Fit};
use super::super::counter::Counter;
use super::history::History;
use super::*;
use crate::rate::telling::Telling;

#[derive(Clone, Debug)]
enum Step {
    Take(u8),
    TakeForGood(u8),
    /// Give back a part of an open charge, and end it.
    Settle {
        which: usize,
        percent: u8,
    },
    Close {
        which: usize,
    },
    Wait(u64),
    Rate(u32),
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..60_u8).prop_map(Step::Take),
        1 => (0..60_u8).prop_map(Step::TakeForGood),
        4 => (0..9_usize, 0..=100_u8).prop_map(|(which, percent)| Step::Settle { which, percent }),
        2 => (0..9_usize).prop_map(|which| Step::Close { which }),
        8 => (0..40 * SECOND).prop_map(Step::Wait),
        1 => (1..120_u32).prop_map(Step::Rate),
        2 => Just(Step::Look),
    ];
    proptest::collection::vec(step, 1..80)
}

struct Run {
    bucket: Bucket,
    history: History,
    limit: u32,
    now: u64,
    open: Vec<(u64, i128)>,
    numbers: u64,
}

impl Run {
    fn take(&mut self, tokens: u8) -> bool {
        self.look();
        let fits = self.bucket.fit(u64::from(tokens), NonZeroU32::new(self.limit).unwrap()) == Fit::Now;
        assert_eq!(fits, self.history.fits(i128::from(tokens), self.limit, self.now));
        fits
    }

    fn charge(&mut self, tokens: u8) {
        self.numbers += 1;
        let number = usize::try_from(self.numbers).unwrap();
        self.history.charges.push((self.now, i128::from(tokens), number));
    }

    /// What is used, to the unit: at one unit each nanosecond, that is how long it takes.
    fn look(&mut self) {
        self.bucket.follow(NonZeroU32::new(self.limit).unwrap(), at(self.now));
        self.history.rates.push((self.now, i128::from(self.limit)));
        let used = self.bucket.room(NonZeroU32::MIN).reset();
        assert_eq!(i128::from(used), self.history.used(self.now));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Take(tokens) => {
                if self.take(tokens) {
                    self.charge(tokens);
                    self.bucket.take_open(u64::from(tokens), self.numbers);
                    self.open.push((self.numbers, i128::from(tokens)));
                }
            }
            Step::TakeForGood(tokens) => {
                if self.take(tokens) {
                    self.charge(tokens);
                    self.bucket.take(u64::from(tokens));
                }
            }
            Step::Settle { which, percent } if !self.open.is_empty() => {
                let (number, tokens) = self.open.swap_remove(which % self.open.len());
                let back = tokens * i128::from(percent) / 100;
                self.bucket.drain(at(self.now));
                self.bucket.give_back(u64::try_from(back).unwrap(), number);
                self.bucket.close(number);
                let index = usize::try_from(number).unwrap();
                self.history.charges.iter_mut().find(|(.., of)| *of == index).unwrap().1 -= back;
            }
            Step::Close { which } if !self.open.is_empty() => {
                let (number, _) = self.open.swap_remove(which % self.open.len());
                self.bucket.close(number);
            }
            Step::Settle { .. } | Step::Close { .. } => (),
            Step::Wait(nanos) => self.now += nanos,
            Step::Rate(limit) => {
                self.limit = limit;
                self.look();
            }
            Step::Look => self.look(),
        }
        assert!(self.bucket.open_charges() <= self.open.len(), "what is closed is forgotten");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_used_is_the_definition_s_to_the_unit(steps in steps()) {
        let mut run = Run {
            bucket: Bucket::default(),
            history: History::default(),
            limit: 60,
            now: 0,
            open: Vec::new(),
            numbers: 0,
        };
        run.look();
        for step in steps {
            run.step(step);
        }
    }
}

#[test]
fn time_does_not_go_back() {
    let limit = NonZeroU32::new(60).unwrap();
    let mut bucket = Bucket::default();
    bucket.follow(limit, at(10 * SECOND));
    bucket.take(60);
    for now in [0, 11 * SECOND, 0, 11 * SECOND] {
        bucket.drain(at(now));
    }
    assert_eq!(bucket.room(limit).left(), 1);
}

#[test]
fn the_largest_numbers_do_not_wrap() {
    let most = NonZeroU32::MAX;
    let mut bucket = Bucket::default();
    bucket.follow(most, at(0));
    assert_eq!(bucket.fit(u64::from(u32::MAX), most), Fit::Now);
    for _ in 0..3 {
        bucket.take(u64::MAX);
    }
    assert_eq!(bucket.fit(1, NonZeroU32::MIN), Fit::In(u64::MAX), "584 years, or more");
    assert_eq!(bucket.fit(u64::MAX, most), Fit::Never);
    assert_eq!((bucket.room(most).left(), bucket.room(NonZeroU32::MIN).reset()), (0, u64::MAX));
    bucket.drain(at(u64::MAX));
    assert!(!bucket.is_full());
}

#[test]
fn what_has_run_out_needs_no_memory() {
    let mut bucket = Bucket::default();
    bucket.follow(NonZeroU32::new(60).unwrap(), at(0));
    for number in 1..=60 {
        bucket.take_open(1, number);
    }
    assert_eq!(bucket.open_charges(), 60);
    bucket.drain(at(MINUTE));
    assert_eq!(bucket.open_charges(), 0);
}

#[test]
fn a_request_that_ended_needs_no_memory() {
    let limits = Limits { tokens_per_minute: at_most(60), ..Limits::OPEN };
    let mut counter = Counter::default();
    counter.follow(&limits, at(0));
    for number in 1..=3 {
        counter.take(&limits, ask(5, 5), number, Telling::Nobody);
    }
    counter.end(2);
    assert_eq!(counter.open_charges(), 2);
    counter.settle(&limits, 1, (10, 3), at(0), Telling::Nobody);
    counter.end(1);
    counter.end(3);
    assert_eq!(counter.open_charges(), 0);
    assert!(!counter.is_idle(Telling::Nobody), "what it used is remembered");
}
