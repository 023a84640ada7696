//! What is recorded. No field can hold text.

use isolation::outcome;
use serde::{Deserialize, Serialize};

use crate::alarm::EngineAlarm;
use crate::hex::{Hex, Word};

/// One event.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A gateway started to answer.
    Boot(Boot),
    /// An engine, with what it truly holds, was connected.
    EngineSeen(EngineSeen),
    /// An engine found something wrong with itself.
    Alarm(EngineAlarm),
    /// A sequence was let in; on disk before its first byte goes out.
    Admitted(Admitted),
    /// A request, or one of its sequences, ended, however it did; refused ones too.
    Ended(Ended),
}

/// A gateway started to answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// The gateway's version: major, minor, patch.
    pub version: [u16; 3],
    /// SHA-256 of the policy in force.
    pub policy: Hex<32>,
    /// Where it comes from.
    pub source: PolicySource,
}

/// Where a policy comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// The operator's file.
    File,
    /// The last-known-good; the operator's file was refused.
    LastKnownGood,
    /// Shipped with the program.
    Shipped,
}

/// What an engine holds, as it said when it was connected.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSeen {
    /// SHA-256 of the model file.
    pub model: Hex<32>,
    /// One life of the engine.
    pub epoch: Word,
    /// Tokens that a request may span.
    pub window: u32,
    /// Tokens that the measured pool holds.
    pub capacity: u32,
    /// Tokens a page holds.
    pub page_tokens: u32,
}

/// A sequence was let in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// The request, as its client was told.
    pub request: Hex<16>,
    /// Which of the request's sequences, from 0.
    pub sequence: u16,
    /// The tenant, outside the engine.
    pub tenant: Hex<16>,
    /// The tenant, inside the engine.
    pub tag: Word,
    /// The key that was presented.
    pub key: KeyId,
    /// What was called.
    pub endpoint: Endpoint,
    /// SHA-256 of the model file.
    pub model: Hex<32>,
    /// The engine's life.
    pub epoch: Word,
    /// SHA-256 of the policy in force.
    pub policy: Hex<32>,
    /// Tokens of the prompt, as the gateway counted.
    pub edge_tokens: u32,
    /// Tokens that may be generated.
    pub max_tokens: u32,
    /// Tokens that this request may span.
    pub window: u32,
}

/// A request, or one of its sequences, ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The request, as its client was told.
    pub request: Hex<16>,
    /// Which of the request's sequences, from 0; 0 for a request that was refused whole.
    pub sequence: u16,
    /// The tenant, outside the engine.
    pub tenant: Hex<16>,
    /// The tenant, inside the engine.
    pub tag: Word,
    /// The key that was presented.
    pub key: KeyId,
    /// What was called.
    pub endpoint: Endpoint,
    /// The status that was sent; 0 when none was, because the client had left.
    pub status: u16,
    /// What became of it.
    pub outcome: Outcome,
    /// Tokens of the prompt, as the gateway counted; 0 when it was refused before.
    pub edge_tokens: u32,
    /// Tokens that this request may span; 0 when it was refused before that was known.
    pub window: u32,
    /// What the engine proved to have prefilled.
    pub proof: Proof,
    /// Tokens that were sent.
    pub completion: u32,
    /// From the head's arrival to the first token's departure; 0 when none departed.
    pub first_token_ms: u32,
    /// From the head's arrival to the end.
    pub total_ms: u32,
}

/// What the engine proved to have prefilled.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Proof {
    /// Nothing: the request did not get that far, or the proof was refused.
    Absent,
    /// This, and the gateway found it to be what it had sent.
    Accepted {
        /// SHA-256 of the model file.
        model: Hex<32>,
        /// The engine's life.
        epoch: Word,
        /// Tokens of the prompt, as the engine counted.
        engine_tokens: u32,
        /// Tokens taken from the tenant's own prefix.
        cached: u32,
        /// Tokens written by this sequence.
        written: u32,
        /// Positions that the last prompt row attended to.
        attended: u32,
        /// Pages that the sequence read.
        pages: u32,
        /// Digest of those pages' numbers and generations.
        generations: Word,
    },
}

/// What was called.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/completions`
    Completion,
    /// `GET /v1/models`
    Models,
    /// Anything else.
    Other,
}

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

/// A key's public part: 12 base-62 characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyId([u8; 12]);

impl KeyId {
    /// The id with these characters; none when one is no letter or digit.
    pub fn new(characters: &[u8; 12]) -> Option<Self> {
        characters.iter().all(u8::is_ascii_alphanumeric).then_some(Self(*characters))
    }
}

impl Serialize for KeyId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = core::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(text)
    }
}

impl<'de> Deserialize<'de> for KeyId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: std::borrow::Cow<'de, str> = Deserialize::deserialize(deserializer)?;
        let characters: Option<&[u8; 12]> = text.as_bytes().try_into().ok();
        characters.and_then(Self::new).ok_or_else(|| serde::de::Error::custom("not a key id"))
    }
}

#[cfg(test)]
mod tests;
