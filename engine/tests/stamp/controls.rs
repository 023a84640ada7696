//! Positive controls: a device that is not honest must be noticed.

use crate::{
    common::{EPOCH, Session, assert_at_rest, config, no_cache, oracle, prompt, submit, try_engine},
    trace::run_trace,
};
use engine::{
    core::{Blown, Ended, EngineConfig, EngineStartError, Fuse, Progress},
    device::stamp::Lie,
};
use isolation::units::Tokens;
use wire::{Alarm, Cause, Ending, Failed, Finished, Refusal, Unsound};

#[test]
fn the_traces_notice_every_lie() {
    for lie in [Lie::ReadBeyond, Lie::ReadShort, Lie::DropWrite, Lie::ReadNeighbour] {
        let noticed = (0..20).filter(|seed| run_trace(*seed, lie).is_err()).count();
        assert!(noticed >= 15, "{lie:?} was noticed in {noticed} of 20 traces");
    }
}

#[test]
fn a_device_that_does_not_wipe_cannot_start() {
    let refused = try_engine(8, config(), Lie::SkipWipe(0)).err();
    assert_eq!(refused, Some(EngineStartError::NoWindow { window: Tokens::ZERO }));
}

/// A page that is not blank after its wipe is never granted again, and the window follows what is left.
#[test]
fn pages_that_do_not_wipe_are_withdrawn_and_the_window_follows() {
    let mut session = Session::new(try_engine(8, no_cache(), Lie::SkipWipe(8)).unwrap());
    for number in 0..3 {
        let submit = submit(number, 1 + u64::from(number), prompt(0, 7), 1);
        session.submit(&submit).unwrap();
        session.settle();
        assert_eq!(session.of(number).tokens, oracle(&submit));
        let status = session.engine.status();
        assert_eq!((status.census.withdrawn, status.window), (2 * (number + 1), 32 - 8 * (number + 1)));
    }
    let refused = session.submit(&submit(9, 1, prompt(0, 8), 1));
    assert_eq!(refused, Err(Refusal::TooLong { asked: 9, window: 8 }));
    // Each page is told once, with who had it, in the order in which they went.
    let withdrawn =
        |number, page, tag| told(number, Cause::Withdrawn { page, generation: 1, last: Some(tag) });
    let expected = [(0, 6, 1), (1, 7, 1), (2, 4, 2), (3, 5, 2), (4, 2, 3), (5, 3, 3)];
    assert_eq!(session.reader.alarms(), expected.map(|(number, page, tag)| withdrawn(number, page, tag)));
}

fn told(number: u32, cause: Cause) -> Alarm {
    Alarm { number, epoch: EPOCH, cause }
}

/// A page that was found unfit before the wipe of another failed is told, and the window follows it.
#[test]
fn a_page_withdrawn_beside_a_failed_wipe_is_told_too() {
    let mut session = Session::new(try_engine(8, no_cache(), Lie::SkipThenFail(8)).unwrap());
    session.submit(&submit(1, 4, prompt(0, 7), 1)).unwrap();
    session.settle();
    let withdrawn = Cause::Withdrawn { page: 6, generation: 1, last: Some(4) };
    let expected = [told(0, withdrawn), told(1, Cause::Unsound(Unsound::Scrub))];
    assert_eq!(session.reader.alarms(), expected);
    assert_eq!(session.engine.status().census.withdrawn, 1);
}

/// The first step tells the pages that the wipe at the start found, and no step after it.
#[test]
fn pages_that_were_never_granted_are_told_too() {
    let mut session = Session::new(try_engine(8, no_cache(), Lie::SkipWipe(6)).unwrap());
    assert_eq!(session.step(), Progress::Worked);
    let never = |number, page| told(number, Cause::Withdrawn { page, generation: 0, last: None });
    assert_eq!(session.reader.alarms(), [never(0, 6), never(1, 7)]);
    session.settle();
    session.engine.shut_down();
    session.settle();
    assert_eq!(session.reader.alarms().len(), 2, "to go away is no alarm");
}

/// A device that does not wipe any more ends in a blown fuse, not in a loop.
#[test]
fn a_device_that_fails_its_wipes_is_not_asked_for_ever() {
    let mut session = Session::new(try_engine(8, no_cache(), Lie::FailWipe(8)).unwrap());
    for number in 0..6 {
        session.submit(&submit(number, 1, prompt(0, 11), 5)).unwrap();
    }
    session.settle();
    let is_scrub = |why| matches!(why, Fuse::Blown(Blown::Scrub { failures: 16, .. }));
    assert!(is_scrub(session.engine.fuse()), "{:?}", session.engine.fuse());
    let ends: Vec<_> = (0..6).map(|number| session.of(number).ended.clone().unwrap()).collect();
    let completed = Ended::Admitted(Ending::Completed(Finished::Length));
    let refused = Ended::Refused(Refusal::ShuttingDown);
    assert_eq!(ends, [&completed, &completed, &refused, &refused, &refused, &refused].map(Clone::clone));
    assert_eq!((session.engine.window(), session.step()), (Tokens::ZERO, Progress::Idle));
    assert_eq!(session.submit(&submit(9, 1, prompt(0, 3), 1)), Err(Refusal::ShuttingDown));
    assert_eq!(session.reader.alarms(), [told(0, Cause::Unsound(Unsound::Scrub))]);
}

