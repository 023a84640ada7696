//! What a request may use at most, what it used, and what that costs.
//!
//! Money is in micro-units: millionths of whatever unit the operator's prices are in. A cost is rounded once:
//! the exact sum over a request's tokens, in millionths of a micro-unit, is rounded up to a whole micro-unit.

use std::collections::BTreeMap;

use crate::fault::{Fault, seeded};
use crate::level::ModelName;

/// Tokens of a prompt, and of a completion, that a request may have.
pub const REQUEST_TOKENS_MAX: u64 = 1 << 32;
/// Micro-units of money that a million tokens may cost: a million whole units.
pub const PRICE_MAX: u64 = 1_000_000_000_000;
/// Models that may have a price.
pub const PRICED_MODELS_MAX: usize = 1_024;

/// A price is for so many tokens.
const PRICED_TOKENS: u128 = 1_000_000;

// The dearest request there may be costs less than 2^64 micro-units, so that a cost is never cut.
const _: () = assert!(2 * REQUEST_TOKENS_MAX < u64::MAX / (PRICE_MAX / 1_000_000));

/// The most that a request may use; it is reserved before anything is computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WorstCase {
    prompt: u64,
    completion: u64,
}

/// A request is longer than any may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a request of more than {REQUEST_TOKENS_MAX} prompt or completion tokens cannot be charged")]
pub struct TooManyTokens;

impl WorstCase {
    /// `prompt` tokens, once, and `choices` completions of `max_tokens` each.
    ///
    /// # Errors
    /// [`TooManyTokens`] when either is above [`REQUEST_TOKENS_MAX`].
    pub fn new(prompt: u64, max_tokens: u64, choices: u64) -> Result<Self, TooManyTokens> {
        let completion = max_tokens.checked_mul(choices).ok_or(TooManyTokens)?;
        if prompt > REQUEST_TOKENS_MAX || completion > REQUEST_TOKENS_MAX {
            return Err(TooManyTokens);
        }
        Ok(Self { prompt, completion })
    }

    /// Tokens of the prompt.
    pub const fn prompt(self) -> u64 {
        self.prompt
    }

    /// Tokens of all completions.
    pub const fn completion(self) -> u64 {
        self.completion
    }

    /// Tokens in all.
    pub const fn tokens(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

/// Tokens that a request used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Used {
    /// Of the prompt, cached ones included.
    pub prompt: u64,
    /// Of the prompt, those whose keys and values came from a prefix cache.
    pub cached: u64,
    /// Of all completions.
    pub completion: u64,
}

impl Used {
    /// Nothing.
    pub const NONE: Self = Self { prompt: 0, cached: 0, completion: 0 };

    /// Tokens in all; a cached one counts as any other.
    pub const fn tokens(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// As much of it as `worst` has room for.
    #[must_use]
    pub fn within(self, worst: WorstCase) -> Self {
        if seeded(Fault::Unclamped) {
            return self;
        }
        let prompt = self.prompt.min(worst.prompt);
        Self { prompt, cached: self.cached.min(prompt), completion: self.completion.min(worst.completion) }
    }

    /// The larger of each number.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        Self {
            prompt: self.prompt.max(other.prompt),
            cached: self.cached.max(other.cached),
            completion: self.completion.max(other.completion),
        }
    }
}

/// What a model's tokens cost: micro-units of money for a million of each kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Price {
    prompt: u64,
    cached: u64,
    completion: u64,
}

/// A price is above what any may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a price of {asked} micro-units for a million tokens is above the most that is allowed, {PRICE_MAX}")]
pub struct PriceTooHigh {
    /// Micro-units for a million tokens.
    pub asked: u64,
}

impl Price {
    /// A million tokens of a prompt, of a prompt's cached part, and of a completion cost so many micro-units.
    ///
    /// # Errors
    /// [`PriceTooHigh`] when one is above [`PRICE_MAX`].
    pub fn new(prompt: u64, cached: u64, completion: u64) -> Result<Self, PriceTooHigh> {
        match [prompt, cached, completion].into_iter().find(|price| *price > PRICE_MAX) {
            Some(asked) => Err(PriceTooHigh { asked }),
            None => Ok(Self { prompt, cached, completion }),
        }
    }

    /// For prompt, cached and completion tokens, in this order.
    pub const fn parts(self) -> [u64; 3] {
        [self.prompt, self.cached, self.completion]
    }

    /// What `used` costs, in micro-units, rounded up once.
    pub fn cost(self, used: Used) -> u64 {
        let cached = used.cached.min(used.prompt);
        round_up([
            (used.prompt.saturating_sub(cached), self.prompt),
            (cached, self.cached),
            (used.completion, self.completion),
        ])
    }

    /// The most that a request within `worst` may cost: each token of its prompt at the dearer of the two
    /// prices. Never less than [`Price::cost`] of what is within `worst`: no number in that sum is larger
    /// than its counterpart here, and rounding up keeps the order.
    pub fn worst_cost(self, worst: WorstCase) -> u64 {
        let prompt = if seeded(Fault::CachedCheap) { self.prompt } else { self.prompt.max(self.cached) };
        round_up([(worst.prompt, prompt), (worst.completion, self.completion), (0, 0)])
    }
}

