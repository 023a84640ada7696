//! The one place where an end becomes a status line, a code and a message.

mod budgets;
mod rules;

use std::borrow::Cow;

use isolation::outcome::Failure;
use wire::Refusal;

use crate::openai::{BadRequest, ErrorBody, error_event, error_json};

pub(crate) use budgets::BudgetDenied;
pub(crate) use rules::{CapOf, Count, Forbidden, OverCap, TooLong};

/// Why a request got no answer, or no whole one. Each variant has its status here and nowhere else.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Denied {
    /// The key is unknown, malformed, expired or revoked; which, is not said.
    NotAuthenticated,
    /// The key does not work, and neither did many others from this address.
    TooManyFailures(tenant::TooManyFailures),
    /// The key was revoked, or its tenant suspended, while the request ran.
    Revoked,
    /// The key works, and may not do this.
    Forbidden(Forbidden),
    /// The key may not send so long a prompt, or have so long an answer.
    OverCap(OverCap),
    /// No such address.
    NoSuchPath,
    /// The address takes another method.
    Method {
        /// Which.
        allow: &'static str,
    },
    /// No such model.
    NoSuchModel,
    /// The body is wrong.
    Bad(BadRequest),
    /// The body is said to be something else than JSON.
    NotJson,
    /// The body could not be read as HTTP frames it.
    BrokenBody,
    /// The body is too large.
    BodyTooLarge {
        /// What was announced, or had come when reading stopped.
        bytes: Count,
        /// The most allowed.
        bytes_max: usize,
    },
    /// The body did not come in time.
    TooSlow {
        /// The longest it may take.
        limit_ms: u128,
    },
    /// The prompt and the output do not fit.
    TooLong(TooLong),
    /// A token id of the prompt or of `logit_bias` is not in the vocabulary.
    NoSuchToken {
        /// The id.
        id: u32,
        /// Ids are below this.
        vocab: usize,
        /// The field.
        param: &'static str,
    },
    /// The prompt has no token.
    EmptyPrompt {
        /// The field.
        param: &'static str,
    },
    /// The model has no chat template, or its template refused the messages.
    NoChat {
        /// Why.
        why: &'static str,
    },
    /// Too many requests of this key are under way.
    Concurrency {
        /// The most there may be.
        limit: usize,
    },
    /// A limit of the key, its project or its tenant is reached.
    Limit(tenant::Refusal),
    /// A budget of the key, its project or its tenant does not hold it.
    Budget(BudgetDenied),
    /// Too much is under way.
    Overloaded,
    /// What is known of keys is older than the policy allows.
    KeysStale,
    /// No engine is connected.
    NoEngine,
    /// This gateway is shutting down.
    Draining,
    /// The audit log takes no record.
    NoAudit,
    /// It began, and failed.
    Failed(Failure),
    /// What must not happen did.
    Internal,
}

