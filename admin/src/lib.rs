//! The Admin API: tenants, projects, keys, limits, budgets, prices, usage and events over HTTP, with an OpenAPI document that is made of the code.
//!
//! The public interface is:
//! - [`Api`], which is bound to an address and then run until it is told to end;
//! - [`Scanners`], whose signed reports of leaked keys are believed;
//! - [`document()`], the OpenAPI document as it serves it;
//! - [`fault`], by which a test takes a guard away;
//! - [`roles`], the table of who may do what.
//!
//! To add a resource: a module beside `projects`, with its handlers, and its routes in `document`; an [`roles::Operation`] for each
//! thing that not everybody may do.
//!
//! Architecture invariant: whoever asks is a person of the directory; each change is made by the store's own methods, as that
//! person's key; a secret is answered once, and neither kept nor logged; what is another tenant's looks as if it were not there.

#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        reason = "tests fail by panicking"
    )
)]

mod answer;
mod asked;
mod asker;
mod bound;
mod budgets;
mod document;
mod events;
pub mod fault;
mod house;
mod keys;
mod leaks;
mod level;
mod limits;
mod once;
mod pace;
mod page;
mod patient;
mod prices;
mod problem;
mod projects;
pub mod roles;
mod scanners;
mod scopes;
mod seats;
mod serve;
mod tenants;
mod trace;
mod usage;

pub use document::document;
pub use leaks::{REPORT_BYTES_MAX, REPORT_TOKENS_MAX, REPORTS_PER_SECOND_MAX};
pub use page::PAGE_MAX;
pub use prices::PRICES_BYTES_MAX;
pub use scanners::{BadScanners, SCANNERS_BYTES_MAX, SCANNERS_MAX, Scanners};
pub use seats::CONNECTIONS_PER_ADDRESS_MAX;
pub use serve::{Api, ApiConfig, BODY_BYTES_MAX, CONNECTIONS_MAX};
