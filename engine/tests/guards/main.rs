//! Rows of the fault corpus by their own guards: each is provoked on a device that keeps a book of its pages ([`watch`]), or on pages and
//! leases alone, and its control takes away the very guard that stands for it and wants the violation that it is there for. The rows by
//! what tokens come out are in `tests/corpus`; `docs/incidents.md` lists both. [`alarms`] is
//! no row: it guards the telling of what the others find.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests compute freely"
)]

mod admission;
mod alarms;
#[path = "../stamp/common.rs"]
#[allow(dead_code, reason = "each test target uses its part of it")]
mod common;
mod identity;
mod memory;
mod outcomes;
mod pool;
mod rig;
mod slots;
mod watch;