impl Denied {
    /// The status line's number.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::NotAuthenticated | Self::Revoked => 401,
            Self::Forbidden(_) => 403,
            Self::NoSuchPath | Self::NoSuchModel => 404,
            Self::Method { .. } => 405,
            Self::TooSlow { .. } => 408,
            Self::BodyTooLarge { .. } => 413,
            Self::NotJson => 415,
            Self::Bad(_)
            | Self::BrokenBody
            | Self::TooLong(_)
            | Self::OverCap(_)
            | Self::NoSuchToken { .. }
            | Self::EmptyPrompt { .. }
            | Self::NoChat { .. } => 400,
            Self::Limit(refusal) => rules::limit_status(refusal),
            Self::Budget(budget) => budget.status(),
            Self::Concurrency { .. } | Self::TooManyFailures(_) => 429,
            Self::Failed(failure) => failed_status(failure),
            Self::Internal => 500,
            Self::Overloaded | Self::KeysStale | Self::NoEngine | Self::Draining | Self::NoAudit => 503,
        }
    }

    /// Seconds after which another try may do; none where it would not.
    pub(crate) fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::Limit(refusal) => match refusal.retry() {
                tenant::Retry::After { seconds, .. } => Some(seconds),
                tenant::Retry::Useless => None,
            },
            Self::TooManyFailures(failures) => Some(failures.clears.as_secs().saturating_add(1)),
            Self::Budget(budget) => budget.may_pass_soon().then_some(1),
            Self::Concurrency { .. }
            | Self::Overloaded
            | Self::KeysStale
            | Self::NoEngine
            | Self::NoAudit
            | Self::Draining
            | Self::Failed(Failure::ShuttingDown | Failure::NoCapacity) => Some(1),
            Self::NotAuthenticated
            | Self::Revoked
            | Self::Forbidden(_)
            | Self::OverCap(_)
            | Self::NoSuchPath
            | Self::NoSuchModel
            | Self::Method { .. }
            | Self::TooSlow { .. }
            | Self::BodyTooLarge { .. }
            | Self::NotJson
            | Self::Bad(_)
            | Self::BrokenBody
            | Self::TooLong(_)
            | Self::NoSuchToken { .. }
            | Self::EmptyPrompt { .. }
            | Self::NoChat { .. }
            | Self::Failed(_)
            | Self::Internal => None,
        }
    }

    /// The body: `{"error":{...}}`.
    pub(crate) fn json(&self) -> Vec<u8> {
        self.said(error_json)
    }

    /// The event that ends a stream which had begun.
    pub(crate) fn event(&self) -> Vec<u8> {
        self.said(error_event)
    }

    fn said(&self, write: fn(&ErrorBody<'_>) -> Vec<u8>) -> Vec<u8> {
        if let Self::Bad(bad) = self {
            return write(&bad.body());
        }
        let message = self.message();
        let (code, param) = self.code();
        let kind = match self.status() {
            _ if code == "insufficient_quota" => code,
            401 => "authentication_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        };
        write(&ErrorBody { message: &message, kind, param, code: Some(code) })
    }

    fn code(&self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::NotAuthenticated | Self::Revoked => ("invalid_api_key", None),
            Self::Forbidden(Forbidden::Model) => ("permission_denied", Some("model")),
            Self::Forbidden(_) => ("permission_denied", None),
            Self::OverCap(OverCap { of: CapOf::Prompt, param, .. }) => {
                ("prompt_limit_exceeded", Some(*param))
            }
            Self::OverCap(OverCap { of: CapOf::Output, param, .. }) => {
                ("output_limit_exceeded", Some(*param))
            }
            Self::NoSuchPath => ("not_found", None),
            Self::Method { .. } => ("method_not_allowed", None),
            Self::NoSuchModel => ("model_not_found", Some("model")),
            Self::Bad(bad) => (bad.code.as_str(), None),
            Self::NotJson => ("unsupported_media_type", None),
            Self::BrokenBody => ("invalid_body", None),
            Self::BodyTooLarge { .. } => ("request_too_large", None),
            Self::TooSlow { .. } => ("request_timeout", None),
            Self::TooLong(too_long) => ("context_length_exceeded", Some(too_long.param)),
            Self::NoSuchToken { param, .. } => ("unknown_token", Some(*param)),
            Self::EmptyPrompt { param } => ("empty_prompt", Some(*param)),
            Self::NoChat { .. } => ("unsupported_chat", Some("messages")),
            Self::Limit(refusal) => (rules::limit_code(refusal), None),
            Self::Budget(budget) => (budget.code(), None),
            Self::Concurrency { .. } | Self::TooManyFailures(_) => ("rate_limit_exceeded", None),
            Self::Overloaded | Self::NoEngine | Self::Draining => ("engine_overloaded", None),
            Self::NoAudit => ("audit_unavailable", None),
            Self::KeysStale => ("keys_unavailable", None),
            Self::Failed(failure) => (failed_code(failure), None),
            Self::Internal => ("internal_error", None),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::NotAuthenticated => {
                "Incorrect API key provided. Send 'Authorization: Bearer <key>' with a key that is valid.".into()
            }
            Self::TooManyFailures(failures) => format!("Rate limit reached: {failures}. Check the API key that is sent."),
            Self::Revoked => "The API key was revoked while this request was under way.".into(),
            Self::Forbidden(forbidden) => forbidden.message(),
            Self::OverCap(over) => over.message(),
            Self::NoSuchPath => "No such address; see GET /v1/models, POST /v1/chat/completions, POST /v1/completions.".into(),
            Self::Method { allow } => format!("This address takes {allow} only."),
            Self::NoSuchModel => {
                "The model does not exist or you have no access to it; GET /v1/models lists those you may use.".into()
            }
            Self::Bad(bad) => bad.message.clone(),
            Self::NotJson => "The body must be JSON; send 'Content-Type: application/json'.".into(),
            Self::BrokenBody => "The body could not be read: its framing is broken or it ended early.".into(),
            Self::BodyTooLarge { bytes, bytes_max } => {
                let bytes = match bytes {
                    Count::Exactly(bytes) => format!("{bytes}"),
                    Count::AtLeast(bytes) => format!("at least {bytes}"),
                };
                format!("The body is too large: it has {bytes} bytes, and at most {bytes_max} are allowed.")
            }
            Self::TooSlow { limit_ms } => format!("The request did not arrive within {limit_ms} ms."),
            Self::TooLong(too_long) => too_long.message(),
            Self::NoSuchToken { id, vocab, param } => {
                format!("Invalid '{param}': token {id} does not exist; the model has {vocab} tokens.")
            }
            Self::EmptyPrompt { param } => format!("Invalid '{param}': it has no token; give at least one."),
            Self::NoChat { why } => format!("Invalid 'messages': {why}."),
            Self::Concurrency { limit } => format!(
                "Rate limit reached: this key may have {limit} requests under way at once. Wait for one to end, or ask for a higher limit."
            ),
            Self::Limit(refusal) => rules::limit_message(refusal),
            Self::Budget(budget) => budget.message(),
            Self::Overloaded => "The engine is overloaded. Try again shortly.".into(),
            Self::KeysStale => {
                "What this server knows of API keys is too old to be relied on. Try again shortly.".into()
            }
            Self::NoEngine => "The engine is not available at this moment. Try again shortly.".into(),
            Self::Draining => "This server is shutting down. Try again shortly.".into(),
            Self::NoAudit => "The request cannot be recorded, so it is not served. Try again shortly.".into(),
            Self::Failed(failure) => failed_message(failure),
            Self::Internal => "The server met a condition that it did not expect.".into(),
        }
    }
}

