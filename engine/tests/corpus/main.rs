//! The fault corpus: kinds of fault that real engines had, each provoked here, each with a control that must break it.
//!
//! A row is a scenario that says what went wrong, if anything did. The test wants it to say nothing; the control takes one
//! guard away, or lets the device misbehave, and wants it to speak. `docs/incidents.md` lists the rows.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "tests compute freely, and share what the stamp tests use"
)]

#[path = "../stamp/common.rs"]
mod common;

mod admission;
mod identity;
mod memory;
mod neighbour;
mod prefixes;
mod scheduling;
mod stage;

/// A row: its test, its control, its scenario, and the guards without which the scenario must speak.
macro_rules! row {
    ($test:ident, $control:ident, $scenario:path, [$($loss:expr),+ $(,)?]) => {
        #[test]
        fn $test() {
            assert_eq!($scenario(engine::device::stamp::Lie::None), Ok(()));
        }

        #[cfg(feature = "seeded-faults")]
        #[test]
        fn $control() {
            for loss in [$($loss),+] {
                let noticed = crate::stage::without(loss, $scenario);
                assert!(noticed.is_err(), "nobody noticed {loss:?}");
            }
        }
    };
}
pub(crate) use row;
