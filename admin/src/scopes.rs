//! What a service key may be used for, as it is asked and shown: what is left out is not limited.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tenant::{Allowed, AtMost, EndpointScope, ModelName, Scopes};
use utoipa::ToSchema;

use crate::asked::given_object;
use crate::problem::{Kind, Problem};

/// What a service key may be used for. What is left out is not limited.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Scopes)]
pub(crate) struct ScopesView {
    /// Models that it may name.
    #[serde(default, deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    models: Option<OnlyModels>,
    /// Endpoints that it may call.
    #[serde(default, deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    endpoints: Option<OnlyEndpoints>,
    /// Addresses that it may be used from.
    #[serde(default, deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    addresses: Option<OnlyAddresses>,
    /// Tokens of a prompt.
    #[serde(default, deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    prompt_max: Option<Tokens>,
    /// Tokens of an answer.
    #[serde(default, deserialize_with = "given_object", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    output_max: Option<Tokens>,
}

/// These models alone.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OnlyModels {
    #[schema(max_items = 64)]
    only: Vec<String>,
}

/// These endpoints alone.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OnlyEndpoints {
    #[schema(max_items = 64)]
    only: Vec<Endpoint>,
}

/// An endpoint of the public listener.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Endpoint {
    ChatCompletions,
    Completions,
    Models,
}

/// These addresses alone, as `10.0.0.0/8` or `2001:db8::/32`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct OnlyAddresses {
    #[schema(max_items = 64)]
    only: Vec<String>,
}

/// A number of tokens at most.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Tokens {
    #[schema(value_type = u32, minimum = 1, maximum = 4294967295_u64)]
    tokens: core::num::NonZeroU32,
}

impl ScopesView {
    pub(crate) fn read(self) -> Result<Scopes, Problem> {
        let invalid =
            |what: &str| Problem::new(Kind::Invalid, format!("the scopes name {what} that is none"));
        let models = |these: OnlyModels| {
            let named = these.only.iter().map(|name| ModelName::new(name).ok_or_else(|| invalid("a model")));
            named.collect::<Result<Vec<_>, _>>().map(Allowed::Only)
        };
        let addresses = |these: OnlyAddresses| {
            let named = these
                .only
                .iter()
                .map(|range| range.parse::<IpNet>().map_err(|_| invalid("a range of addresses")));
            named.collect::<Result<Vec<_>, _>>().map(Allowed::Only)
        };
        let endpoints =
            |these: OnlyEndpoints| Allowed::Only(these.only.into_iter().map(EndpointScope::from).collect());
        let at_most = |tokens: Option<Tokens>| {
            tokens.map_or(AtMost::Inherit, |Tokens { tokens }| AtMost::Tokens(tokens))
        };
        Ok(Scopes {
            models: self.models.map_or(Ok(Allowed::All), models)?,
            endpoints: self.endpoints.map_or(Allowed::All, endpoints),
            addresses: self.addresses.map_or(Ok(Allowed::All), addresses)?,
            prompt_max: at_most(self.prompt_max),
            output_max: at_most(self.output_max),
        })
    }

    pub(crate) fn of(scopes: &Scopes) -> Self {
        fn only<F, T>(allowed: &Allowed<F>, view: impl Fn(&F) -> T) -> Option<Vec<T>> {
            match allowed {
                Allowed::All => None,
                Allowed::Only(these) => Some(these.iter().map(view).collect()),
            }
        }
        let at_most = |most: AtMost| match most {
            AtMost::Inherit => None,
            AtMost::Tokens(tokens) => Some(Tokens { tokens }),
        };
        Self {
            models: only(&scopes.models, |model| model.as_str().to_owned()).map(|only| OnlyModels { only }),
            endpoints: only(&scopes.endpoints, |one| (*one).into()).map(|only| OnlyEndpoints { only }),
            addresses: only(&scopes.addresses, ToString::to_string).map(|only| OnlyAddresses { only }),
            prompt_max: at_most(scopes.prompt_max),
            output_max: at_most(scopes.output_max),
        }
    }
}

impl From<Endpoint> for EndpointScope {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::ChatCompletions => Self::ChatCompletions,
            Endpoint::Completions => Self::Completions,
            Endpoint::Models => Self::Models,
        }
    }
}

impl From<EndpointScope> for Endpoint {
    fn from(scope: EndpointScope) -> Self {
        match scope {
            EndpointScope::ChatCompletions => Self::ChatCompletions,
            EndpointScope::Completions => Self::Completions,
            EndpointScope::Models => Self::Models,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_shown_as_they_were_asked() {
        let text = r#"{"models":{"only":["a"]},"endpoints":{"only":["models"]},"addresses":{"only":["10.0.0.0/8"]},"prompt_max":{"tokens":4}}"#;
        let read: ScopesView = serde_json::from_str(text).unwrap();
        let scopes = read.read().unwrap();
        assert_eq!(serde_json::to_string(&ScopesView::of(&scopes)).unwrap(), text);
        assert_eq!(serde_json::to_string(&scopes).unwrap(), text, "as the command line shows them");
        assert_eq!(serde_json::from_str::<ScopesView>("{}").unwrap().read().unwrap(), Scopes::default());
        for bad in [r#"{"models":{"only":["a b"]}}"#, r#"{"addresses":{"only":["10.0.0.0/33"]}}"#] {
            assert!(serde_json::from_str::<ScopesView>(bad).unwrap().read().is_err(), "{bad}");
        }
    }
}
