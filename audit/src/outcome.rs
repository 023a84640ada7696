//! What became of a request.

use isolation::outcome;
use serde::{Deserialize, Serialize};

/// What became of a request. A refusal shares nothing with a success (P5).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Outcome {
    /// All was sent.
    Completed {
        /// Why there is no more.
        finish: Finish,
    },
    /// Refused before any page was touched.
    Rejected {
        /// The rule.
        reason: Reason,
        /// Its numbers; none for a rule that has none.
        bound: Option<Bound>,
    },
    /// The client left.
    Cancelled,
    /// Our fault.
    Failed {
        /// Whose.
        failure: Failure,
    },
}

/// Why a completed sequence has no more tokens.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model or a stop word ended it.
    Stop,
    /// It has as many tokens as were asked for.
    Length,
}

/// The numbers of a rule.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// What was asked.
    pub asked: u64,
    /// What is allowed.
    pub allowed: u64,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Prompt and output together exceed the window.
    TooLong,
    /// The prompt has no token.
    EmptyPrompt,
    /// No token may be generated.
    NothingToGenerate,
    /// A token id is not in the vocabulary.
    UnknownToken,
    /// A sampling value is outside its range.
    BadSampling,
    /// Too much is under way.
    Overloaded,
    /// The engine did not believe the gateway's ticket.
    NotAuthentic,
    /// The process that had to answer is shutting down.
    ShuttingDown,
    /// The body is not a request.
    Malformed,
    /// The body is too large.
    BodyTooLarge,
    /// The client took too long to send it.
    TooSlow,
    /// No such model, or no such address.
    NotFound,
    /// The key may not do this.
    Forbidden,
    /// The key, its project or its tenant has too many requests in flight.
    Concurrency,
    /// The key, its project or its tenant has had as many requests or tokens in a minute as it may.
    RateLimit,
    /// It may use more than is left of a budget of the key, its project or its tenant.
    Budget,
    /// No engine is connected.
    NoEngine,
}

/// What failed on our side.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The device refused or broke a step.
    Device,
    /// A logit was not a number.
    NotANumber,
    /// A page or a lease was not what it had to be.
    Isolation,
    /// The engine's word did not stand up to what was sent.
    Integrity,
    /// The engine went away.
    EngineLost,
    /// The time allowed ran out.
    Deadline,
    /// The engine is shutting down.
    ShuttingDown,
    /// The pool became too small for it while it waited for its pages.
    NoCapacity,
    /// The key was revoked, or its tenant suspended, while it ran.
    Revoked,
    /// Anything else of the gateway's own.
    Gateway,
}

impl From<outcome::Outcome> for Outcome {
    fn from(outcome: outcome::Outcome) -> Self {
        match outcome {
            outcome::Outcome::Completed(outcome::Finish::Stop) => Self::Completed { finish: Finish::Stop },
            outcome::Outcome::Completed(outcome::Finish::Length) => {
                Self::Completed { finish: Finish::Length }
            }
            outcome::Outcome::Rejected(rejection) => rejected(rejection),
            outcome::Outcome::Cancelled => Self::Cancelled,
            outcome::Outcome::Failed(failure) => Self::Failed { failure: failure.into() },
        }
    }
}

fn rejected(rejection: outcome::Rejection) -> Outcome {
    let bound = |asked, allowed| Some(Bound { asked, allowed });
    let (reason, bound) = match rejection {
        outcome::Rejection::TooLong { asked, window } => {
            (Reason::TooLong, bound(asked, u64::from(window.get())))
        }
        outcome::Rejection::EmptyPrompt => (Reason::EmptyPrompt, None),
        outcome::Rejection::NothingToGenerate => (Reason::NothingToGenerate, None),
        outcome::Rejection::UnknownToken { id, vocab } => {
            (Reason::UnknownToken, bound(id.into(), vocab.into()))
        }
        outcome::Rejection::BadSampling => (Reason::BadSampling, None),
        outcome::Rejection::Overloaded { sequences, sequences_max } => {
            (Reason::Overloaded, bound(sequences.into(), sequences_max.into()))
        }
        outcome::Rejection::NotAuthentic => (Reason::NotAuthentic, None),
        outcome::Rejection::ShuttingDown => (Reason::ShuttingDown, None),
    };
    Outcome::Rejected { reason, bound }
}

impl From<outcome::Failure> for Failure {
    fn from(failure: outcome::Failure) -> Self {
        match failure {
            outcome::Failure::Device => Self::Device,
            outcome::Failure::NotANumber => Self::NotANumber,
            outcome::Failure::Isolation => Self::Isolation,
            outcome::Failure::Integrity(_) => Self::Integrity,
            outcome::Failure::EngineLost => Self::EngineLost,
            outcome::Failure::Deadline { .. } => Self::Deadline,
            outcome::Failure::ShuttingDown => Self::ShuttingDown,
            outcome::Failure::NoCapacity => Self::NoCapacity,
        }
    }
}
