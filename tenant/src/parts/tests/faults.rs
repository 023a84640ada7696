//! Each guard of parts, taken away: the worlds must notice. Built with `--features seeded-faults`.
#![cfg(feature = "seeded-faults")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::asks::{self, Asked};
use super::world::{Plan, Turns};
use super::worlds::{PLAN, fast, run};
use crate::fault::{Fault, with};

/// Whether few worlds notice that the guard is away; with it, there is nothing to notice.
fn control(fault: Fault, turns: Turns) {
    control_in(Plan { clients: 64, steps: 1_000, kill_one_in: 40, turns }, fault);
}

fn control_in(plan: Plan, fault: Fault) {
    let act = || run(fast, 0..12, plan);
    act();
    let lost = with(fault, || catch_unwind(AssertUnwindSafe(act)));
    assert!(lost.is_err(), "nobody notices {fault:?}");
}

/// Whether this case notices it.
fn control_by(fault: Fault, case: impl AsyncFn(Asked)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let act = || runtime.block_on(async { case(Asked::of(fast().await).await).await });
    act();
    let lost = with(fault, || catch_unwind(AssertUnwindSafe(act)));
    assert!(lost.is_err(), "nobody notices {fault:?}");
}

#[test]
fn control_parts_uncounted() {
    control(Fault::PartsUncounted, Turns::None);
}

#[test]
fn control_given_back_kept() {
    control(Fault::GivenBackKept, Turns::None);
}

#[test]
fn control_given_back_early() {
    control(Fault::GivenBackEarly, Turns::None);
}

#[test]
fn control_grant_added() {
    control(Fault::GrantAdded, Turns::None);
}

#[test]
fn control_late_believed() {
    control_by(Fault::LateBelieved, asks::late);
}

#[test]
fn control_old_parts_uncounted() {
    control_by(Fault::OldPartsUncounted, asks::set_again);
}

#[test]
fn control_spent_unheld() {
    control_by(Fault::SpentUnheld, asks::forgetful);
}

#[test]
fn control_spent_unheld_in_worlds() {
    // Where nobody is killed for long, what is known of rows lasts.
    control_in(PLAN, Fault::SpentUnheld);
}

#[test]
fn control_limit_unheard() {
    control_in(Plan { turns: Turns::Limits, ..PLAN }, Fault::LimitUnheard);
}

#[test]
fn control_clock_believed() {
    control_by(Fault::ClockBelieved, asks::long_over);
}

#[test]
fn control_released_taken() {
    control_by(Fault::ReleasedTaken, asks::released);
}

#[test]
fn control_folded_free() {
    control_by(Fault::FoldedFree, asks::crowd);
}

#[test]
fn control_part_forgotten() {
    control(Fault::PartForgotten, Turns::None);
}
