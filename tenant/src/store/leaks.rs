//! Keys that were found where they should not be: which of them are ours, and their end.
//!
//! Architecture invariant: the same is asked and computed for what is no key, for an id that is not there and for a wrong secret.

use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::key::{ApiKey, KeyId, KeyKind};
use crate::limits::Expiry;
use crate::purpose::Reach;
use crate::store::{Store, row};
use crate::time::UnixMillis;

/// What a text is that was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// No key that was ever made, or none within reach.
    Nothing,
    /// A key, or a secret of one, that does not work any more.
    Ended,
    /// A key that has not been revoked, with a secret of it that works.
    Works(KeyId),
}

/// One secret of a key, as it is stored.
struct Held {
    is_reached: bool,
    is_revoked: bool,
    pepper_version: u32,
    digest: [u8; 32],
    ends: Expiry,
}

impl Held {
    fn read(row: &AnyRow, of: Reach) -> Result<Self, StoreError> {
        let tenant: Option<&[u8]> = row.try_get(0)?;
        let tenant = tenant.map(|stored| row::tenant_id(stored, "api_keys", "tenant")).transpose()?;
        let damaged = |column| row::damaged("secrets", column);
        let (version, digest): (i64, &[u8]) = (row.try_get(2)?, row.try_get(3)?);
        Ok(Self {
            is_reached: match of {
                Reach::Installation => true,
                Reach::Tenant(own) => tenant == Some(own) || seeded(Fault::LeakUnreached),
            },
            is_revoked: row.try_get::<Option<i64>, _>(1)?.is_some(),
            pepper_version: u32::try_from(version).map_err(|_| damaged("pepper_version"))?,
            digest: digest.try_into().map_err(|_| damaged("digest"))?,
            ends: row::expiry(row.try_get(4)?, "secrets", "ends_ms")?,
        })
    }
}

impl Store {
    /// Says what a text is that was found. The kind that stands in a key is not looked at: who has the secret can write another.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn find_leaked(
        &self,
        presented: &str,
        of: Reach,
        now: UnixMillis,
    ) -> Result<Found, StoreError> {
        let parsed = ApiKey::parse(presented);
        let stand_in = ApiKey::generate(KeyKind::Live, &self.random).map_err(|_| StoreError::NoRandomness)?;
        let key = parsed.as_ref().unwrap_or(&stand_in);
        let rows = sqlx::query(
            "SELECT k.tenant, k.revoked_ms, s.pepper_version, s.digest, s.ends_ms
             FROM api_keys k JOIN secrets s ON s.key = k.id WHERE k.id = $1 ORDER BY s.serial LIMIT 2",
        )
        .bind(key.id().as_str())
        .fetch_all(&self.pool)
        .await?;
        let held = rows.iter().map(|row| Held::read(row, of)).collect::<Result<Vec<_>, _>>()?;
        let mut found = Found::Nothing;
        for place in 0..2_usize {
            let secret = held.get(place);
            let (version, digest) = secret.map_or((0, [0; 32]), |held| (held.pepper_version, held.digest));
            let matches = self.pepper.verify(version, key, &digest);
            // `&`, not `&&`: each part is computed, whatever the others say.
            let Some(held) = secret.filter(|held| matches & parsed.is_ok() & held.is_reached) else {
                continue;
            };
            let is_over = held.is_revoked || (held.ends.has_passed(now) && !seeded(Fault::LeakOfTheEnded));
            found = if is_over { Found::Ended } else { Found::Works(key.id()) };
        }
        Ok(found)
    }
}
