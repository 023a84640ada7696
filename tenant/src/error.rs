//! What can go wrong with the store: the caller's input, the operator's files, the database.

use std::io;
use std::time::Duration;

use crate::key::KeyId;
use crate::level::ProjectId;
use crate::scopes::TooManyEntries;
use crate::share::BadShare;
use crate::store::TenantId;

/// Why the store did not do what it was asked. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another has this name already.
    #[error("another has this name already")]
    NameTaken,
    /// It does not look as the change expects.
    #[error("it was changed by another since")]
    Stale,
    /// A request of this name was done.
    #[error("a request of this name was done before")]
    Repeated,
    /// No more names of requests can be remembered.
    #[error("{allowed} requests with a name of their own are remembered already, and that is the most")]
    TooManyAnswers {
        /// Requests remembered at most.
        allowed: u32,
    },
    /// No tenant has this id.
    #[error("no tenant has the id {0}")]
    NoSuchTenant(TenantId),
    /// The tenant has no project of this id.
    #[error("the tenant has no project with the id {0}")]
    NoSuchProject(ProjectId),
    /// The key has no future.
    #[error("the key {0} is revoked or has expired: make another")]
    KeyEnded(KeyId),
    /// Two secrets would work side by side for too long.
    #[error("an overlap of {} s is above the most that is allowed, {} s", asked.as_secs(), allowed.as_secs())]
    OverlapTooLong {
        /// Asked.
        asked: Duration,
        /// Allowed.
        allowed: Duration,
    },
    /// The key is a person's or an auditor's.
    #[error("this key asks no models, and so has no limits")]
    NoLimits,
    /// A list of scopes is too long.
    #[error("{0}")]
    Scopes(#[from] TooManyEntries),
    /// The address of the database cannot be read. It is not repeated: it may hold a password.
    #[error("the address of the database cannot be read: postgres://user:password@host/database is expected")]
    BadAddress,
    /// The address is not one of PostgreSQL.
    #[error("the address of the database begins neither with postgres:// nor with postgresql://")]
    NotPostgres,
    /// No key has this id.
    #[error("no key has the id {0}")]
    NoSuchKey(KeyId),
    /// The cap is above what any key may have.
    #[error("a window cap of {asked} tokens is above the most that is allowed, {allowed}")]
    WindowCapTooHigh {
        /// Tokens asked.
        asked: u32,
        /// Tokens allowed.
        allowed: u32,
    },
    /// The limit is above what any key may have.
    #[error("a concurrency of {asked} requests is above the most that is allowed, {allowed}")]
    ConcurrencyTooHigh {
        /// Requests asked.
        asked: u32,
        /// Requests allowed.
        allowed: u32,
    },
    /// The budget is above what any may be.
    #[error("a budget of {asked} is above the most that is allowed, {allowed}")]
    BudgetTooHigh {
        /// Tokens or micro-units asked.
        asked: u64,
        /// Tokens or micro-units allowed.
        allowed: u64,
    },
    /// More usage matches than one answer may hold.
    #[error("more than {allowed} rows of usage match: ask for a shorter time, or fewer of its parts")]
    UsageTooLong {
        /// Rows allowed.
        allowed: u32,
    },
    /// The share cannot be.
    #[error("{0}")]
    BadShare(#[from] BadShare),
    /// The key would never work.
    #[error("the expiry lies in the past")]
    ExpiryPassed,
    /// The store holds as many as it may.
    #[error("the store holds {limit} already, and that is the most it may")]
    Full {
        /// Tenants, or keys.
        limit: u32,
    },
    /// The store was made with another pepper: with this one, no key of it would work.
    #[error("the pepper is not the one this store was made with; restore the pepper file that belongs to it")]
    WrongPepper,
    /// A file of the store cannot be made, locked or closed to others.
    #[error("the store's file cannot be used: {0}")]
    File(#[source] io::Error),
    /// The schema cannot be brought up to date, or is newer than this program.
    #[error("the store's schema does not fit this program: {0}")]
    Schema(#[source] Box<sqlx::migrate::MigrateError>),
    /// The database reports an error, a lock held for too long among them.
    #[error("the store fails: {0}")]
    Database(#[source] Box<sqlx::Error>),
    /// A row says what no program of ours writes.
    #[error("the store holds a row that cannot be read: {table}.{column}")]
    Damaged {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The system has no randomness to give.
    #[error("the system gives no randomness")]
    NoRandomness,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Box::new(error))
    }
}
