//! Positive controls: a device that is not honest must be noticed.

use crate::{
    common::{Session, assert_at_rest, config, oracle, prompt, submit, try_engine},
    trace::run_trace,
};
use engine::{
    core::{Ended, EngineStartError, Fuse},
    device::stamp::Lie,
};
use isolation::units::Tokens;
use wire::{Ending, Failed};

#[test]
fn the_traces_notice_every_lie() {
    for lie in [Lie::ReadBeyond, Lie::ReadShort, Lie::DropWrite, Lie::ReadNeighbour] {
        let noticed = (0..20).filter(|seed| run_trace(*seed, lie).is_err()).count();
        assert!(noticed >= 15, "{lie:?} was noticed in {noticed} of 20 traces");
    }
}

#[test]
fn a_device_that_does_not_wipe_cannot_start() {
    let refused = try_engine(8, config(), Lie::SkipWipe).err();
    assert_eq!(refused, Some(EngineStartError::NoWindow { window: Tokens::ZERO }));
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
