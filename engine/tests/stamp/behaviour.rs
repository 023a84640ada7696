//! What the engine promises about one request: admission, caching, cancelling, shrinking, starting.

use crate::common::{
    EPOCH, PAGE, Session, assert_at_rest, config, engine, greedy, name, no_cache, oracle, prompt, submit,
    try_engine,
};
use engine::{
    core::{Ended, EngineConfig, EngineStartError, Fuse, PrefixCache, Progress, STOP_TOKENS_MAX},
    device::stamp::Lie,
};
use isolation::{
    admit::CapacityMismatch,
    units::{Pages, Tokens},
};
use wire::{Ending, Failed, Finished, Refusal, Sampling, Submit};

const WINDOW: u32 = 8 * PAGE;

/// A request of exactly the window is answered; one token more, of prompt or of output, is refused without a page.
pub(crate) fn the_window_holds() -> bool {
    let mut session = Session::new(engine(8, no_cache()));
    let exact = [submit(1, 1, prompt(0, WINDOW - 1), 1), submit(2, 1, prompt(0, 1), WINDOW - 1)];
    for submit in &exact {
        session.submit(submit).unwrap();
        session.settle();
        if session.reader.transcripts()[&submit.request].tokens != oracle(submit) {
            return false;
        }
    }
    let over = [submit(3, 1, prompt(0, WINDOW), 1), submit(4, 1, prompt(0, 1), WINDOW)];
    let expected = Err(Refusal::TooLong { asked: u64::from(WINDOW) + 1, window: WINDOW });
    let before = session.engine.status();
    over.iter().all(|submit| session.submit(submit) == expected)
        && session.step() == Progress::Idle
        && session.engine.status() == before
}

#[test]
fn a_request_of_the_window_works_and_one_token_more_does_not() {
    assert!(the_window_holds());
}

#[test]
fn a_huge_request_is_counted_not_wrapped() {
    let mut session = Session::new(engine(8, config()));
    let refused = session.submit(&submit(1, 1, prompt(0, 5), u32::MAX));
    assert_eq!(refused, Err(Refusal::TooLong { asked: 5 + u64::from(u32::MAX), window: WINDOW }));
}

#[test]
fn bad_requests_are_refused_by_name() {
    let mut session = Session::new(engine(8, config()));
    let good = submit(1, 1, prompt(0, 5), 2);
    type Change = fn(&mut Submit);
    let cases: [(Change, Refusal); 7] = [
        (|s| s.prompt.clear(), Refusal::Empty),
        (|s| s.max_tokens = 0, Refusal::BadSampling),
        (|s| s.prompt[2] = 64, Refusal::UnknownToken { id: 64, vocab: 64 }),
        (|s| s.epoch += 1, Refusal::NotAuthentic),
        (|s| s.sampling.temperature = f32::NAN, Refusal::BadSampling),
        (|s| s.sampling.logit_bias = vec![(99, 0.0)], Refusal::UnknownToken { id: 99, vocab: 64 }),
        (|s| s.stop_tokens = vec![0; STOP_TOKENS_MAX + 1], Refusal::BadSampling),
    ];
    for (change, refusal) in cases {
        let mut bad = good.clone();
        change(&mut bad);
        assert_eq!(session.submit(&bad), Err(refusal));
    }
    assert_eq!(session.submit(&good), Ok(()));
    let twice = session.engine.submit(good.clone());
    assert_eq!(twice, Err(Refusal::NotAuthentic), "a name that lives is not given again");
    session.settle();
    assert_eq!(session.of(1).tokens, oracle(&good));
}

#[test]
fn a_full_queue_is_said() {
    let small = EngineConfig { sequences_max: 1, queue_max: 2, ..config() };
    let mut session = Session::new(engine(8, small));
    let all: Vec<_> = (0..4).map(|i| submit(i, 1, prompt(0, 5), 2)).collect();
    for submit in &all[..3] {
        session.submit(submit).unwrap();
    }
    assert_eq!(session.submit(&all[3]), Err(Refusal::Overloaded { sequences: 3, sequences_max: 3 }));
    session.settle();
    for submit in &all[..3] {
        assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
    }
}

