//! What can go wrong with the store: the caller's input, the operator's files, the database.

use std::io;
use std::time::Duration;

use crate::key::KeyId;
use crate::level::ProjectId;
use crate::scopes::TooManyEntries;
use crate::share::BadShare;
use crate::store::{Belonging, TenantId};

/// What an address may say after its `?`.
const KNOWN_PARAMETERS: &str =
    "sslmode, sslrootcert, sslcert, sslkey, host, hostaddr, port, dbname, user, password, application_name";

impl StoreError {
    /// Whether an address may have this parameter.
    pub(crate) fn is_known_parameter(name: &str) -> bool {
        KNOWN_PARAMETERS.split(", ").any(|known| known == name)
    }
}

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
    /// The key that is to make the change was revoked meanwhile, or its tenant suspended.
    #[error("the key of who asks for this does not work any more")]
    ActorEnded,
    /// The key is a person's or an auditor's.
    #[error("this key asks no models, and so has no limits")]
    NoLimits,
    /// A list of scopes is too long.
    #[error("{0}")]
    Scopes(#[from] TooManyEntries),
    /// The address of the database cannot be read. It is not repeated: it may hold a password.
    #[error("the address of the database cannot be read: postgres://user:password@host/database is expected")]
    BadAddress,
    /// The address has a parameter that is not known. Its value is not repeated: it may be a secret.
    #[error("the address of the database has a parameter that is not known: {0}; {KNOWN_PARAMETERS} are")]
    UnknownParameter(String),
    /// The address is not one of PostgreSQL.
    #[error("the address of the database begins neither with postgres:// nor with postgresql://")]
    NotPostgres,
    /// No gateway of this id holds a part of a budget.
    #[error("no gateway of this id holds a part of a budget: `bulkhead budget parts` shows those that do")]
    NoSuchGateway,
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
    /// The tenant has as many as it may.
    #[error(
        "the tenant has {held} {}, and {allowed} are allowed: `{}_per_tenant` of the policy says so, and the command line is not bound by it",
        part.name(),
        part.name()
    )]
    TenantFull {
        /// Of what.
        part: Belonging,
        /// How many it has.
        held: u32,
        /// How many it may have.
        allowed: u32,
    },
    /// No event of this store is called so.
    #[error("this names no event of this store")]
    NoSuchEvent,
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

impl StoreError {
    /// Whether the database cannot be reached or does not answer. All else it says itself, or is wrong with what it holds.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Database(cause) if is_of_the_line(cause))
    }
}

/// Whether an error is one of the way to the database, or of a server that takes nobody now.
pub(crate) fn is_of_the_line(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Database(said) = error {
        return said.code().is_some_and(|code| takes_nobody(&code));
    }
    // A line that is cut while the two greet each other breaks their protocol.
    matches!(
        error,
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::PoolTimedOut
    )
}

/// SQLSTATE: exceptions of the connection, too many of them, shutting down, starting.
fn takes_nobody(code: &str) -> bool {
    let is_one = matches!(code, "53300" | "57P01" | "57P02" | "57P03");
    is_one || (code.len() == 5 && code.starts_with("08"))
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_line_say_that_the_store_is_away() {
        let late = io::Error::from(io::ErrorKind::TimedOut);
        for away in [sqlx::Error::Io(late), sqlx::Error::PoolTimedOut] {
            assert!(StoreError::from(away).is_away());
        }
        for here in [
            StoreError::WrongPepper,
            StoreError::Full { limit: 1 },
            StoreError::Damaged { table: "api_keys", column: "id" },
            StoreError::Schema(Box::new(sqlx::migrate::MigrateError::Dirty(1))),
            StoreError::File(io::ErrorKind::TimedOut.into()),
            sqlx::Error::RowNotFound.into(),
        ] {
            assert!(!here.is_away(), "{here}");
        }
        assert!(["08006", "53300", "57P01", "57P02", "57P03"].into_iter().all(takes_nobody));
        assert!(!["28P01", "3D000", "42P01", "57014", "8", "08"].into_iter().any(takes_nobody));
    }
}
