//! When secrets were last used, and their digests under a newer pepper.

use sqlx::{AnyConnection, Connection};

use crate::directory::Use;
use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::store::Store;
use crate::store::change::ChangeOn;
use crate::store::patience::within;

/// Secrets that one transaction takes, so that no other writer waits long.
const SECRETS_AT_ONCE: usize = 256;

impl Store {
    /// Notes uses. It is no change of what the store is: no revision, and no event; but for digests under a newer pepper, which those
    /// who follow must know.
    ///
    /// # Errors
    /// As the database reports, or when it does not answer within 60 s. What was noted by then stays noted; to note it again does no
    /// harm.
    pub(crate) async fn note_uses(&self, uses: &[Use]) -> Result<(), StoreError> {
        // In one order, so that two gateways that note the same keys never wait for each other in a ring.
        let mut uses = uses.to_vec();
        uses.sort_unstable_by_key(|noted| (noted.key, noted.digest));
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let limit = self.patience.rows_max.saturating_mul(2);
        let noted = within(limit, self.note_uses_on(&mut connection, &uses)).await;
        if noted.is_err() {
            // Given back, it might be waited for once more.
            connection.close_on_drop();
        }
        noted
    }

    async fn note_uses_on(&self, connection: &mut AnyConnection, uses: &[Use]) -> Result<(), StoreError> {
        for some in uses.chunks(SECRETS_AT_ONCE) {
            let mut noting = connection.begin_with(self.dialect.begin_change()).await?;
            for noted in some {
                let text = if seeded(Fault::UseTakenBack) {
                    "UPDATE secrets SET used_ms = $1 WHERE key = $2 AND digest = $3"
                } else {
                    "UPDATE secrets SET used_ms = $1 WHERE key = $2 AND digest = $3 AND (used_ms IS NULL OR used_ms < $1)"
                };
                sqlx::query(text)
                    .bind(noted.at.get())
                    .bind(noted.key.as_str())
                    .bind(noted.digest.as_slice())
                    .execute(&mut *noting)
                    .await?;
            }
            noting.commit().await?;
        }
        let renewed: Vec<_> = uses.iter().filter_map(|noted| Some((noted, noted.renewed?))).collect();
        for some in renewed.chunks(SECRETS_AT_ONCE) {
            self.renew_on(connection, some).await?;
        }
        Ok(())
    }

    async fn renew_on(
        &self,
        connection: &mut AnyConnection,
        renewed: &[(&Use, (u32, [u8; 32]))],
    ) -> Result<(), StoreError> {
        let mut change = ChangeOn::begin_on(connection, self.dialect, &self.random).await?;
        let revision = change.revision();
        for (noted, (version, digest)) in renewed {
            let secrets = sqlx::query(
                "UPDATE secrets SET pepper_version = $1, digest = $2 WHERE key = $3 AND digest = $4",
            )
            .bind(i64::from(*version))
            .bind(digest.as_slice())
            .bind(noted.key.as_str())
            .bind(noted.digest.as_slice())
            .execute(change.on())
            .await?;
            if secrets.rows_affected() > 0 {
                sqlx::query("UPDATE api_keys SET revision = $1 WHERE id = $2")
                    .bind(revision)
                    .bind(noted.key.as_str())
                    .execute(change.on())
                    .await?;
            }
        }
        change.commit().await
    }
}