#[test]
fn a_tenant_hits_its_own_prefix_and_never_another_s() {
    let mut session = Session::new(engine(30, config()));
    let ids = prompt(1, 3 * PAGE + 1);
    assert_eq!(session.cached(&submit(1, 1, ids.clone(), 2)), 0);
    assert_eq!(session.cached(&submit(2, 1, ids.clone(), 2)), 3 * PAGE);
    assert_eq!(session.cached(&submit(3, 2, ids.clone(), 2)), 0);
    assert_eq!(session.cached(&submit(4, 2, ids.clone(), 2)), 3 * PAGE);
    // A prompt that ends with a page leaves its last page to compute.
    assert_eq!(session.cached(&submit(5, 1, ids[..3 * PAGE as usize].to_vec(), 2)), 2 * PAGE);
    for number in 1..=4 {
        let tag = if number < 3 { 1 } else { 2 };
        assert_eq!(session.of(number).tokens, oracle(&submit(number, tag, ids.clone(), 2)));
    }
    let mut off = Session::new(engine(30, no_cache()));
    for number in 1..=3 {
        assert_eq!(off.cached(&submit(number, 1, ids.clone(), 2)), 0);
    }
}

#[test]
fn the_cache_keeps_its_share_and_makes_room() {
    let quarter = EngineConfig { prefix_cache: PrefixCache::Share { percent: 25 }, ..config() };
    let mut session = Session::new(engine(16, quarter));
    for number in 0..12 {
        session.cached(&submit(number, 1 + u64::from(number % 3), prompt(number, 3 * PAGE + 1), 1));
        let census = session.engine.status().census;
        assert!(census.shared <= 4, "{census:?}");
        assert!(number < 2 || census.shared > 0, "{census:?}");
    }
    // One request may need the whole pool: cached prefixes give way.
    let whole = submit(99, 7, prompt(5, 16 * PAGE - 1), 1);
    assert_eq!(session.cached(&whole), 0);
    assert_eq!(session.of(99).tokens, oracle(&whole));
}

#[test]
fn a_cancel_at_any_step_frees_all_pages() {
    for cancel_after in 0..14 {
        let mut session = Session::new(engine(8, EngineConfig { step_tokens: Tokens::new(3), ..no_cache() }));
        let [gone, stays] = [submit(1, 1, prompt(0, 9), 6), submit(2, 2, prompt(0, 9), 6)];
        session.submit(&gone).unwrap();
        session.submit(&stays).unwrap();
        for _ in 0..cancel_after {
            session.step();
        }
        let held = session.engine.status().census.leased;
        session.engine.cancel(gone.request);
        assert!(held == 0 || session.engine.status().census.leased < held || session.of(1).ended.is_some());
        session.engine.cancel(gone.request);
        session.engine.cancel(name(77));
        session.settle();
        let ended = session.of(1).ended.clone().unwrap();
        let length = Ended::Admitted(Ending::Completed(Finished::Length));
        assert!(
            ended == Ended::Admitted(Ending::Cancelled) || (cancel_after > 8 && ended == length),
            "{ended:?}"
        );
        assert_eq!(session.of(2).tokens, oracle(&stays));
        assert_at_rest(&session.engine.status());
    }
}

/// The incident in small: the pool shrinks under an advertised window.
#[test]
fn a_pool_that_shrinks_refuses_what_it_cannot_hold() {
    let one_at_once = EngineConfig { sequences_max: 1, ..config() };
    let mut session = Session::new(engine(8, one_at_once));
    let [runs, long, short] =
        [submit(1, 1, prompt(0, 20), 8), submit(2, 2, prompt(1, 20), 8), submit(3, 2, prompt(1, 9), 3)];
    for submit in [&runs, &long, &short] {
        session.submit(submit).unwrap();
    }
    session.step();
    session.engine.shrink(Pages::new(4));
    assert_eq!(session.engine.window(), Tokens::new(4 * PAGE));
    let refusal = Refusal::TooLong { asked: 28, window: 4 * PAGE };
    assert_eq!(session.submit(&submit(4, 1, prompt(0, 20), 8)), Err(refusal.clone()));
    session.settle();
    assert_eq!(session.of(1).tokens, oracle(&runs), "what runs has its pages and goes on");
    assert_eq!(session.of(2).ended, Some(Ended::Refused(refusal)));
    assert_eq!(session.of(2).evidence, None);
    assert_eq!(session.of(3).tokens, oracle(&short));
    let status = session.engine.status();
    assert_eq!((status.census.withdrawn, status.capacity, status.window), (4, 16, 16));
    assert_at_rest(&status);
    session.engine.shrink(Pages::new(100));
    session.settle();
    let status = session.engine.status();
    assert_eq!((status.census.withdrawn, status.window, session.engine.fuse()), (8, 0, Fuse::Intact));
}

