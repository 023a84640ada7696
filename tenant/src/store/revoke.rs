//! The end of keys.

use crate::error::StoreError;
use crate::key::KeyId;
use crate::store::events::{Action, Reason};
use crate::store::keys::{found, told};
use crate::store::{KeyRecord, Store};
use crate::time::UnixMillis;

/// What revoking a key did. Either way the key does not work any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Revoked {
    /// It worked until now.
    Now,
    /// It was revoked before.
    Before(UnixMillis),
}

impl Store {
    /// Ends a key for good. To do it again changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NoSuchKey`].
    pub async fn revoke_key(&self, id: KeyId, now: UnixMillis) -> Result<Revoked, StoreError> {
        self.revoke_key_for(id, None, now).await
    }

    /// The same, and its event says why.
    ///
    /// # Errors
    /// As [`Store::revoke_key`].
    pub async fn revoke_key_for(
        &self,
        id: KeyId,
        reason: Option<&Reason>,
        now: UnixMillis,
    ) -> Result<Revoked, StoreError> {
        let mut change = self.change().await?;
        let before = found(&mut change, id).await?;
        if let Some(at) = before.revoked {
            return Ok(Revoked::Before(at));
        }
        let revision = change.revision();
        sqlx::query("UPDATE api_keys SET revoked_ms = $1, revision = $2 WHERE id = $3")
            .bind(now.get())
            .bind(revision)
            .bind(id.as_str())
            .execute(change.on())
            .await?;
        let after = KeyRecord { revoked: Some(now), ..before.clone() };
        self.tell_why(&mut change, now, told(Action::KeyRevoke, Some(&before), &after), reason).await?;
        change.commit().await?;
        Ok(Revoked::Now)
    }
}
