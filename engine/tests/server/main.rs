//! The engine behind a real socket, on the stamp device.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests compute freely"
)]

mod alarms;
#[path = "../stamp/common.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod common;
mod gateway;
mod idle;
mod lifetime;
mod sessions;
mod statements;
