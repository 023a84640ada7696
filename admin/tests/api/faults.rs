//! Each guard, taken away: a test must notice. Built with `--features seeded-faults`.
#![cfg(feature = "seeded-faults")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use admin::fault::{Fault, seed};

use crate::rig::Rig;

/// Whether a test fails without the guard; with it, it must not. It is gone for the rest of the process: each test has one of its own.
fn control(fault: Fault, test: impl AsyncFn(Rig)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = || runtime.block_on(async { test(Rig::sqlite().await).await });
    run();
    seed(fault);
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "nobody notices {fault:?}");
}

macro_rules! controls {
    ($($name:ident: $fault:ident by $module:ident::$test:ident;)+) => {$(
        #[test]
        fn $name() {
            control(Fault::$fault, crate::$module::$test);
        }
    )+};
}

controls! {
    control_any_reach: AnyReach by conventions::what_is_another_tenants_is_not_there;
    control_any_role: AnyRole by roles::each_role_may_what_the_table_says;
    control_any_version: AnyVersion by conventions::a_change_needs_the_etag_of_what_was_seen;
    control_done_again: DoneAgain by conventions::a_request_is_done_once;
    control_secret_kept: SecretKept by conventions::a_secret_is_never_answered_again;
    control_any_signature: AnySignature by leaks::a_report_is_believed_by_its_signature_alone;
    control_seats_unbounded: SeatsUnbounded by connections::one_address_has_its_seats;
    control_writes_uncut: WritesUncut by connections::who_takes_nothing_is_cut;
}
