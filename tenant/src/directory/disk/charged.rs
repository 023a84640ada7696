//! Budgets and prices in a copy: after all else, with a head of their own.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::{RecallError, count, put, take};
use crate::directory::charges::Charges;
use crate::ledger::{Budget, PRICED_MODELS_MAX};
use crate::store::{BUDGETS_MAX, BudgetEntry, budgets, limits, prices};

#[derive(Deserialize, Serialize)]
struct Head {
    budgets: u32,
    prices: u32,
}

#[derive(Deserialize, Serialize)]
struct StoredBudget {
    /// Level, subject, model, unit, period, kind.
    name: [String; 6],
    amount: i64,
    thresholds: String,
}

#[derive(Deserialize, Serialize)]
struct StoredPrice {
    model: String,
    /// Of prompt, cached and completion tokens.
    parts: [u64; 3],
}

impl Charges {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let head =
            Head { budgets: count(self.budgets().count()), prices: count(self.prices().list().count()) };
        put(out, &head)?;
        self.budgets().try_for_each(|budget| put(out, &StoredBudget::of(budget)))?;
        self.prices().list().try_for_each(|(model, price)| {
            put(out, &StoredPrice { model: model.as_str().to_owned(), parts: price.parts() })
        })
    }

    pub(super) fn read(input: &mut impl Read) -> Result<Self, RecallError> {
        let Head { budgets, prices } = take(input)?;
        if budgets > BUDGETS_MAX || usize::try_from(prices).map_or(true, |prices| prices > PRICED_MODELS_MAX)
        {
            return Err(RecallError::Damaged);
        }
        let budgets =
            (0..budgets).map(|_| take::<StoredBudget>(input)?.read()).collect::<Result<Vec<_>, _>>()?;
        let prices = (0..prices).map(|_| {
            let StoredPrice { model, parts } = take(input)?;
            let parts = parts.map(|part| i64::try_from(part).ok());
            Ok::<_, RecallError>(prices::entry(&model, parts)?)
        });
        let prices = prices.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::default().with(budgets, prices)?)
    }
}

impl StoredBudget {
    fn of(budget: &Budget) -> Self {
        let name = [
            budget.level.name().to_owned(),
            limits::subject(budget.level),
            limits::model(&budget.models).to_owned(),
            budget.unit.name().to_owned(),
            budget.period.name().to_owned(),
            budget.kind.name().to_owned(),
        ];
        let amount = i64::try_from(budget.limit).unwrap_or(i64::MAX);
        Self { name, amount, thresholds: budgets::stored(budget.thresholds) }
    }

    fn read(self) -> Result<BudgetEntry, RecallError> {
        Ok(budgets::entry(self.name.each_ref().map(String::as_str), Some(self.amount), &self.thresholds)?)
    }
}
