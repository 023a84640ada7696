//! Limits in time: requests and tokens per minute, requests at once, and what one request may ask.
//!
//! The public interface is:
//! - [`Rule`], the limits of one [`Scope`], and [`Chain`], all rules that a request meets;
//! - [`Limiter`], which counts; [`Limiter::admit`] takes everything that a request needs in one step or nothing,
//!   and gives a [`Grant`];
//! - [`Refusal`], which says what was over which limit and when that clears;
//! - [`Standing`], what the `x-ratelimit-*` headers say.
//!
//! Counts are exact: integers, no sketch, no rounding. For every counter and every stretch of time, the tokens
//! admitted in it are at most one minute's worth and what the rate gives in that time, whatever was given back
//! meanwhile; and nothing is refused that keeps to this.
//!
//! Architecture invariant: nothing here reads a clock, waits, or knows a store or a network; tenants wait for each
//! other's locks only where a tenant is met for the first time or forgotten.

mod bucket;
mod counter;
mod ledger;
mod limiter;
mod refusal;
mod rule;
mod standing;

pub use limiter::{Bounds, COUNTERS_MAX, Grant, IN_FLIGHT_MAX, Limiter, SWEEP_EVERY, TRACKED_TENANTS_MAX};
pub use refusal::{Clears, NoRoom, OverLimit, Quota, Refusal, Retry, WHEN_COUNTS_RUN_OUT, WHEN_ONE_ENDS};
pub use rule::{Ask, BadChain, Chain, Limit, Limits, RULES_MAX, Rule, Scope};
pub use standing::{Measure, Meter, Reset, Standing};

#[cfg(test)]
mod tests;