impl Denied {
    /// Which rule it was, for the header `x-bulkhead-reason`: the level, and what it bounds there. The code, where no rule of
    /// anybody's is behind it.
    pub(crate) fn reason(&self) -> Cow<'static, str> {
        if let Self::Budget(budget) = self {
            return budget.reason().into();
        }
        if let Self::Limit(refusal) = self {
            return rules::limit_reason(refusal).into();
        }
        if let Self::Forbidden(forbidden) = self {
            return forbidden.reason().into();
        }
        if let Self::OverCap(over) = self {
            return over.reason().into();
        }
        if let Self::TooManyFailures(_) = self {
            return "address.failures".into();
        }
        if let Self::Concurrency { .. } = self {
            return "key.concurrency".into();
        }
        self.code().0.into()
    }
}

const fn failed_status(failure: &Failure) -> u16 {
    match failure {
        Failure::Integrity(_) | Failure::EngineLost => 502,
        Failure::Device | Failure::NotANumber | Failure::Isolation => 500,
        Failure::Deadline { .. } => 504,
        Failure::ShuttingDown | Failure::NoCapacity => 503,
    }
}

const fn failed_code(failure: &Failure) -> &'static str {
    match failure {
        Failure::Integrity(_) => "integrity_error",
        Failure::EngineLost => "engine_lost",
        Failure::Device | Failure::NotANumber | Failure::Isolation => "engine_error",
        Failure::Deadline { .. } => "timeout",
        Failure::ShuttingDown | Failure::NoCapacity => "engine_overloaded",
    }
}

