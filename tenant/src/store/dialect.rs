//! What differs between SQLite and PostgreSQL. All statements are the same text, with `$1` for arguments.

use std::borrow::Cow;

/// Said to SQLite on each connection. `FULL`: a commit is on disk when it returns; a key that was revoked stays revoked after a
/// power cut. The time-out is [`crate::store::BUSY_MAX`].
const SQLITE_SETTINGS: &str =
    "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
     PRAGMA foreign_keys = ON;";
/// Said to PostgreSQL on each connection: a statement that hangs is given up, as is the wait for another's change
/// ([`crate::store::BUSY_MAX`]).
const POSTGRES_SETTINGS: &str = "SET statement_timeout = '30s'; SET lock_timeout = '5s';
     SET idle_in_transaction_session_timeout = '30s'; SET synchronous_commit = on;";

/// Which database a store lies in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// What is said on each connection before anything else.
    pub(super) const fn settings(self) -> &'static str {
        match self {
            Self::Sqlite => SQLITE_SETTINGS,
            Self::Postgres => POSTGRES_SETTINGS,
        }
    }

    /// Begins a change. A change is the only writer from its first statement on: SQLite by this, PostgreSQL by the row of
    /// the revision, which each change takes first.
    pub(super) const fn begin_change(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }

    /// Begins an exchange of parts. What it reads after its first statement has to be what there is then, whatever a server was told to
    /// do by itself: else who has waited for another would decide by rows of before. Other gateways wait for it: where its own gateway falls silent in the midst, a server gives it up
    /// soon.
    pub(super) const fn begin_exchange(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => {
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '2s'"
            }
        }
    }

    /// Begins a look at one moment, over several statements.
    pub(super) const fn begin_look(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN",
            Self::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }

    /// A migration as this database reads it. They are written for SQLite, and use what both have but for these words.
    pub(super) fn migration(self, sql: &'static str) -> Cow<'static, str> {
        match self {
            Self::Sqlite => Cow::Borrowed(sql),
            Self::Postgres => Cow::Owned(
                sql.lines()
                    .filter(|line| !line.starts_with("CREATE TRIGGER") && !line.starts_with("DROP TRIGGER"))
                    .map(|line| {
                        let line = line.replace(" INTEGER", " BIGINT").replace(" BLOB", " BYTEA");
                        line.replace(") STRICT;", ");") + "\n"
                    })
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_reads_the_same_but_for_types_and_triggers() {
        let sql = "CREATE TABLE t (\n    a INTEGER PRIMARY KEY,\n    b BLOB\n) STRICT;\nCREATE TRIGGER x;\n-- INTEGERS\n";
        assert_eq!(Dialect::Sqlite.migration(sql), sql);
        let postgres = "CREATE TABLE t (\n    a BIGINT PRIMARY KEY,\n    b BYTEA\n);\n-- BIGINTS\n";
        assert_eq!(Dialect::Postgres.migration(sql), postgres);
    }
}
