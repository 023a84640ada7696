//! Limits in time: requests and tokens per minute, requests at once, and what one request may ask.
//!
//! The public interface is:
//! - [`Rule`], the limits of one [`Scope`], and [`Chain`], all rules that a request meets;
//! - [`Limiter`], which counts; [`Limiter::admit`] takes everything that a request needs in one step or nothing,
//!   and gives a [`Grant`];
//! - [`Refusal`], which says what was over which limit and when that clears;
//! - [`Standing`], what the `x-ratelimit-*` headers say;
//! - [`Report`] and [`Answer`], by which gateways that count together tell each other through a shared count.
//!
//! Counts are exact: integers, no sketch, no rounding. For every counter and every stretch of time, the tokens
//! admitted in it are at most one minute's worth and what the rate gives in that time, whatever was given back
//! meanwhile; and nothing is refused that keeps to this.
//!
//! Where gateways count together, each may be one slice of a limit ahead of the shared count, and by that much a limit
//! may be passed for each gateway beyond the first (see `tab`).
//!
//! Architecture invariant: nothing here reads a clock or knows a store or a network, and only `together` waits; tenants wait for each
//! other's locks only where a tenant is met for the first time or forgotten.

mod bucket;
mod counter;
mod ledger;
mod limiter;
mod refusal;
mod report;
mod rule;
mod standing;
mod tab;
mod telling;
mod together;

pub use limiter::{Bounds, COUNTERS_MAX, Grant, IN_FLIGHT_MAX, Limiter, SWEEP_EVERY, TRACKED_TENANTS_MAX};
pub use refusal::{
    Ahead, Clears, NoRoom, OverLimit, Quota, Refusal, Retry, WHEN_COUNTS_ANSWER, WHEN_COUNTS_RUN_OUT,
    WHEN_ONE_ENDS,
};
pub use report::{Answer, Rate, Report, Stand};
pub use rule::{Ask, BadChain, Chain, Limit, Limits, RULES_MAX, Rule, Scope};
pub use standing::{Measure, Meter, Reset, Standing};
pub use tab::SLICES;
pub use together::ANSWER_WAIT_MAX;

#[cfg(test)]
pub(crate) mod tests;
