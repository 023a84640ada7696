//! Who gets pages and turns when there are too few of them.

use crate::common::{PAGE, Session, assert_at_rest, config, engine, no_cache, oracle, prompt, submit};
use engine::core::{EngineConfig, Preemption, Progress};
use isolation::{
    quota::Quota,
    tag::TenantTag,
    units::{Pages, Tokens},
};
use std::num::NonZeroU32;
use wire::{Refusal, Submit};

fn quota(tag: u64, floor: u32, cap: u32, weight: u32) -> (TenantTag, Quota) {
    let weight = NonZeroU32::new(weight).unwrap();
    (TenantTag::new(tag), Quota::new(Pages::new(floor), Pages::new(cap), weight).unwrap())
}

/// With a floor of its own, a tenant is let in at once, whatever the others have taken and wait for.
#[test]
fn a_floor_lets_its_tenant_in_at_once() {
    for (floor, at_once) in [(2, true), (0, false)] {
        let patient = EngineConfig { preemption: Preemption::Off, ..no_cache() };
        let mut session = Session::new(engine(10, patient));
        session.engine.set_quotas(&[quota(2, floor, 10, 1)]).unwrap();
        // Tenant 1 fills the burst, and its next wants eight pages: it waits for all of them.
        for number in 0..5 {
            session.submit(&submit(number, 1, prompt(0, 5), 3)).unwrap();
        }
        session.step();
        session.submit(&submit(10, 1, prompt(0, 7 * PAGE), 4)).unwrap();
        session.submit(&submit(11, 2, prompt(1, 6), 2)).unwrap();
        session.step();
        let is_in = session.engine.held(TenantTag::new(2)) > Pages::ZERO;
        assert_eq!(is_in, at_once, "floor {floor}");
        session.settle();
        assert_eq!(session.of(11).tokens, oracle(&submit(11, 2, prompt(1, 6), 2)));
        assert_eq!(session.of(10).tokens, oracle(&submit(10, 1, prompt(0, 7 * PAGE), 4)));
    }
}

/// Who came first and took all gives back what is beyond its right when another wants its own; both get their own bits.
#[test]
fn what_was_lent_is_taken_back_for_who_has_less_than_its_right() {
    for (preemption, taken_back) in [(Preemption::On, true), (Preemption::Off, false)] {
        let mut session = Session::new(engine(12, EngineConfig { preemption, ..no_cache() }));
        let long: Vec<_> = (0..3).map(|i| submit(i, 1, prompt(i, 6), 10)).collect();
        for submit in &long {
            session.submit(submit).unwrap();
        }
        session.step();
        session.step();
        assert_eq!(session.engine.held(TenantTag::new(1)), Pages::new(12));
        let late = submit(9, 2, prompt(5, 6), 10);
        session.submit(&late).unwrap();
        session.step();
        session.step();
        assert_eq!(session.engine.preempted() > 0, taken_back);
        assert_eq!(session.of(9).evidence.is_some(), taken_back);
        session.settle();
        for submit in long.iter().chain([&late]) {
            assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
        }
        assert!(session.engine.preempted() <= 1, "nobody is sent to and fro");
    }
}

/// A weight is a part of the burst: who has three times another's gets back up to three quarters, and no more.
#[test]
fn weights_share_the_burst() {
    let mut session =
        Session::new(engine(16, EngineConfig { queue_max: 60, sequences_max: 16, ..no_cache() }));
    session.engine.set_quotas(&[quota(1, 0, 16, 1), quota(2, 0, 16, 3)]).unwrap();
    for number in 0..8 {
        session.submit(&submit(number, 1, prompt(0, 2), 6)).unwrap();
    }
    session.step();
    assert_eq!(session.engine.held(TenantTag::new(1)), Pages::new(16), "alone it has all");
    for number in 10..20 {
        session.submit(&submit(number, 2, prompt(0, 2), 6)).unwrap();
    }
    // Eight pages are wiped a step.
    session.step();
    session.step();
    let held = [1, 2].map(|tag| session.engine.held(TenantTag::new(tag)).get());
    assert_eq!(held, [4, 12]);
    session.settle();
    for number in 10..20 {
        assert_eq!(session.of(number).tokens, oracle(&submit(number, 2, prompt(0, 2), 6)));
    }
}

