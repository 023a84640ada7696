//! Guards of the trusted core, taken away: the engine's own tests must notice those that the engine leans on.

use crate::{behaviour::the_window_holds, trace::run_trace};
use engine::device::stamp::Lie;
use isolation::fault::{Fault, with};

#[test]
fn the_traces_notice_a_lost_guard() {
    let faults = [
        Fault::NoFilledMark,
        Fault::LostPage,
        Fault::DoubleGrant,
        Fault::PrefixNoTokenCompare,
        Fault::PrefixWholePrompt,
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
