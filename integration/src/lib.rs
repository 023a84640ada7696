//! Whole-system tests and benches: what they share. Tests of the house itself are in `tests/`; those that drive the real binary
//! in `system/`.
//!
//! Nothing here ships: to fail, with a message that says what was seen, is its work.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test crate: to fail is its work"
)]

pub mod http;
pub mod line;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod server;
pub mod wait;