fn round_up(parts: [(u64, u64); 3]) -> u64 {
    let exact = parts
        .into_iter()
        .map(|(tokens, price)| u128::from(tokens).saturating_mul(u128::from(price)))
        .fold(0, u128::saturating_add);
    u64::try_from(exact.div_ceil(PRICED_TOKENS)).unwrap_or(u64::MAX)
}

/// Whether a model's tokens have a price.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pricing {
    /// They cost so much.
    Priced(Price),
    /// Nobody has said. A money budget refuses; a token budget does not mind.
    Unpriced,
}

/// The price of each model.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Prices(BTreeMap<ModelName, Price>);

/// A price list cannot be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadPrices {
    /// More models than may have a price.
    #[error("more than {PRICED_MODELS_MAX} models have a price")]
    TooMany,
    /// A model has two.
    #[error("the model {} has two prices", .0.as_str())]
    Twice(ModelName),
}

impl Prices {
    /// A list of what each model costs.
    ///
    /// # Errors
    /// [`BadPrices`].
    pub fn new(list: impl IntoIterator<Item = (ModelName, Price)>) -> Result<Self, BadPrices> {
        let mut prices = BTreeMap::new();
        for (model, price) in list {
            if prices.len() >= PRICED_MODELS_MAX {
                return Err(BadPrices::TooMany);
            }
            if prices.insert(model.clone(), price).is_some() {
                return Err(BadPrices::Twice(model));
            }
        }
        Ok(Self(prices))
    }

    /// Each model and its price, by name.
    pub fn list(&self) -> impl Iterator<Item = (&ModelName, Price)> {
        self.0.iter().map(|(model, price)| (model, *price))
    }

    /// What `model` costs.
    pub fn of(&self, model: &ModelName) -> Pricing {
        self.0.get(model).map_or(Pricing::Unpriced, |price| Pricing::Priced(*price))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cost_is_exact_and_rounded_up_once() {
        let price = Price::new(3_000_000, 300_000, 15_000_000).unwrap();
        let used = Used { prompt: 1_000, cached: 400, completion: 7 };
        assert_eq!(price.cost(used), 600 * 3 + 120 + 105);
        let cheap = Price::new(1, 1, 1).unwrap();
        assert_eq!(cheap.cost(Used { prompt: 2, cached: 1, completion: 1 }), 1, "once, not thrice");
        assert_eq!(cheap.cost(Used { prompt: 1_000_000, cached: 0, completion: 1 }), 2);
        assert_eq!(cheap.cost(Used::NONE), 0);
        let dear = Price::new(PRICE_MAX, PRICE_MAX, PRICE_MAX).unwrap();
        let most = WorstCase::new(REQUEST_TOKENS_MAX, REQUEST_TOKENS_MAX, 1).unwrap();
        assert_eq!(dear.worst_cost(most), (1 << 33) * 1_000_000, "not cut");
    }

    #[test]
    fn bounds_are_refused_by_name() {
        assert_eq!(Price::new(0, PRICE_MAX + 1, 0), Err(PriceTooHigh { asked: PRICE_MAX + 1 }));
        assert_eq!(WorstCase::new(REQUEST_TOKENS_MAX + 1, 0, 0), Err(TooManyTokens));
        assert_eq!(WorstCase::new(0, REQUEST_TOKENS_MAX, 2), Err(TooManyTokens));
        assert_eq!(WorstCase::new(0, u64::MAX, u64::MAX), Err(TooManyTokens));
        assert_eq!(WorstCase::new(1, 10, 3).unwrap().tokens(), 31);
        let price = Price::new(1, 1, 1).unwrap();
        let name = |i: usize| ModelName::new(&format!("m{i}")).unwrap();
        assert_eq!(Prices::new([(name(0), price), (name(0), price)]), Err(BadPrices::Twice(name(0))));
        let full = Prices::new((0..PRICED_MODELS_MAX).map(|i| (name(i), price))).unwrap();
        assert_eq!(full.of(&name(3)), Pricing::Priced(price));
        assert_eq!(full.of(&name(PRICED_MODELS_MAX)), Pricing::Unpriced);
        assert_eq!(Prices::new((0..=PRICED_MODELS_MAX).map(|i| (name(i), price))), Err(BadPrices::TooMany));
    }

    proptest! {
        #[test]
        fn a_worst_case_costs_at_least_what_is_used(
            prices in prop::array::uniform3(0..=PRICE_MAX),
            worst in prop::array::uniform2(0..=REQUEST_TOKENS_MAX),
            used in prop::array::uniform3(0..=REQUEST_TOKENS_MAX),
        ) {
            let price = Price::new(prices[0], prices[1], prices[2]).unwrap();
            let worst = WorstCase::new(worst[0], worst[1], 1).unwrap();
            let used = Used { prompt: used[0], cached: used[1], completion: used[2] }.within(worst);
            prop_assert!(used.tokens() <= worst.tokens());
            prop_assert!(price.cost(used) <= price.worst_cost(worst));
        }
    }
}
