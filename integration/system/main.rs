//! The real binary, driven from outside.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test crate: to fail is its work"
)]

mod admin_api;
mod audit;
mod bad_input;
mod budgets;
mod cli;
mod clients;
mod commands;
mod failures;
mod incident;
mod isolation;
mod keys;
mod leaks;
mod markers;
mod parts;
mod prefix;
mod shared_limits;
mod starts;
mod stores;
mod window;
mod witness;
