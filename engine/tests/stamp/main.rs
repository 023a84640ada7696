//! The engine on the stamp device: every wrong read shows in the tokens.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests compute freely, and print what they counted"
)]

mod behaviour;
mod common;
mod controls;
mod events;
#[cfg(feature = "seeded-faults")]
mod faults;
mod places;
mod pressure;
mod start;
mod trace;
