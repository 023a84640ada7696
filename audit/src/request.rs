//! What is recorded of a request: let in, ended, refused. No field can hold text.

use serde::{Deserialize, Serialize};

use crate::hex::{Hex, Word};
use crate::outcome::Outcome;

/// A sequence was let in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// The request, as its client was told.
    pub request: Hex<16>,
    /// Which of the request's sequences, from 0.
    pub sequence: u16,
    /// The tenant, inside the engine.
    pub tag: Word,
    /// The key that was presented.
    pub key: KeyId,
    /// What was called.
    pub endpoint: Endpoint,
    /// The engine's life; an `engine_seen` before this one says what it holds.
    pub epoch: Word,
    /// Index of the leaf that says which policy is in force.
    pub policy: u64,
    /// Tokens of the prompt, as the gateway counted.
    pub edge_tokens: u32,
    /// Tokens that may be generated.
    pub max_tokens: u32,
    /// Tokens that this request may span.
    pub window: u32,
}

/// A sequence that had been let in ended, however it did.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    /// The request, as its client was told.
    pub request: Hex<16>,
    /// Which of the request's sequences, from 0.
    pub sequence: u16,
    /// The status that was sent; 0 when none was, because the client had left.
    pub status: u16,
    /// What became of it.
    pub outcome: Outcome,
    /// What the engine proved to have prefilled.
    pub proof: Proof,
    /// Tokens that were sent.
    pub completion: u32,
    /// From the head's arrival to the first token's departure; 0 when none departed.
    pub first_token_ms: u32,
    /// From the head's arrival to the end.
    pub total_ms: u32,
}

/// A request was refused, or left, before any of its sequences was let in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The request, as its client was told.
    pub request: Hex<16>,
    /// The key that was presented.
    pub key: KeyId,
    /// What was called.
    pub endpoint: Endpoint,
    /// The status that was sent; 0 when none was, because the client had left.
    pub status: u16,
    /// Why; never that it completed.
    pub outcome: Outcome,
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
        if !serializer.is_human_readable() {
            return Hex(self.0).serialize(serializer);
        }
        let text = core::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(text)
    }
}

impl<'de> Deserialize<'de> for KeyId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let characters = if deserializer.is_human_readable() {
            let text: std::borrow::Cow<'de, str> = Deserialize::deserialize(deserializer)?;
            <[u8; 12]>::try_from(text.as_bytes()).ok()
        } else {
            Hex::deserialize(deserializer).map(|Hex(characters)| Some(characters))?
        };
        characters
            .and_then(|characters| Self::new(&characters))
            .ok_or_else(|| serde::de::Error::custom("not a key id"))
    }
}
