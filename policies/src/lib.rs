//! Config artifacts: parse, validate, compare, last-known-good.
//!
//! The public interface is:
//! - [`Policy`], the limits in force, each within its [`Bounds`]; [`Policy::parse`] is the only way in;
//! - [`Field`], which names each limit, and [`Policy::compare`], which lists what a new policy changes;
//! - [`PolicyStore`], which loads a candidate, keeps the last good one across a cold start, and says which is
//!   in force.
//!
//! A bad file never takes a running fleet down (P7): it is refused with the field, the number asked and the
//! number allowed, and the last-known-good stays in force. At a first start, with nothing to fall back to, it
//! is an error, never a silent default.
//!
//! Architecture invariant: no `None` and no zero means "no limit"; knows no tenant, no key and no clock.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod error;
mod field;
mod policy;
mod slot;
mod store;

pub use error::{FieldName, PolicyError, Unusable};
pub use field::{Bounds, Field};
pub use policy::{
    Change, FILE_BYTES_MAX, Policy, Setting, SharedLimitsAway, Version, WINDOW_CAP_MAX, WindowCap,
};
pub use store::{InForce, PolicyStore, Source};
