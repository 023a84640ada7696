//! What a service key may be used for. Each case that allows all is named; an empty list is none.

use core::net::IpAddr;
use core::num::NonZeroU32;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::level::ModelName;

/// Models, and address ranges, that one key may name.
pub const SCOPE_ENTRIES_MAX: usize = 64;

/// What a service key may be used for. The default allows all that the tenant may.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scopes {
    /// Models that it may name.
    #[serde(skip_serializing_if = "Allowed::is_all")]
    pub models: Allowed<ModelName>,
    /// Endpoints that it may call.
    #[serde(skip_serializing_if = "Allowed::is_all")]
    pub endpoints: Allowed<EndpointScope>,
    /// Addresses that it may be used from.
    #[serde(skip_serializing_if = "Allowed::is_all")]
    pub addresses: Allowed<IpNet>,
    /// Tokens of a prompt.
    #[serde(skip_serializing_if = "AtMost::is_inherit")]
    pub prompt_max: AtMost,
    /// Tokens of an answer.
    #[serde(skip_serializing_if = "AtMost::is_inherit")]
    pub output_max: AtMost,
}

/// What is allowed of a kind of thing.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowed<T> {
    /// All there are.
    #[default]
    All,
    /// These alone, at most [`SCOPE_ENTRIES_MAX`].
    Only(Vec<T>),
}

impl<T> Allowed<T> {
    const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    fn count(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Only(these) => these.len(),
        }
    }

    /// Whether one for which `is_it` holds is allowed.
    fn has(&self, is_it: impl FnMut(&T) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::Only(these) => these.iter().any(is_it),
        }
    }
}

/// A number of tokens at most.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtMost {
    /// What the model's window and the policy allow.
    #[default]
    Inherit,
    /// This many.
    Tokens(NonZeroU32),
}

impl AtMost {
    const fn is_inherit(&self) -> bool {
        matches!(self, Self::Inherit)
    }

    /// Tokens, where `inherited` is what is allowed besides.
    pub fn narrow(self, inherited: u32) -> u32 {
        match self {
            Self::Inherit => inherited,
            Self::Tokens(tokens) => inherited.min(tokens.get()),
        }
    }
}

/// The endpoints of the public listener, as scopes name them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointScope {
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/completions`
    Completions,
    /// `GET /v1/models`
    Models,
}

impl EndpointScope {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Completions, Self::Models];

    /// As it stands in a command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Models => "models",
        }
    }
}

/// A list of a key's scopes is too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a key may name at most {SCOPE_ENTRIES_MAX} {what}, not {asked}")]
pub struct TooManyEntries {
    /// Of which list.
    pub what: &'static str,
    /// How many.
    pub asked: usize,
}

impl Scopes {
    /// What allows nothing.
    pub(crate) fn nothing() -> Self {
        let models = Allowed::Only(vec![]);
        let (endpoints, addresses) = (Allowed::Only(vec![]), Allowed::Only(vec![]));
        Self { models, endpoints, addresses, ..Self::default() }
    }

    /// Whether the lists are within their bound.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), TooManyEntries> {
        let counts = [
            ("models", self.models.count()),
            ("endpoints", self.endpoints.count()),
            ("address ranges", self.addresses.count()),
        ];
        match counts.into_iter().find(|(_, asked)| *asked > SCOPE_ENTRIES_MAX) {
            Some((what, asked)) => Err(TooManyEntries { what, asked }),
            None => Ok(()),
        }
    }

    /// Whether the key may name this model.
    pub fn allows_model(&self, name: &str) -> bool {
        self.models.has(|allowed| allowed.as_str() == name)
    }

    /// Whether the key may call this endpoint.
    pub fn allows_endpoint(&self, endpoint: EndpointScope) -> bool {
        self.endpoints.has(|allowed| *allowed == endpoint)
    }

    /// Whether the key may be used from anywhere, also from an address that is not known.
    pub const fn allows_any_address(&self) -> bool {
        self.addresses.is_all()
    }

    /// Whether the key may be used from this address. An IPv4 address that is written as IPv6 counts as IPv4.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.addresses.has(|range| range.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scopes, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn the_default_allows_all_and_is_short() {
        let all = Scopes::default();
        assert_eq!(serde_json::to_string(&all).unwrap(), "{}");
        assert_eq!(read("{}").unwrap(), all);
        assert!(all.allows_model("x") && all.allows_endpoint(EndpointScope::Models));
        assert!(all.allows_address("::1".parse().unwrap()));
        assert_eq!(all.prompt_max.narrow(9), 9);
    }

    #[test]
    fn what_is_named_is_allowed_and_nothing_else() {
        let text = r#"{"models":{"only":["a"]},"endpoints":{"only":["models"]},"addresses":{"only":["10.0.0.0/8","2001:db8::/32"]},"prompt_max":{"tokens":4}}"#;
        let some = read(text).unwrap();
        assert_eq!(serde_json::to_string(&some).unwrap(), text);
        assert!(some.allows_model("a") && !some.allows_model("b") && !some.allows_model("A"));
        assert!(!some.allows_endpoint(EndpointScope::Completions));
        let allows = |address: &str| some.allows_address(address.parse().unwrap());
        assert!(allows("10.1.2.3") && allows("::ffff:10.1.2.3") && allows("2001:db8::9"));
        assert!(!allows("11.0.0.1") && !allows("::1") && !allows("::ffff:11.0.0.1"));
        assert_eq!(
            (some.prompt_max.narrow(9), some.prompt_max.narrow(3), some.output_max.narrow(5)),
            (4, 3, 5)
        );
    }

    #[test]
    fn an_empty_list_is_nothing_and_an_unknown_word_is_refused() {
        let none = read(r#"{"models":{"only":[]}}"#).unwrap();
        assert!(!none.allows_model("a"));
        for bad in [
            r#"{"modles":{"only":[]}}"#,
            r#"{"endpoints":{"only":["x"]}}"#,
            r#"{"prompt_max":{"tokens":0}}"#,
            r#"{"models":{"only":["a b"]}}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_list_has_a_bound() {
        let of = |count| Scopes {
            endpoints: Allowed::Only(vec![EndpointScope::Models; count]),
            ..Scopes::default()
        };
        assert!(of(SCOPE_ENTRIES_MAX).check().is_ok());
        let refused = of(SCOPE_ENTRIES_MAX + 1).check().unwrap_err();
        assert_eq!(refused.to_string(), "a key may name at most 64 endpoints, not 65");
    }
}