#[test]
fn a_window_above_the_pool_does_not_start() {
    let asks = |window| EngineConfig { advertised_window: Some(Tokens::new(window)), ..config() };
    let mismatch = CapacityMismatch { advertised: Tokens::new(WINDOW + 1), holds: Tokens::new(WINDOW) };
    let refused = |config| try_engine(8, config, Lie::None).err();
    assert_eq!(refused(asks(WINDOW + 1)), Some(EngineStartError::Capacity(mismatch)));
    assert_eq!(refused(asks(1)), Some(EngineStartError::NoWindow { window: Tokens::new(1) }));
    assert_eq!(engine(8, asks(WINDOW)).window(), Tokens::new(WINDOW));
    assert_eq!(engine(8, config()).window(), Tokens::new(WINDOW));
    let zero = EngineConfig { step_tokens: Tokens::ZERO, ..config() };
    assert_eq!(refused(zero), Some(EngineStartError::Zero { field: "step_tokens" }));
    let much = EngineConfig { prefix_cache: PrefixCache::Share { percent: 101 }, ..config() };
    assert_eq!(refused(much), Some(EngineStartError::Percent { percent: 101 }));
}

#[test]
fn an_engine_that_shuts_down_says_so_to_each() {
    let mut session = Session::new(engine(8, EngineConfig { sequences_max: 1, ..config() }));
    for number in 1..=3 {
        session.submit(&submit(number, 1, prompt(0, 6), 5)).unwrap();
    }
    session.step();
    session.engine.shut_down();
    assert_eq!(session.submit(&submit(4, 1, prompt(0, 6), 5)), Err(Refusal::ShuttingDown));
    session.settle();
    assert_eq!(session.of(1).ended, Some(Ended::Admitted(Ending::Failed(Failed::ShuttingDown))));
    assert_eq!(session.of(2).ended, Some(Ended::Refused(Refusal::ShuttingDown)));
    assert_eq!(session.engine.hello([0; 16], [0; 32]).window, 0);
    assert_at_rest(&session.engine.status());
}

#[test]
fn an_idle_engine_says_so_and_knows_itself() {
    let mut session = Session::new(engine(8, config()));
    assert_eq!(session.step(), Progress::Idle);
    let hello = session.engine.hello([9; 16], [8; 32]);
    assert_eq!((hello.epoch, hello.session, hello.vocab, hello.window), (EPOCH, [9; 16], 64, WINDOW));
    assert_eq!((hello.capacity, hello.page_tokens, hello.sequences_max), (WINDOW, PAGE, 72));
    assert_eq!((hello.boot_key, hello.build), ([8; 32], [0, 1, 0]));
}

#[test]
fn seeds_and_positions_alone_make_the_randomness() {
    let sampled = |number, seed| {
        let sampling = Sampling { temperature: 1.0, seed, ..greedy() };
        Submit { sampling, ..submit(number, 1, prompt(0, 6), 8) }
    };
    let mut session = Session::new(engine(30, config()));
    for submit in [sampled(1, 5), sampled(2, 5), sampled(3, 6)] {
        session.submit(&submit).unwrap();
    }
    session.settle();
    assert_eq!(session.of(1).tokens, session.of(2).tokens);
    assert_ne!(session.of(1).tokens, session.of(3).tokens);
}
