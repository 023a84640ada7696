//! The trusted core: pages, leases, fences, scrubbing, admission, evidence and outcomes.
//!
//! What keeps tenants apart is in this crate, and nothing else is. **Architecture invariant:** no dependency, no I/O, no
//! clock, no thread, no `unsafe`; it knows no tenant's name, no text and no key.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

extern crate alloc;
#[cfg(any(test, feature = "seeded-faults"))]
extern crate std;

pub mod access;
pub mod admit;
pub mod evidence;
pub mod fault;
mod home;
pub mod lease;
pub mod outcome;
pub mod page;
pub mod pool;
pub mod prefix;
pub mod share;
pub mod step;
pub mod tag;
pub mod units;
