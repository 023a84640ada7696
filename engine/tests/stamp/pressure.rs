//! Who gets pages and turns when there are too few of them.

use crate::common::{PAGE, Session, assert_at_rest, config, engine, no_cache, oracle, prompt, submit};
use engine::core::{EngineConfig, Progress};
use isolation::units::Tokens;
use wire::Submit;

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
        assert!(steps < 40, "still waiting after {steps} steps");
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
