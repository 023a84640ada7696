//! What rules of a key, a tenant or a model refuse, with their numbers, and how that is said.

use tenant::{EndpointScope, Level, NoRoom, Quota, Refusal};

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

/// 400 where the request itself is too long, whenever it comes; 429 where it comes too soon.
pub(super) fn limit_status(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::Over(over) => match over.quota {
            Quota::PromptTokens | Quota::OutputTokens => 400,
            Quota::RequestsPerMinute | Quota::TokensPerMinute | Quota::AtOnce => 429,
        },
        Refusal::NoRoom(NoRoom::Tenants { .. }) | Refusal::Ahead(_) => 503,
        Refusal::NoRoom(NoRoom::Counters { .. } | NoRoom::InFlight { .. }) => 429,
    }
}

pub(super) fn limit_code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Over(over) => match over.quota {
            Quota::PromptTokens => "prompt_limit_exceeded",
            Quota::OutputTokens => "output_limit_exceeded",
            Quota::RequestsPerMinute | Quota::TokensPerMinute | Quota::AtOnce => "rate_limit_exceeded",
        },
        Refusal::NoRoom(_) => "rate_limit_exceeded",
        Refusal::Ahead(_) => "limits_unavailable",
    }
}

/// The level and the limit, in the words of `bulkhead limit`.
pub(super) fn limit_reason(refusal: &Refusal) -> &'static str {
    let over = match refusal {
        Refusal::Over(over) => over,
        Refusal::NoRoom(_) => return "gateway.counters",
        Refusal::Ahead(_) => return "gateway.shared_limits",
    };
    match (over.scope.level, over.quota) {
        (Level::Key(_), Quota::RequestsPerMinute) => "key.requests_per_minute",
        (Level::Key(_), Quota::TokensPerMinute) => "key.tokens_per_minute",
        (Level::Key(_), Quota::AtOnce) => "key.at_once",
        (Level::Key(_), Quota::PromptTokens) => "key.prompt_tokens",
        (Level::Key(_), Quota::OutputTokens) => "key.output_tokens",
        (Level::Project(_), Quota::RequestsPerMinute) => "project.requests_per_minute",
        (Level::Project(_), Quota::TokensPerMinute) => "project.tokens_per_minute",
        (Level::Project(_), Quota::AtOnce) => "project.at_once",
        (Level::Project(_), Quota::PromptTokens) => "project.prompt_tokens",
        (Level::Project(_), Quota::OutputTokens) => "project.output_tokens",
        (Level::Tenant(_), Quota::RequestsPerMinute) => "tenant.requests_per_minute",
        (Level::Tenant(_), Quota::TokensPerMinute) => "tenant.tokens_per_minute",
        (Level::Tenant(_), Quota::AtOnce) => "tenant.at_once",
        (Level::Tenant(_), Quota::PromptTokens) => "tenant.prompt_tokens",
        (Level::Tenant(_), Quota::OutputTokens) => "tenant.output_tokens",
    }
}

/// As `OpenAI` begins it, and then the limit's own words: which, of whom, asked, left, and when it clears.
pub(super) fn limit_message(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Over(_) | Refusal::NoRoom(_) => format!("Rate limit reached: {refusal}."),
        Refusal::Ahead(ahead) => format!("Limits cannot be counted now: {ahead}. Try again in a moment."),
    }
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