/// A logit that is not a number takes the tenant's cached pages with it, and nobody else's.
#[test]
fn what_is_not_a_number_leaves_nothing_in_the_cache() {
    let mut session = Session::new(try_engine(30, config(), Lie::NotANumber(5)).unwrap());
    let ids = prompt(0, 9);
    assert_eq!(session.cached(&submit(1, 1, ids.clone(), 1)), 0);
    assert_eq!(session.cached(&submit(2, 2, ids.clone(), 1)), 0);
    assert_eq!(session.cached(&submit(3, 1, ids.clone(), 1)), 8);
    // Steps 4 and 5: the second token is no number.
    assert_eq!(session.cached(&submit(4, 1, ids.clone(), 2)), 8);
    assert_eq!(session.of(4).ended, Some(Ended::Admitted(Ending::Failed(Failed::NotANumber))));
    assert_eq!(session.cached(&submit(5, 1, ids.clone(), 1)), 0);
    assert_eq!(session.cached(&submit(6, 2, ids, 1)), 8);
}

/// A broken step fails those who took part, and nobody else; the engine goes on.
#[test]
fn a_broken_step_fails_its_sequences_alone() {
    for every in 2..12 {
        outcome(Lie::BreakStep(every), Failed::Device);
    }
}

#[test]
fn what_is_not_a_number_fails_its_sequence_alone() {
    for every in 2..12 {
        outcome(Lie::NotANumber(every), Failed::NotANumber);
    }
}

fn outcome(lie: Lie, expected: Failed) {
    let mut session = Session::new(try_engine(30, config(), lie).unwrap());
    let submits: Vec<_> =
        (0..24).map(|i| submit(i, 1 + u64::from(i % 3), prompt(i % 2, 6 + i % 9), 1 + i % 5)).collect();
    for submit in &submits {
        session.submit(submit).unwrap();
        session.step();
    }
    session.settle();
    let mut failed = 0;
    for submit in &submits {
        let transcript = &session.reader.transcripts()[&submit.request];
        match &transcript.ended {
            Some(Ended::Admitted(Ending::Completed(_))) => assert_eq!(transcript.tokens, oracle(submit)),
            Some(Ended::Admitted(Ending::Failed(why))) => {
                failed += 1;
                assert_eq!(*why, expected);
                assert!(oracle(submit).starts_with(&transcript.tokens));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(failed > 0, "{lie:?} failed nothing");
    assert_eq!(session.engine.fuse(), Fuse::Intact);
    assert_at_rest(&session.engine.status());
}

/// A page that is not what its lease said: its step gives no token, and nobody is admitted after it; who was not in it
/// comes to its end.
#[test]
fn a_denied_page_blows_the_fuse() {
    let config = EngineConfig { step_tokens: Tokens::new(8), sequences_max: 3, ..no_cache() };
    let mut session = Session::new(try_engine(16, config, Lie::Deny(3)).unwrap());
    let others = submit(1, 1, prompt(0, 4), 9);
    session.submit(&others).unwrap();
    session.step();
    session.submit(&submit(2, 2, prompt(1, 30), 2)).unwrap();
    session.submit(&submit(3, 3, prompt(2, 5), 2)).unwrap();
    session.submit(&submit(4, 2, prompt(3, 30), 2)).unwrap();
    session.step();
    assert_eq!(session.of(1).tokens.len(), 2);
    session.step();
    let denied = Blown::Read(kernels::Denied::Owner { page: 0 });
    assert_eq!(session.engine.fuse(), Fuse::Blown(denied));
    assert_eq!(session.submit(&submit(5, 1, prompt(0, 3), 1)), Err(Refusal::ShuttingDown));
    session.settle();
    let failed = Some(Ended::Admitted(Ending::Failed(Failed::Isolation)));
    assert_eq!(session.of(1).ended, failed);
    assert_eq!(session.of(1).tokens, oracle(&others)[..2], "the denied step gave no token");
    assert_eq!((session.of(2).ended.clone(), session.of(2).tokens.len()), (failed, 0));
    assert_eq!(session.of(4).ended, Some(Ended::Refused(Refusal::ShuttingDown)));
    assert_eq!(session.reader.alarms(), [told(0, Cause::Unsound(Unsound::Read))]);
    assert_at_rest(&session.engine.status());
}