/// Nobody is held up by who has all that its cap allows; and what a cap or floors rule out is refused at the door.
#[test]
fn a_cap_holds_its_own_tenant_up_and_nobody_else() {
    let mut session = Session::new(engine(10, no_cache()));
    session.engine.set_quotas(&[quota(1, 0, 3, 1), quota(3, 4, 10, 1)]).unwrap();
    let first = [submit(1, 1, prompt(0, 6), 3), submit(2, 1, prompt(0, 6), 3), submit(3, 2, prompt(0, 6), 3)];
    for submit in &first {
        session.submit(submit).unwrap();
    }
    session.step();
    assert_eq!([1, 2].map(|tag| session.engine.held(TenantTag::new(tag)).get()), [3, 3]);
    let too_long = |number, tag, length| submit(number, tag, prompt(0, length), 1);
    let refused = |asked, window| Err(Refusal::TooLong { asked, window });
    assert_eq!(session.submit(&too_long(4, 1, 3 * PAGE)), refused(13, 3 * PAGE), "the cap");
    assert_eq!(session.submit(&too_long(5, 2, 6 * PAGE)), refused(25, 6 * PAGE), "another's floor");
    session.settle();
    for submit in &first {
        assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
    }
    assert_at_rest(&session.engine.status());
}

/// A request for the whole pool waits while small ones keep coming, and is not overtaken for ever.
#[test]
fn a_long_request_gets_in_under_a_flood_of_short_ones() {
    let mut session = Session::new(engine(8, no_cache()));
    let long = submit(0, 1, prompt(0, 7 * PAGE), PAGE);
    let mut number = 1;
    let mut flood = |session: &mut Session| {
        while session.engine.status().queued < 4 {
            session.submit(&submit(number, 2, prompt(1, 5), 3)).unwrap();
            number += 1;
        }
    };
    flood(&mut session);
    session.step();
    session.submit(&long).unwrap();
    let mut steps = 0;
    while session.of(0).ended.is_none() {
        flood(&mut session);
        session.step();
        steps += 1;
        // Overtaken 16 times at most, four at once, each for a few steps.
        assert!(steps < 60, "still waiting after {steps} steps");
    }
    assert_eq!(session.of(0).tokens, oracle(&long));
}

/// One tenant's hundred requests do not stand before another's one.
#[test]
fn a_flood_of_one_tenant_does_not_delay_another() {
    let one_at_once = EngineConfig { sequences_max: 1, queue_max: 100, ..no_cache() };
    let mut session = Session::new(engine(8, one_at_once));
    for number in 1..=100 {
        session.submit(&submit(number, 1, prompt(0, 5), 2)).unwrap();
    }
    session.submit(&submit(200, 2, prompt(0, 5), 2)).unwrap();
    let before = |session: &Session| (1..=100).filter(|n| session.of(*n).ended.is_some()).count();
    while session.of(200).ended.is_none() {
        session.step();
    }
    assert!(before(&session) <= 2, "{} went first", before(&session));
    session.settle();
    assert_eq!(before(&session), 100);
}

/// More decoding sequences than a step has tokens: each moves on.
#[test]
fn a_step_of_one_token_serves_all_in_turn() {
    let narrow = EngineConfig { step_tokens: Tokens::new(1), ..config() };
    let mut session = Session::new(engine(30, narrow));
    let all: Vec<Submit> = (0..6).map(|i| submit(i, u64::from(i), prompt(i, 3), 6)).collect();
    for submit in &all {
        session.submit(submit).unwrap();
    }
    for _ in 0..30 {
        session.step();
    }
    let lengths: Vec<usize> = (0..6).map(|i| session.of(i).tokens.len()).collect();
    assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
    session.settle();
    for submit in &all {
        assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
    }
}

/// A prefill is computed in chunks beside decoding sequences, which get a token each step.
#[test]
fn a_long_prefill_does_not_stop_who_decodes() {
    let small = EngineConfig { step_tokens: Tokens::new(4), ..no_cache() };
    let mut session = Session::new(engine(30, small));
    session.submit(&submit(1, 1, prompt(0, 3), 12)).unwrap();
    session.step();
    session.submit(&submit(2, 2, prompt(1, 40), 1)).unwrap();
    for came in 2..=12 {
        session.step();
        assert_eq!(session.of(1).tokens.len(), came);
    }
    session.settle();
    assert_eq!(session.of(2).tokens.len(), 1);
}

/// The pool is full to the last page, again and again, and every page comes back.
#[test]
fn a_full_pool_empties() {
    let mut session = Session::new(engine(8, config()));
    for round in 0..20 {
        let pair: Vec<_> =
            (0..4).map(|i| submit(round * 4 + i, u64::from(i % 2), prompt(i % 2, 3 * PAGE), PAGE)).collect();
        for submit in &pair {
            session.submit(submit).unwrap();
        }
        session.settle();
        assert_at_rest(&session.engine.status());
        for submit in &pair {
            assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
        }
    }
    assert_eq!(session.step(), Progress::Idle);
}
