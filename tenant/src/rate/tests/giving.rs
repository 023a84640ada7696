//! What gateways that count together give back: never more than is still there of a charge, whoever emptied the bucket.

use super::count::Count;
use super::*;
#[cfg(feature = "seeded-faults")]
use crate::fault::{self, Fault};

/// 100 tokens run out each second.
fn limits() -> Chain {
    let limits = Limits { tokens_per_minute: at_most(6_000), ..Limits::OPEN };
    chain(&[rule(Level::Tenant(tenant(1)), Models::All, limits)])
}

fn now(ms: u64) -> MonoNanos {
    at(ms * 1_000_000)
}

fn take(limiter: &Limiter, tokens: u32, ms: u64) -> Grant {
    limiter.admit(&limits(), ask(tokens, 0), now(ms)).unwrap()
}

/// Tells what a gateway has; the tokens that are used then.
fn tell(count: &mut Count, name: usize, limiter: &Limiter, ms: u64) -> u64 {
    limiter.refresh();
    let [report] = limiter.reports(9).try_into().unwrap();
    let answer = count.tell(name, &report, ms);
    limiter.answer([(report, answer)].into_iter(), now(ms));
    answer.tokens.level / 60_000
}

/// One gateway's charge of 100 runs out unnoticed: the other takes 50 of its own back, so the bucket is empty a second
/// later, when the first believes that 50 are left. Then the other charges 80, and the first gives back its 100.
fn emptied(look: bool) -> u64 {
    let (one, other) =
        (Limiter::together(Bounds::default(), false), Limiter::together(Bounds::default(), false));
    let mut count = Count::default();
    let theirs = take(&other, 50, 0);
    assert_eq!(tell(&mut count, 2, &other, 0), 50);
    let ours = take(&one, 100, 0);
    assert_eq!(tell(&mut count, 1, &one, 0), 150);
    theirs.settle(0, now(0));
    let _kept = take(&other, 0, 0);
    assert_eq!(tell(&mut count, 2, &other, 0), 100);
    let _later = take(&other, 80, 1_000);
    assert_eq!(tell(&mut count, 2, &other, 1_000), 80);
    if look {
        assert_eq!(tell(&mut count, 1, &one, 1_000), 80);
    }
    ours.settle(0, now(1_000));
    let _kept = take(&one, 0, 1_000);
    tell(&mut count, 1, &one, 1_000)
}

#[test]
fn what_others_emptied_is_not_given_back() {
    for look in [false, true] {
        assert_eq!(emptied(look), 80, "look {look}");
    }
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_a_gateway_that_does_not_hear_how_low_it_was_gives_too_much_back() {
    let left = fault::with(Fault::LowestUnheard, || emptied(true));
    assert_eq!(left, 30);
}

/// As [`emptied`], but the answer to the report of the charge is lost, and the report comes again when the bucket was empty.
#[test]
fn a_report_that_comes_again_tells_how_low_it_was_since() {
    let (one, other) =
        (Limiter::together(Bounds::default(), false), Limiter::together(Bounds::default(), false));
    let mut count = Count::default();
    let theirs = take(&other, 50, 0);
    tell(&mut count, 2, &other, 0);
    let _first = take(&one, 0, 0);
    assert_eq!(tell(&mut count, 1, &one, 0), 50);
    let ours = take(&one, 100, 0);
    one.refresh();
    let [report] = one.reports(9).try_into().unwrap();
    count.tell(1, &report, 0);
    theirs.settle(0, now(0));
    let _kept = take(&other, 0, 0);
    assert_eq!(tell(&mut count, 2, &other, 0), 100);
    let _later = take(&other, 80, 1_000);
    assert_eq!(tell(&mut count, 2, &other, 1_000), 80);
    let answer = count.tell(1, &report, 1_000);
    one.answer([(report, answer)].into_iter(), now(1_000));
    ours.settle(0, now(1_000));
    let _kept = take(&one, 0, 1_000);
    assert_eq!(tell(&mut count, 1, &one, 1_000), 80);
}

/// A gateway with a long request and the limit of before tells each second, and charges nothing.
#[test]
fn a_gateway_that_charges_nothing_sets_no_limit() {
    let of = |limit| {
        let limits = Limits { tokens_per_minute: at_most(limit), ..Limits::OPEN };
        chain(&[rule(Level::Tenant(tenant(1)), Models::All, limits)])
    };
    let (old, new) =
        (Limiter::together(Bounds::default(), false), Limiter::together(Bounds::default(), false));
    let mut count = Count::default();
    let _long = old.admit(&of(6_000), ask(0, 0), now(0)).unwrap();
    tell(&mut count, 1, &old, 0);
    let _first = new.admit(&of(60), ask(60, 0), now(0)).unwrap();
    assert_eq!(tell(&mut count, 2, &new, 0), 60);
    for second in 1..=10 {
        assert_eq!(tell(&mut count, 1, &old, second * 1_000), 60 - second);
    }
}

/// The whole of what was not used, while others keep the bucket full.
#[test]
fn what_is_still_there_is_given_back_whoever_keeps_it_there() {
    let (one, other) =
        (Limiter::together(Bounds::default(), false), Limiter::together(Bounds::default(), false));
    let mut count = Count::default();
    let ours = take(&one, 1_000, 0);
    assert_eq!(tell(&mut count, 1, &one, 0), 1_000);
    for second in 1..=30 {
        let _done = take(&other, 100, second * 1_000);
        tell(&mut count, 2, &other, second * 1_000);
        tell(&mut count, 1, &one, second * 1_000);
    }
    // By itself its charge would have run out long ago.
    ours.settle(200, now(30_000));
    let _kept = take(&one, 0, 30_000);
    assert_eq!(tell(&mut count, 1, &one, 30_000), 200);
}
