//! `/v1/prices`: what the tokens of each model cost.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenant::{BadPrices, ModelName, PRICE_MAX, PRICED_MODELS_MAX, Price, PriceTooHigh, Prices};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::asked::{Body, Expected};
use crate::asker::Asker;
use crate::document::{Changing, Matching, Reading};
use crate::house::{Shared, now};
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

/// Bytes of a price list as it is asked: 512 for each of the most models, with names of the most characters.
pub const PRICES_BYTES_MAX: usize = 512 * PRICED_MODELS_MAX;

/// The price list. A model that is not in it has no price, and what it costs is not counted.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceList {
    /// Each model once. A list that is answered is in the order of names.
    #[schema(max_items = 1024)]
    data: Vec<ModelPrice>,
}

/// What a million tokens of a model cost, in micro-units of money.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ModelPrice {
    /// The model's name.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    model: String,
    /// Of a prompt.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_u64)]
    prompt: u64,
    /// Of a prompt, those whose keys and values came from a prefix cache.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_u64)]
    cached: u64,
    /// Of a completion.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_u64)]
    completion: u64,
}

// The document says the same.
const _: () = assert!(PRICED_MODELS_MAX == 1_024 && PRICE_MAX == 1_000_000_000_000);

/// The price list.
#[utoipa::path(get, path = "/v1/prices", operation_id = "get_prices", tag = "prices",
    responses((status = 200, description = "As it is", body = PriceList, headers(("etag" = String))), Reading))]
pub(crate) async fn get(State(house): State<Shared>, asker: Asker) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    shown(&house.store.prices().await?)
}

/// Set the price list, in place of the one that there is.
#[utoipa::path(put, path = "/v1/prices", operation_id = "set_prices", tag = "prices", params(Matching),
    request_body = PriceList,
    responses((status = 200, description = "As it is now", body = PriceList, headers(("etag" = String))), Changing))]
pub(crate) async fn set(
    State(house): State<Shared>,
    asker: Asker,
    Expected(expect): Expected,
    Body { asked, .. }: Body<PriceList>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::ChangePrices)?;
    let models = u64::try_from(asked.data.len()).unwrap_or(u64::MAX);
    let priced = asked.data.iter().map(priced).collect::<Result<Vec<_>, _>>()?;
    let prices = Prices::new(priced).map_err(|error| refused(&error, models))?;
    house.store_of(&asker).change_prices(&prices, expect, now()).await?;
    shown(&prices)
}

fn priced(asked: &ModelPrice) -> Result<(ModelName, Price), Problem> {
    let model = ModelName::new(&asked.model).ok_or_else(|| {
        let why = "a `model` is no name of a model: 1 to 128 printable characters without space";
        Problem::new(Kind::Invalid, why)
    })?;
    let price = Price::new(asked.prompt, asked.cached, asked.completion);
    let price = price.map_err(|error @ PriceTooHigh { asked }| {
        Problem::new(Kind::Invalid, error.to_string()).numbers(asked, PRICE_MAX)
    })?;
    Ok((model, price))
}

fn refused(error: &BadPrices, models: u64) -> Problem {
    let problem = Problem::new(Kind::Invalid, error.to_string());
    match error {
        BadPrices::TooMany => problem.numbers(models, u64::try_from(PRICED_MODELS_MAX).unwrap_or(u64::MAX)),
        BadPrices::Twice(_) => problem,
    }
}

fn shown(prices: &Prices) -> Result<Answer, Problem> {
    let one = |(model, price): (&ModelName, Price)| {
        let [prompt, cached, completion] = price.parts();
        ModelPrice { model: model.as_str().to_owned(), prompt, cached, completion }
    };
    Ok(Answer::ok(&PriceList { data: prices.list().map(one).collect() })?.version(prices.version()))
}
