//! A change of the store: one transaction, one revision.

use ring::rand::{SecureRandom, SystemRandom};
use sqlx::AnyPool;
use sqlx::{Any, AnyConnection, Connection, Transaction};

use crate::error::StoreError;
use crate::store::dialect::Dialect;

/// The channel on which PostgreSQL tells that something changed.
pub(super) const CHANNEL: &str = "bulkhead_store";

/// Changes that a store remembers: a follower that was away for more of them reads it whole.
pub(super) const HISTORY_MAX: i64 = 4_096;

/// A change under way. Dropped, it has not happened.
pub(super) struct ChangeOn<'c> {
    transaction: Transaction<'c, Any>,
    dialect: Dialect,
    revision: i64,
}

/// One on a connection of its own.
pub(super) type Change = ChangeOn<'static>;

impl ChangeOn<'static> {
    /// Begins a change as the only writer, so that what it reads cannot move before it writes, and revisions are committed in
    /// their order: a follower that has seen one has seen all before it.
    pub(super) async fn begin(
        pool: &AnyPool,
        dialect: Dialect,
        random: &SystemRandom,
    ) -> Result<Self, StoreError> {
        Self::on_transaction(pool.begin_with(dialect.begin_change()).await?, dialect, random).await
    }
}

impl<'c> ChangeOn<'c> {
    /// The same on a connection that is at hand.
    pub(super) async fn begin_on(
        connection: &'c mut AnyConnection,
        dialect: Dialect,
        random: &SystemRandom,
    ) -> Result<Self, StoreError> {
        Self::on_transaction(connection.begin_with(dialect.begin_change()).await?, dialect, random).await
    }

    async fn on_transaction(
        mut transaction: Transaction<'c, Any>,
        dialect: Dialect,
        random: &SystemRandom,
    ) -> Result<Self, StoreError> {
        let mut token = [0; 8];
        random.fill(&mut token).map_err(|_| StoreError::NoRandomness)?;
        let revision: i64 =
            sqlx::query_scalar("UPDATE revision SET value = value + 1 WHERE one = 1 RETURNING value")
                .fetch_one(&mut *transaction)
                .await?;
        // What is above was left by a change by hand, which took the revision back.
        sqlx::query("DELETE FROM history WHERE revision <= $1 OR revision >= $2")
            .bind(revision.saturating_sub(HISTORY_MAX))
            .bind(revision)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO history (revision, token) VALUES ($1, $2)")
            .bind(revision)
            .bind(i64::from_ne_bytes(token))
            .execute(&mut *transaction)
            .await?;
        Ok(Self { transaction, dialect, revision })
    }

    /// What this change writes into each row that it touches.
    pub(super) const fn revision(&self) -> i64 {
        self.revision
    }

    /// Where its statements run.
    pub(super) fn on(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }

    /// Makes it so, and tells those who listen.
    pub(super) async fn commit(mut self) -> Result<(), StoreError> {
        match self.dialect {
            Dialect::Sqlite => {}
            Dialect::Postgres => {
                // Delivered when the transaction is committed, and only then.
                sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(&mut *self.transaction).await?;
            }
        }
        Ok(self.transaction.commit().await?)
    }
}
