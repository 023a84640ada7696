//! What changed since a revision: all that a directory must know of tenants and keys.

use isolation::tag::TenantTag;
use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, Connection, Row, Transaction};

use crate::error::StoreError;
use crate::key::KeyId;
use crate::limits::{Expiry, KeyLimits};
use crate::purpose::Purpose;
use crate::rate::Rule;
use crate::share::MemoryShare;
use crate::store::{
    BudgetEntry, PriceEntry, Revision, Store, TenantId, TenantState, budgets, limits, prices, row,
};
use crate::time::UnixMillis;

/// Keys read at once.
const PAGE: i64 = 10_000;

/// Tenants and keys that changed since a revision, as one moment saw them.
pub(crate) struct Delta {
    pub(crate) revision: Revision,
    /// Whether this is all there is: what was known before is worth nothing.
    pub(crate) is_whole: bool,
    pub(crate) tenants: Vec<TenantEntry>,
    pub(crate) keys: Vec<KeyEntry>,
    /// Those that set no limit any more among them.
    pub(crate) rules: Vec<Rule>,
    /// Those that were lifted among them.
    pub(crate) budgets: Vec<BudgetEntry>,
    /// Those of models that have none any more among them.
    pub(crate) prices: Vec<PriceEntry>,
}

/// What a directory must know of a tenant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TenantEntry {
    pub(crate) id: TenantId,
    pub(crate) tag: TenantTag,
    pub(crate) state: TenantState,
    pub(crate) share: MemoryShare,
}

/// What a directory must know of a key.
pub(crate) struct KeyEntry {
    pub(crate) id: KeyId,
    pub(crate) purpose: Purpose,
    pub(crate) limits: KeyLimits,
    pub(crate) expires: Expiry,
    /// None while it is not revoked.
    pub(crate) revoked: Option<UnixMillis>,
    /// Two at most.
    pub(crate) secrets: Vec<Digested>,
}

/// What the pepper made of a secret.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Digested {
    pub(crate) pepper_version: u32,
    pub(crate) digest: [u8; 32],
    pub(crate) ends: Expiry,
}

impl Store {
    /// All that changed after `since`; all there is from [`Revision::NONE`], and from a revision that is none of this store's
    /// last [`HISTORY_MAX`](super::change::HISTORY_MAX): then it was restored from a backup, or is another.
    ///
    /// # Errors
    /// As the database reports; [`StoreError::Full`] when somebody else put more keys in than the bound allows.
    pub(crate) async fn changes(&self, since: Revision) -> Result<Delta, StoreError> {
        let mut connection = self.patience.answer(self.pool.acquire()).await?;
        let read = self.read_changes(&mut connection, since).await;
        if read.is_err() {
            // Given back, it might be waited for once more.
            connection.close_on_drop();
        }
        read
    }

    async fn read_changes(
        &self,
        connection: &mut AnyConnection,
        since: Revision,
    ) -> Result<Delta, StoreError> {
        let mut look = self.patience.answer(connection.begin_with(self.dialect.begin_look())).await?;
        let asked = sqlx::query(Revision::SELECT).fetch_one(&mut *look);
        let revision = Revision::read(&self.patience.answer(asked).await?)?;
        let is_whole = !self.remembers(&mut look, since, revision).await?;
        let since = if is_whole { Revision::NONE } else { since };
        let asked = sqlx::query(
            "SELECT id, tag, suspended_ms, floor, cap, weight
             FROM tenants LEFT JOIN shares ON shares.tenant = tenants.id WHERE revision > $1",
        )
        .bind(since.number)
        .fetch_all(&mut *look);
        let tenants = self.patience.rows(asked).await?;
        let tenants = tenants.iter().map(TenantEntry::read).collect::<Result<_, _>>()?;
        let keys = self.changed_keys(&mut look, since).await?;
        let asked =
            sqlx::query(limits::select!("WHERE revision > $1")).bind(since.number).fetch_all(&mut *look);
        let rules = self.patience.rows(asked).await?;
        let rules = rules.iter().map(limits::read).collect::<Result<_, _>>()?;
        let asked =
            sqlx::query(budgets::select!("WHERE revision > $1")).bind(since.number).fetch_all(&mut *look);
        let budgets = self.patience.rows(asked).await?;
        let budgets = budgets.iter().map(budgets::read).collect::<Result<_, _>>()?;
        let asked =
            sqlx::query(prices::select!("WHERE revision > $1")).bind(since.number).fetch_all(&mut *look);
        let prices = self.patience.rows(asked).await?;
        let prices = prices.iter().map(prices::read).collect::<Result<_, _>>()?;
        Ok(Delta { revision, is_whole, tenants, keys, rules, budgets, prices })
    }

