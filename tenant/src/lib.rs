//! Tenants, API keys, limits and their store.
//!
//! The public interface is:
//! - [`Store`], which holds tenants and keys in SQLite; the gateway and the command line may have it open at
//!   once;
//! - [`ApiKey`], the key as its holder presents it, and [`Pepper`], without which what the store holds of it
//!   is worth nothing;
//! - [`Directory`], the snapshot that authenticates, follows the store and outlives its failures;
//! - [`Inflight`], which counts a key's requests;
//! - [`Limiter`], which counts requests and tokens by the rules that they meet;
//! - [`Ledger`], which reserves each request against [`Budget`]s, and keeps usage until a store has it;
//! - [`Secret`], for what must not be printed.
//!
//! Architecture invariant: a secret is never stored, never shown twice, never printable; the hot path never
//! waits for a store.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod base62;
mod directory;
mod error;
mod failures;
pub mod fault;
mod inflight;
mod key;
mod ledger;
mod level;
mod limits;
mod name;
mod pepper;
mod presence;
mod purpose;
mod rate;
mod scopes;
mod secret;
mod share;
mod store;
mod time;

pub use directory::{
    Administrator, AuditReader, Caller, Directory, Follower, Health, Keep, NotAuthenticated, Principal,
    RecallError, RevocationLag,
};
pub use error::StoreError;
pub use failures::{FAILING_ADDRESSES_MAX, Failures, TooManyFailures};
pub use inflight::{Guard, Inflight, TooMany};
pub use key::{ApiKey, KEY_CHARS_MAX, KEY_PATTERN, KeyId, KeyKind, NotAKey};
pub use ledger::{
    Amounts, BATCH_ROWS_MAX, BOOKS_MAX, BadPrices, BadThresholds, Batch, Budget, BudgetKind, BudgetRefusal,
    BudgetStanding, BudgetWarning, Claim, Cost, Damage, Damaged, JOURNAL_BYTES_MAX, JOURNAL_TAIL_BYTES_MAX,
    Journalled, LEDGER_QUEUE_MAX, Ledger, LedgerError, MarkBeyond, OverBudget, PRICE_MAX, PRICED_MODELS_MAX,
    Payer, Period, Price, PriceTooHigh, Prices, Pricing, REQUEST_BUDGETS_MAX, REQUEST_TOKENS_MAX,
    RESERVATIONS_MAX, Replayed, Reservation, Resets, SUMS_MAX, SettleDefect, Settled, THRESHOLDS_MAX, Taken,
    Thresholds, TooManyTokens, USAGE_ROWS_MAX, Unfit, Unit, UsageRow, Used, WorstCase,
};
pub use level::{Level, ModelName, Models, ProjectId};
pub use limits::{Concurrency, Expiry, KeyLimits};
pub use name::{BadName, Name};
pub use pepper::{Pepper, PepperError};
pub use presence::Presence;
pub use purpose::{Mode, Purpose, Reach, Role};
pub use rate::{
    Ask, BadChain, Bounds, COUNTERS_MAX, Chain, Clears, Grant, IN_FLIGHT_MAX, Limit, Limiter, Limits,
    Measure, Meter, NoRoom, OverLimit, Quota, RULES_MAX, Refusal, Reset, Retry, Rule, SWEEP_EVERY, Scope,
    Standing, TRACKED_TENANTS_MAX, WHEN_COUNTS_RUN_OUT, WHEN_ONE_ENDS,
};
pub use scopes::{Allowed, AtMost, EndpointScope, SCOPE_ENTRIES_MAX, Scopes, TooManyEntries};
pub use secret::Secret;
pub use share::{BadShare, MemoryCap, MemoryShare, TenantShare, WEIGHT_MAX};
pub use store::{
    BUSY_MAX, KEYS_MAX, KeyRecord, KeySpec, LIMITS_MAX, OVERLAP_MAX, PROJECTS_MAX, Project, Revision,
    Revoked, Rotated, SecretRecord, Store, StoreId, TENANTS_MAX, Tenant, TenantId, TenantState,
};
pub use time::{MonoNanos, UnixMillis};
