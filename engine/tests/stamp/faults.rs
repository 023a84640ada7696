//! Guards of the trusted core, taken away: the engine's own tests must notice those that the engine leans on.

use crate::common::{EPOCH, Session, engine, no_cache, prompt, submit};
use crate::{behaviour::the_window_holds, trace::run_trace};
use engine::{
    core::{Blown, Ended, Fuse, Progress},
    device::stamp::Lie,
};
use isolation::{
    fault::{Fault, with},
    units::Tokens,
};
use wire::{Alarm, Cause, Refusal, Unsound};

#[test]
fn the_traces_notice_a_lost_guard() {
    let faults = [
        Fault::NoFilledMark,
        Fault::LostPage,
        Fault::DoubleGrant,
        Fault::PrefixNoTokenCompare,
        Fault::PrefixWholePrompt,
        Fault::FloorIgnored,
        Fault::CapIgnored,
    ];
    for fault in faults {
        let noticed = (0..60).filter(|seed| with(fault, || run_trace(*seed, Lie::None)).is_err()).count();
        assert!(noticed > 0, "nobody noticed {fault:?}");
    }
}

#[test]
fn the_window_test_notices_one_token_too_many() {
    assert!(the_window_holds());
    assert!(!with(Fault::AdmitOffByOne, the_window_holds));
}

/// Once a page is lost, nobody knows who else has it: what runs fails, what waits is refused, nothing comes in.
#[test]
fn a_lost_page_blows_the_fuse() {
    let mut session = Session::new(engine(8, no_cache()));
    for (number, length) in [(1, 5), (2, 10), (3, 20)] {
        session.submit(&submit(number, 1, prompt(0, length), 6)).unwrap();
    }
    session.step();
    session.engine.cancel(submit(1, 1, vec![], 0).request);
    with(Fault::LostPage, || session.engine.cancel(submit(2, 1, vec![], 0).request));
    session.settle();
    assert!(matches!(session.engine.fuse(), Fuse::Blown(Blown::Census(_))), "{:?}", session.engine.fuse());
    let alarm = Alarm { number: 0, epoch: EPOCH, cause: Cause::Unsound(Unsound::Census) };
    assert_eq!(session.reader.alarms(), [alarm]);
    // The third waits for the pages of the first two, and is refused; it never held one.
    assert_eq!(session.of(3).ended, Some(Ended::Refused(Refusal::ShuttingDown)));
    assert_eq!((session.engine.window(), session.step()), (Tokens::ZERO, Progress::Idle));
    assert_eq!(session.submit(&submit(4, 1, prompt(0, 3), 1)), Err(Refusal::ShuttingDown));
}
