//! Each guard of the store, taken away: a test must notice. Built with `--features seeded-faults`.
#![cfg(feature = "seeded-faults")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Bench;
use crate::fault::{Fault, with};

/// Whether a test fails without the guard; with it, it must not.
pub(crate) fn control(fault: Fault, test: impl AsyncFn(Bench)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = || runtime.block_on(async { test(Bench::sqlite().await).await });
    run();
    let lost = with(fault, || catch_unwind(AssertUnwindSafe(run)));
    assert!(lost.is_err(), "nobody notices {fault:?}");
}

macro_rules! controls {
    ($($name:ident: $fault:ident by $module:ident::$test:ident;)+) => {$(
        #[test]
        fn $name() {
            control(Fault::$fault, super::$module::$test);
        }
    )+};
}

controls! {
    control_expect_ignored: ExpectIgnored by events::a_change_of_something_else_than_expected_is_refused;
    control_done_again: DoneAgain by events::a_request_with_a_name_is_done_once;
    control_actor_unchecked: ActorUnchecked by events::a_key_that_ended_meanwhile_changes_nothing;
    control_part_unbounded: PartUnbounded by room::a_tenant_has_a_part_of_its_own;
    control_events_in_one_line: EventsInOneLine by room::who_has_most_events_loses_the_oldest;
    control_leak_unreached: LeakUnreached by leaks::a_found_key_is_known_for_what_it_is;
    control_leak_of_the_ended: LeakOfTheEnded by leaks::a_found_key_is_known_for_what_it_is;
}
