//! Numbers that may be left to something else, which is then named: no null means "no limit".

use core::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tenant::{BUDGET_MAX, Concurrency, Limit, MemoryCap, WindowCap};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};

/// One kind of such a number: its name, its word, what it is in the store.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $word:ident, $text:literal, $of:ident, $none:ident, $some:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Serialize)]
        #[serde(untagged)]
        pub(crate) enum $name {
            Number(NonZeroU32),
            Word($word),
        }

        #[derive(Clone, Copy, Debug, Deserialize, Serialize)]
        pub(crate) enum $word {
            #[serde(rename = $text)]
            Word,
        }

        impl From<$name> for $of {
            fn from(asked: $name) -> Self {
                match asked {
                    $name::Number(number) => Self::$some(number),
                    $name::Word($word::Word) => Self::$none,
                }
            }
        }

        impl From<$of> for $name {
            fn from(held: $of) -> Self {
                match held {
                    $of::$some(number) => Self::Number(number),
                    $of::$none => Self::Word($word::Word),
                }
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                number_or($text, 1, u32::MAX.into())
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

word!(
    /// A limit, or `"open"`: none is set here.
    LimitValue, OpenWord, "open", Limit, Open, AtMost
);
word!(
    /// Tokens at most, or `"pool"`: as many as there are.
    CapValue, PoolWord, "pool", MemoryCap, Pool, Tokens
);
word!(
    /// Tokens at most, or `"inherit"`: what the server offers.
    WindowValue, WindowWord, "inherit", WindowCap, Inherit, Tokens
);
word!(
    /// Requests at once, or `"inherit"`: what the policy says.
    ConcurrencyValue, ConcurrencyWord, "inherit", Concurrency, Inherit, AtMost
);

/// The limit of a budget, in tokens or micro-units of money, or `"open"`: none is set.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum BudgetLimit {
    Number(u64),
    Word(OpenWord),
}

impl BudgetLimit {
    pub(crate) const OPEN: Self = Self::Word(OpenWord::Word);
}

impl utoipa::PartialSchema for BudgetLimit {
    fn schema() -> RefOr<Schema> {
        number_or("open", 0, BUDGET_MAX)
    }
}

impl utoipa::ToSchema for BudgetLimit {}

/// A number of this range, or this word.
fn number_or(word: &str, least: u64, most: u64) -> RefOr<Schema> {
    let number =
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(Some(most)).build();
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([word])).build();
    RefOr::T(OneOfBuilder::new().item(number).item(word).build().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_its_word_and_nothing_else() {
        let read = |text: &str| serde_json::from_str::<LimitValue>(text).map(Limit::from);
        assert_eq!(read("3").unwrap(), Limit::AtMost(NonZeroU32::new(3).unwrap()));
        assert_eq!(read("\"open\"").unwrap(), Limit::Open);
        for bad in ["0", "-1", "1.5", "4294967296", "null", "\"Open\"", "\"pool\"", "true", "{}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::to_string(&CapValue::from(MemoryCap::Pool)).unwrap(), "\"pool\"");
    }
}
