//! The Admin API as its clients see it: a real server on a real port, over each database.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test: to fail is its work"
)]

mod changes;
mod charges;
mod connections;
mod conventions;
mod door;
mod faults;
mod leaks;
mod rig;
mod roles;
