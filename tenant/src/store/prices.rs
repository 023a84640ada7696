//! What the tokens of each model cost.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::error::StoreError;
use crate::ledger::{Price, Prices};
use crate::level::ModelName;
use crate::store::events::{Action, Told};
use crate::store::{Expect, Store, row};
use crate::time::UnixMillis;

/// What [`read`] reads.
macro_rules! select {
    ($which:literal) => {
        concat!("SELECT model, prompt, cached, completion FROM prices ", $which)
    };
}
pub(super) use select;

/// A model's price; none where it has none any more.
pub(crate) type PriceEntry = (ModelName, Option<Price>);

impl Store {
    /// Sets the price list, in place of the one that there is: a model that is not in it has no price. Requests that are under
    /// way are charged by the price that they began with.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn set_prices(&self, prices: &Prices, now: UnixMillis) -> Result<(), StoreError> {
        self.change_prices(prices, Expect::Any, now).await
    }

    /// The same, if the list looks as is expected. A list that there is already is no change, and has no event.
    ///
    /// # Errors
    /// [`StoreError::Stale`]; as the database reports.
    pub async fn change_prices(
        &self,
        prices: &Prices,
        expect: Expect,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let mut change = self.change().await?;
        let before = held(change.on()).await?;
        expect.check(before.version())?;
        if before.version() == prices.version() {
            return Ok(());
        }
        let revision = change.revision();
        sqlx::query(
            "UPDATE prices SET prompt = NULL, cached = NULL, completion = NULL, revision = $1 WHERE prompt IS NOT NULL",
        )
        .bind(revision)
        .execute(change.on())
        .await?;
        for (model, price) in prices.list() {
            // Bounded by `PRICE_MAX`, far below what an `i64` holds.
            let [prompt, cached, completion] =
                price.parts().map(|part| i64::try_from(part).unwrap_or(i64::MAX));
            sqlx::query(
                "INSERT INTO prices (model, prompt, cached, completion, revision) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (model) DO UPDATE SET prompt = excluded.prompt, cached = excluded.cached,
                    completion = excluded.completion, revision = excluded.revision",
            )
            .bind(model.as_str().to_owned())
            .bind(prompt)
            .bind(cached)
            .bind(completion)
            .bind(revision)
            .execute(change.on())
            .await?;
        }
        let told = Told {
            action: Action::PriceChange,
            subject: "prices".to_owned(),
            tenant: None,
            before: Some(before.public()),
            after: Some(prices.public()),
        };
        self.tell(&mut change, now, told).await?;
        change.commit().await
    }

    /// The price list.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn prices(&self) -> Result<Prices, StoreError> {
        held(&mut *self.pool.acquire().await?).await
    }
}

async fn held(on: &mut AnyConnection) -> Result<Prices, StoreError> {
    let rows = sqlx::query(select!("WHERE prompt IS NOT NULL")).fetch_all(on).await?;
    let entries = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let priced = entries.into_iter().filter_map(|(model, price)| Some((model, price?)));
    Prices::new(priced).map_err(|_| row::damaged("prices", "model"))
}

pub(super) fn read(row: &AnyRow) -> Result<PriceEntry, StoreError> {
    entry(row.try_get(0)?, [row.try_get(1)?, row.try_get(2)?, row.try_get(3)?])
}

/// A price from what is stored of it: for prompt, cached and completion tokens.
pub(crate) fn entry(model: &str, parts: [Option<i64>; 3]) -> Result<PriceEntry, StoreError> {
    let model = ModelName::new(model).ok_or_else(|| row::damaged("prices", "model"))?;
    let [Some(prompt), Some(cached), Some(completion)] = parts else { return Ok((model, None)) };
    let part = |stored: i64| u64::try_from(stored).map_err(|_| row::damaged("prices", "prompt"));
    let price = Price::new(part(prompt)?, part(cached)?, part(completion)?);
    Ok((model, Some(price.map_err(|_| row::damaged("prices", "prompt"))?)))
}
