//! `bulkhead price`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tenant::{ModelName, Price, Prices};

use super::money::{micro_units, units};
use super::{now, open, refused};
use crate::cli::PriceCommand;
use crate::data::{DataDir, read_bounded};
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form};

/// A price list with as many models as may have a price is far shorter.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A price list as it is written. Amounts are text: a TOML float is not exact.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    models: BTreeMap<ModelName, WrittenPrice>,
}

/// Units of money for a million tokens of each kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrice {
    prompt: String,
    /// As `prompt` where it is not said.
    cached: Option<String>,
    completion: String,
}

pub(crate) async fn run_price(data: &DataDir, command: PriceCommand) -> Result<(), Failure> {
    match command {
        PriceCommand::Apply { file } => {
            let prices = read(&file)?;
            let store = open(data).await?;
            store.set_prices(&prices, now()).await.map_err(|error| refused("set the prices", &error))?;
            present::line(&format!("{} models have a price", prices.list().count()))
        }
        PriceCommand::List { json } => {
            let prices = open(data).await?.prices().await.doing(Exit::Store, "read the prices")?;
            match Form::of(json) {
                Form::Json => present::json(&prices.list().map(json_of).collect()),
                Form::Table => present::table(&COLUMNS, &prices.list().map(row_of).collect::<Vec<_>>()),
            }
        }
    }
}

fn read(file: &Path) -> Result<Prices, Failure> {
    let refused = |why: String| Failure::new(Exit::Config, format_args!("{}: {why}", file.display()));
    let bytes = read_bounded(file, FILE_BYTES_MAX).map_err(|error| refused(error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| refused(error.to_string()))?;
    let Written { models } = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
    let priced = models.into_iter().map(|(model, written)| {
        let price = price(&written).map_err(|why| refused(format!("{}: {why}", model.as_str())))?;
        Ok((model, price))
    });
    let priced = priced.collect::<Result<Vec<_>, Failure>>()?;
    Prices::new(priced).map_err(|error| refused(error.to_string()))
}

fn price(written: &WrittenPrice) -> Result<Price, String> {
    let cached = written.cached.as_ref().unwrap_or(&written.prompt);
    let price =
        Price::new(micro_units(&written.prompt)?, micro_units(cached)?, micro_units(&written.completion)?);
    price.map_err(|error| error.to_string())
}

const COLUMNS: [&str; 4] = ["MODEL", "PROMPT", "CACHED", "COMPLETION"];

fn row_of((model, price): (&ModelName, Price)) -> Vec<String> {
    let [prompt, cached, completion] = price.parts().map(units);
    vec![model.as_str().to_owned(), prompt, cached, completion]
}

/// In micro-units of money for a million tokens.
fn json_of((model, price): (&ModelName, Price)) -> Value {
    let [prompt, cached, completion] = price.parts();
    json!({ "model": model.as_str(), "prompt": prompt, "cached": cached, "completion": completion })
}