/// What a caller is told of a failure: never what another tenant could be known by.
fn failed_message(failure: &Failure) -> String {
    match failure {
        Failure::Integrity(_) => {
            "The engine's answer did not prove to be this request's; nothing of it was sent on.".into()
        }
        Failure::EngineLost => "The engine went away while it answered.".into(),
        Failure::Device | Failure::NotANumber | Failure::Isolation => {
            "The engine failed on this request.".into()
        }
        Failure::Deadline { limit_ms } => format!("The answer was not done within {limit_ms} ms."),
        Failure::ShuttingDown => "The server is shutting down.".into(),
        Failure::NoCapacity => "The engine has no longer memory enough to finish this answer.".into(),
    }
}

/// A refusal by the engine, in the caller's terms.
pub(crate) fn refused(refusal: &Refusal, prompt: usize, output: u32, param: &'static str) -> Denied {
    match refusal {
        Refusal::TooLong { window, .. } => {
            Denied::TooLong(TooLong { window: *window, prompt: Count::Exactly(prompt), output, param })
        }
        Refusal::Empty => Denied::EmptyPrompt { param },
        Refusal::UnknownToken { id, vocab } => {
            Denied::NoSuchToken { id: *id, vocab: usize::try_from(*vocab).unwrap_or(usize::MAX), param }
        }
        Refusal::Overloaded { .. } => Denied::Overloaded,
        Refusal::ShuttingDown => Denied::NoEngine,
        // The gateway checked these itself: that the engine disagrees is our fault.
        Refusal::BadSampling | Refusal::NotAuthentic => Denied::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P5: nothing that was denied is a success, and each says a code.
    #[test]
    fn no_denial_is_a_success() {
        let all = [
            Denied::NotAuthenticated,
            Denied::Revoked,
            Denied::Forbidden(Forbidden::Suspended),
            Denied::Forbidden(Forbidden::Endpoint(tenant::EndpointScope::Models)),
            Denied::Forbidden(Forbidden::Model),
            Denied::Forbidden(Forbidden::Address),
            Denied::OverCap(OverCap { of: CapOf::Prompt, asked: 2, allowed: 1, param: "prompt" }),
            Denied::OverCap(OverCap { of: CapOf::Output, asked: 2, allowed: 1, param: "max_tokens" }),
            Denied::NoSuchPath,
            Denied::Method { allow: "GET" },
            Denied::NoSuchModel,
            Denied::NotJson,
            Denied::BrokenBody,
            Denied::BodyTooLarge { bytes: Count::AtLeast(6), bytes_max: 5 },
            Denied::TooSlow { limit_ms: 5 },
            Denied::NoSuchToken { id: 1, vocab: 2, param: "prompt" },
            Denied::EmptyPrompt { param: "prompt" },
            Denied::NoChat { why: "x" },
            Denied::Concurrency { limit: 1 },
            Denied::Budget(BudgetDenied::Unfit),
            Denied::Budget(BudgetDenied::Unavailable),
            Denied::Overloaded,
            Denied::KeysStale,
            Denied::NoEngine,
            Denied::Draining,
            Denied::NoAudit,
            Denied::Failed(Failure::Device),
            Denied::Failed(Failure::EngineLost),
            Denied::Failed(Failure::Deadline { limit_ms: 5 }),
            Denied::Internal,
        ];
        for denied in all {
            assert!(denied.status() >= 400, "{denied:?}");
            let body: serde_json::Value = serde_json::from_slice(&denied.json()).unwrap();
            assert!(body["error"]["code"].is_string() && body["error"]["message"].is_string(), "{body}");
        }
    }
}
