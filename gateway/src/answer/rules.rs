//! What rules of a key, a tenant or a model refuse, with their numbers, and how that is said.

use tenant::EndpointScope;

/// What a key that works may not do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Forbidden {
    /// Anything: its tenant is suspended.
    Suspended,
    /// Call this endpoint.
    Endpoint(EndpointScope),
    /// Ask this model.
    Model,
    /// Be used from the caller's address.
    Address,
}

/// A length that the key's own scope cuts off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct OverCap {
    /// Of what.
    pub(crate) of: CapOf,
    /// Tokens asked.
    pub(crate) asked: u32,
    /// Tokens allowed.
    pub(crate) allowed: u32,
    /// The field that is to blame.
    pub(crate) param: &'static str,
}

/// What a key's scope bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CapOf {
    /// Each prompt.
    Prompt,
    /// Each answer.
    Output,
}

/// The numbers of a request that does not fit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TooLong {
    /// Tokens that the caller's request may span.
    pub(crate) window: u32,
    /// Tokens of the prompt, as far as they were counted.
    pub(crate) prompt: Count,
    /// Output tokens asked for.
    pub(crate) output: u32,
    /// The field that is to blame.
    pub(crate) param: &'static str,
}

/// How many there are: tokens of a prompt, bytes of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Count {
    /// Just so many.
    Exactly(usize),
    /// Counting stopped here.
    AtLeast(usize),
}

impl Forbidden {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Suspended => "tenant.suspended",
            Self::Endpoint(_) => "key.endpoints",
            Self::Model => "key.models",
            Self::Address => "key.addresses",
        }
    }

    pub(super) fn message(self) -> String {
        match self {
            Self::Suspended => "The account of this API key is suspended. Ask whoever runs this service.".into(),
            Self::Endpoint(endpoint) => format!(
                "This API key may not call this address: '{}' is not among its endpoints. Use another key, or ask for one that may.",
                endpoint.name()
            ),
            Self::Model => {
                "This API key may not use this model; GET /v1/models lists those it may use.".into()
            }
            Self::Address => {
                "This API key may not be used from your address. Use it from where it is meant to be used, or ask for a key without this limit.".into()
            }
        }
    }
}

impl OverCap {
    pub(super) const fn reason(self) -> &'static str {
        match self.of {
            CapOf::Prompt => "key.prompt_max",
            CapOf::Output => "key.output_max",
        }
    }

    pub(super) fn message(self) -> String {
        let Self { of, asked, allowed, .. } = self;
        match of {
            CapOf::Prompt => format!(
                "This API key may send prompts of at most {allowed} tokens, and this one has {asked}. Shorten it, or use another key."
            ),
            CapOf::Output => format!(
                "This API key may have answers of at most {allowed} tokens, and {asked} were asked for. Ask for fewer, or use another key."
            ),
        }
    }
}

impl TooLong {
    pub(super) fn message(&self) -> String {
        let Self { window, output, .. } = self;
        let (prompt, sum) = match self.prompt {
            Count::Exactly(prompt) => {
                let sum = u64::try_from(prompt).unwrap_or(u64::MAX).saturating_add((*output).into());
                (format!("{prompt}"), format!("{sum}"))
            }
            Count::AtLeast(prompt) => {
                let sum = u64::try_from(prompt).unwrap_or(u64::MAX).saturating_add((*output).into());
                (format!("at least {prompt}"), format!("at least {sum}"))
            }
        };
        format!(
            "This model's maximum context length is {window} tokens. However, you requested {sum} tokens ({prompt} in the prompt, {output} for the output). Shorten the prompt or ask for fewer output tokens."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Denied;

    #[test]
    fn too_long_says_what_was_asked_and_what_is_allowed() {
        let denied = Denied::TooLong(TooLong {
            window: 1024,
            prompt: Count::Exactly(1000),
            output: 30,
            param: "messages",
        });
        let body: serde_json::Value = serde_json::from_slice(&denied.json()).unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        for number in ["1024", "1030", "1000", "30"] {
            assert!(message.contains(number), "{message}");
        }
        assert_eq!(body["error"]["code"], "context_length_exceeded");
        assert_eq!(body["error"]["param"], "messages");
    }
}
