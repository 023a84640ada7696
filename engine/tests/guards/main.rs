//! The fault corpus: each known way in which serving engines have mixed up requests or tenants, provoked here. The table of all rows
//! is in `docs/incidents.md`.
//!
//! A row is a scenario that gives `Err` with what was violated. Its test wants `Ok`; its control takes the guard away (a seeded fault,
//! or a device that lies) and wants `Err` for the reason that the guard is there for.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests compute freely"
)]

mod admission;
#[path = "../stamp/common.rs"]
#[allow(dead_code, reason = "each test target uses its part of it")]
mod common;
mod content;
mod identity;
mod kernel;
mod neighbour;
mod outcomes;
mod ownership;
mod pool;
mod rig;
mod scheduling;
mod slots;
mod stale;
mod watch;