    /// Whether the store, which has come to `now`, was at `since` before.
    async fn remembers(
        &self,
        look: &mut Transaction<'_, Any>,
        since: Revision,
        now: Revision,
    ) -> Result<bool, StoreError> {
        if since == now {
            return Ok(true);
        }
        if since.store != now.store || since.number >= now.number {
            return Ok(false);
        }
        let asked = sqlx::query_scalar("SELECT count(*) FROM history WHERE revision = $1 AND token = $2")
            .bind(since.number)
            .bind(since.token)
            .fetch_one(&mut **look);
        let known: i64 = self.patience.answer(asked).await?;
        Ok(known == 1)
    }

    async fn changed_keys(
        &self,
        look: &mut Transaction<'_, Any>,
        since: Revision,
    ) -> Result<Vec<KeyEntry>, StoreError> {
        let mut keys: Vec<KeyEntry> = Vec::new();
        loop {
            let after = keys.last().map_or("", |last| last.id.as_str());
            let asked = sqlx::query(
                "SELECT k.id, k.kind, k.tenant, k.project, k.role, k.scopes, k.window_cap, k.concurrency, k.expires_ms,
                        k.revoked_ms, s.pepper_version, s.digest, s.ends_ms
                 FROM (SELECT * FROM api_keys WHERE revision > $1 AND id > $2 ORDER BY id LIMIT $3) k
                 JOIN secrets s ON s.key = k.id ORDER BY k.id, s.serial",
            )
            .bind(since.number)
            .bind(after)
            .bind(PAGE)
            .fetch_all(&mut **look);
            let rows = self.patience.rows(asked).await?;
            if rows.is_empty() {
                return Ok(keys);
            }
            gather(&rows, &mut keys)?;
            if u32::try_from(keys.len()).map_or(true, |held| held > self.room.keys) {
                return Err(StoreError::Full { limit: self.room.keys });
            }
        }
    }
}

/// Joins the rows of each key, which follow one another.
fn gather(rows: &[AnyRow], keys: &mut Vec<KeyEntry>) -> Result<(), StoreError> {
    for row in rows {
        let (id, secret) = (row::key_id(row.try_get(0)?)?, Digested::read(row)?);
        match keys.last_mut().filter(|last| last.id == id) {
            Some(last) => last.secrets.push(secret),
            None => keys.push(KeyEntry {
                id,
                purpose: row::purpose(row)?,
                limits: row::limits(row.try_get(6)?, row.try_get(7)?)?,
                expires: row::expiry(row.try_get(8)?, "api_keys", "expires_ms")?,
                revoked: row::maybe_millis(row.try_get(9)?, "api_keys", "revoked_ms")?,
                secrets: vec![secret],
            }),
        }
    }
    Ok(())
}

impl TenantEntry {
    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row::tenant_id(row.try_get(0)?, "tenants", "id")?,
            tag: TenantTag::new(row.try_get::<i64, _>(1)?.cast_unsigned()),
            state: row::state(row.try_get(2)?)?,
            share: row::share(row.try_get(3)?, row.try_get(4)?, row.try_get(5)?)?,
        })
    }
}

impl Digested {
    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        let version: i64 = row.try_get(10)?;
        let digest: &[u8] = row.try_get(11)?;
        Ok(Self {
            pepper_version: u32::try_from(version).map_err(|_| row::damaged("secrets", "pepper_version"))?,
            digest: digest.try_into().map_err(|_| row::damaged("secrets", "digest"))?,
            ends: row::expiry(row.try_get(12)?, "secrets", "ends_ms")?,
        })
    }
}
