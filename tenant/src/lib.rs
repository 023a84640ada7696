//! Tenants, API keys, limits and their store.
//!
//! The public interface is:
//! - [`Store`], which holds tenants and keys in SQLite; the gateway and the command line may have it open at
//!   once;
//! - [`Event`], what each change of the store leaves behind, with its [`Actor`];
//! - [`ApiKey`], the key as its holder presents it, and [`Pepper`], without which what the store holds of it
//!   is worth nothing;
//! - [`Directory`], the snapshot that authenticates, follows the store and outlives its failures;
//! - [`Inflight`], which counts a key's requests;
//! - [`Limiter`], which counts requests and tokens by the rules that they meet, and [`Sharing`], by which several gateways
//!   count them together in a [`SharedCount`];
//! - [`Ledger`], which reserves each request against [`Budget`]s, and [`Delivery`], which brings its usage to a store;
//! - [`Secret`], for what must not be printed.
//!
//! Architecture invariant: a secret is never stored, never shown twice, never printable; the hot path never
//! waits for a store.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod base62;
mod delivery;
mod directory;
mod error;
mod failures;
pub mod fault;
mod inflight;
mod key;
mod leak;
mod ledger;
mod level;
mod limits;
mod name;
mod parts;
mod pepper;
mod presence;
mod purpose;
mod rate;
mod scopes;
mod secret;
mod share;
mod sharing;
mod store;
mod time;

pub use delivery::{Delivery, DeliveryHealth};
pub use directory::{
    Administrator, AuditReader, Caller, Directory, Follower, Health, Keep, NotAuthenticated, Noting,
    Principal, RecallError, RevocationLag, USES_MAX,
};
pub use error::StoreError;
pub use failures::{FAILING_ADDRESSES_MAX, Failures, TooManyFailures, network};
pub use inflight::{Guard, Inflight, TooMany};
pub use key::{ApiKey, KEY_CHARS_MAX, KEY_PATTERN, KeyId, KeyKind, NotAKey};
pub use leak::{FOUND_AT_CHARS_MAX, FoundAt};
pub use ledger::{
    Amounts, BATCH_ROWS_MAX, BOOKS_MAX, BadPrices, BadThresholds, Batch, Budget, BudgetKind, BudgetName,
    BudgetRefusal, BudgetStanding, BudgetWarning, Claim, Cost, Damage, Damaged, JOURNAL_BYTES_MAX,
    JOURNAL_TAIL_BYTES_MAX, Journalled, LEDGER_QUEUE_MAX, Ledger, LedgerError, MarkBeyond, OverBudget,
    PRICE_MAX, PRICED_MODELS_MAX, Payer, Period, Price, PriceTooHigh, Prices, Pricing, REQUEST_BUDGETS_MAX,
    REQUEST_TOKENS_MAX, RESERVATIONS_MAX, Replayed, Reservation, Resets, SUMS_MAX, SettleDefect, Settled,
    Shortage, THRESHOLDS_MAX, Taken, Thresholds, TooManyTokens, USAGE_ROWS_MAX, Unfit, Unit, UsageRow, Used,
    UtcHour, WorstCase,
};
pub use level::{BadModelName, Level, ModelName, Models, ProjectId};
pub use limits::{Concurrency, Expiry, KeyLimits};
pub use name::{BadName, Name};
pub use parts::{BudgetParts, BudgetPartsHealth, GRANT_WAIT_MAX};
pub use pepper::{Pepper, PepperError};
pub use policies::WindowCap;
pub use presence::Presence;
pub use purpose::{Mode, Purpose, Reach, Role};
pub use rate::{
    ANSWER_WAIT_MAX, Ahead, Answer, Ask, BadChain, Bounds, COUNTERS_MAX, Chain, Clears, Grant, IN_FLIGHT_MAX,
    Limit, Limiter, Limits, Measure, Meter, NoRoom, OverLimit, Quota, RULES_MAX, Rate, Refusal, Report,
    Reset, Retry, Rule, SLICES, SWEEP_EVERY, Scope, Stand, Standing, TRACKED_TENANTS_MAX, WHEN_COUNTS_ANSWER,
    WHEN_COUNTS_RUN_OUT, WHEN_ONE_ENDS,
};
pub use scopes::{Allowed, AtMost, EndpointScope, SCOPE_ENTRIES_MAX, Scopes, TooManyEntries};
pub use secret::Secret;
pub use share::{BadShare, MemoryCap, MemoryShare, TenantShare, WEIGHT_MAX};
pub use sharing::{BadSharedUrl, CountAway, ROUND_MAX, RedisCount, SharedCount, Sharing};
pub use store::{
    ANSWER_BYTES_MAX, ANSWERS_KEPT, ANSWERS_MAX, ANSWERS_PER_ACCOUNT_MAX, Action, Actor, BUDGET_MAX,
    BUDGETS_MAX, BUDGETS_PER_TENANT, BUSY_MAX, Before, Belonging, BudgetEntry, EVENT_BYTES_MAX, EVENTS_KEPT,
    EVENTS_PAGE_MAX, Event, EventId, Expect, Found, KEYS_MAX, KEYS_PER_TENANT, KeyRecord, KeySpec,
    LIMITS_MAX, LIMITS_PER_TENANT, LIST_PAGE_MAX, LimitsChange, ONCE_NAME_CHARS_MAX, OVERLAP_MAX, Once,
    PART_GATEWAYS_MAX, PART_RECORDS_MAX, PROJECTS_MAX, PROJECTS_PER_TENANT, PartRecord, Project, Reason,
    Released, Revision, Revoked, Rotated, SCANNER_ID_CHARS_MAX, ScannerId, SecretRecord, ShareChange, Store,
    StoreId, Stored, TENANTS_MAX, Tenant, TenantBounds, TenantChange, TenantId, TenantState,
    USAGE_ANSWER_MAX, USAGE_HOURS_KEPT, UsageBy, UsageOf, UsageParts, UsageSum, Version,
};
pub use time::{MonoNanos, UnixMillis};
