//! The messages. Plain data: what a field means is decided by its reader, which trusts none of it.

use crate::alarm::Alarm;
use serde::{Deserialize, Serialize};

/// The version of this protocol; unequal means no session.
pub const PROTOCOL: u16 = 4;

/// The internal name of one sequence: the bytes of a UUID v7, made by the gateway, never taken from a client.
pub type RequestId = [u8; 16];

/// Gateway to engine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum ToEngine {
    /// Opens the session; the first frame, and only the first.
    Hello(GatewayHello),
    /// Asks for one sequence.
    Submit(Box<Submit>),
    /// The client left, or the gateway needs no more of this sequence.
    Cancel(RequestId),
    /// Asks for one [`ToGateway::Status`].
    Status,
    /// What tenants may hold from now on: all of them, in place of what was said before. A set that the engine cannot keep
    /// changes nothing.
    Quotas(Vec<Quota>),
}

/// What one tenant may hold of the pool. A tenant without one has no floor, no cap, and the weight 1.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Quota {
    /// The tenant's opaque tag.
    pub tag: u64,
    /// Tokens that no other tenant can hold; rounded up to whole pages.
    pub floor: u32,
    /// Tokens that it holds at most; rounded down to whole pages.
    pub cap: u32,
    /// Its part in the sharing of the rest; at least 1.
    pub weight: u32,
}

/// Engine to gateway.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum ToGateway {
    /// The answer to [`ToEngine::Hello`].
    Hello(Box<Hello>),
    /// The sequence was refused before any page was touched; nothing else follows for it.
    Refused {
        /// Which sequence.
        request: RequestId,
        /// Why.
        refusal: Refusal,
    },
    /// What prefill truly consumed: the first frame of an admitted sequence.
    Evidence {
        /// Sequence number 0.
        stamp: Stamp,
        /// What was prefilled.
        evidence: Evidence,
    },
    /// Tokens that were decoded.
    Delta(Delta),
    /// The last frame of an admitted sequence.
    End(End),
    /// The engine's own account of itself.
    Status(EngineStatus),
    /// The engine found something wrong with itself. Each session is told all of them as they come, and before them, right after
    /// the hello, those of before that are kept: the one that it is unsound, and the first [`crate::WITHDRAWN_KEPT`] pages.
    Alarm(Alarm),
}

/// What the gateway says first.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GatewayHello {
    /// [`PROTOCOL`] of the gateway.
    pub protocol: u16,
}

/// What the engine is, and what it truly holds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the engine.
    pub protocol: u16,
    /// One life of this engine; never used again.
    pub epoch: u64,
    /// Fresh for each session; each ticket is bound to it.
    pub session: [u8; 16],
    /// SHA-256 of the model file.
    pub model_digest: [u8; 32],
    /// Token ids are below this.
    pub vocab: u32,
    /// Tokens that a request may span, prompt and output together.
    pub window: u32,
    /// Tokens that the measured pool holds.
    pub capacity: u32,
    /// Tokens a page holds.
    pub page_tokens: u32,
    /// Sequences that may be live or queued at once.
    pub sequences_max: u32,
    /// What the statements of this life are verified by: the public part of its [`crate::BootKey`].
    pub boot_key: [u8; 32],
    /// The engine's version: major, minor, patch.
    pub build: [u16; 3],
}

/// One sequence, as token ids.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Submit {
    /// The sequence.
    pub request: RequestId,
    /// The tenant's opaque tag.
    pub tag: u64,
    /// The engine life this is meant for.
    pub epoch: u64,
    /// Strictly rising in a session.
    pub serial: u64,
    /// The prompt, whole.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most; at least 1.
    pub max_tokens: u32,
    /// A token of this list ends the sequence, and is not sent.
    pub stop_tokens: Vec<u32>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// HMAC-SHA-256 over all the above and the session; see [`Submit::seal`].
    pub ticket: [u8; 32],
}

/// How the next token is chosen. Ranges are those of OpenAI's API; the engine checks them again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sampling {
    /// 0 takes the likeliest token; at most 2.
    pub temperature: f32,
    /// Nucleus mass, over 0 and at most 1; 1 keeps all.
    pub top_p: f32,
    /// Likeliest tokens kept; 0 keeps all.
    pub top_k: u32,
    /// Keeps tokens at least this fraction as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Randomness is a function of this and the position alone.
    pub seed: u64,
    /// -2 to 2, times how often a token was generated.
    pub frequency_penalty: f32,
    /// -2 to 2, once for a token that was generated.
    pub presence_penalty: f32,
    /// Added to a token's logit, -100 to 100.
    pub logit_bias: Vec<(u32, f32)>,
    /// Which log-probabilities go back.
    pub logprobs: Logprobs,
}

/// Which log-probabilities go back with each token.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Logprobs {
    /// None.
    Omit,
    /// The chosen token's, and those of this many likeliest (at most 20).
    Top(u8),
}

/// Names one frame of one sequence in one life of the engine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Stamp {
    /// The sequence.
    pub request: RequestId,
    /// Its tenant.
    pub tag: u64,
    /// The engine's life.
    pub epoch: u64,
    /// 0 for the evidence, then one more for each frame.
    pub sequence: u32,
}

/// What prefill truly consumed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Evidence {
    /// [`crate::digest_tokens`] of the ids whose keys and values the prompt's positions hold.
    pub prompt_digest: [u8; 32],
    /// Tokens written by this sequence.
    pub written: u32,
    /// Positions that the last prompt row attended to.
    pub attended: u32,
    /// Tokens adopted from the tenant's own sealed prefix.
    pub cached: u32,
    /// Pages that the sequence reads.
    pub pages: u32,
    /// Digest of those pages' ids and generations.
    pub generations: u64,
}

/// Tokens that were decoded, in order.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Delta {
    /// Which frame of which sequence.
    pub stamp: Stamp,
    /// At least one.
    pub tokens: Vec<TokenOut>,
}

/// One decoded token.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TokenOut {
    /// Its id.
    pub id: u32,
    /// Natural logarithm of its probability before temperature and filters; 0 where none was asked for.
    pub logprob: f32,
    /// The likeliest tokens and their log-probabilities, likeliest first; empty where none was asked for.
    pub top: Vec<(u32, f32)>,
}

/// How an admitted sequence ended.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct End {
    /// The last stamp of the sequence.
    pub stamp: Stamp,
    /// What became of it.
    pub ending: Ending,
    /// Tokens sent in deltas.
    pub completion: u32,
    /// What was done, signed: a [`crate::Statement`] as a compact JWS, of at most [`crate::STATEMENT_BYTES_MAX`] bytes. Of a
    /// sequence that completed; one without it is not believed to have.
    pub statement: Option<String>,
}

/// The ends of an admitted sequence; a refusal is not among them (P5).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ending {
    /// All sent.
    Completed(Finished),
    /// The gateway asked for it.
    Cancelled,
    /// The engine's fault.
    Failed(Failed),
}

/// Why a completed sequence has no more tokens.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Finished {
    /// A stop token came.
    Stop,
    /// `max_tokens` were sent.
    Length,
}

/// What failed in the engine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Failed {
    /// The device refused or broke a step.
    Device,
    /// A logit was not a number.
    NotANumber,
    /// A page or a lease was not what it had to be.
    Isolation,
    /// The engine is shutting down.
    ShuttingDown,
    /// Its pages were taken back for another tenant, and the pool has since become too small for it.
    NoCapacity,
}

/// Why a sequence was refused before any page was touched.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Refusal {
    /// Prompt and output together exceed the window.
    TooLong {
        /// Tokens asked for, prompt and output.
        asked: u64,
        /// Tokens allowed now.
        window: u32,
    },
    /// The prompt has no token.
    Empty,
    /// A token id is not in the vocabulary.
    UnknownToken {
        /// The id.
        id: u32,
        /// Ids are below this.
        vocab: u32,
    },
    /// A sampling value is outside its range.
    BadSampling,
    /// The queue is full.
    Overloaded {
        /// Sequences live or queued.
        sequences: u32,
        /// The most there may be.
        sequences_max: u32,
    },
    /// The ticket, the epoch or the serial is not right.
    NotAuthentic,
    /// The engine is shutting down.
    ShuttingDown,
}

/// The engine's own account of itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EngineStatus {
    /// The engine's life.
    pub epoch: u64,
    /// The window it offers now.
    pub window: u32,
    /// Tokens that the pool holds now.
    pub capacity: u32,
    /// Sequences with pages.
    pub running: u32,
    /// Sequences that wait for pages.
    pub queued: u32,
    /// Steps done.
    pub steps: u64,
    /// Prompt tokens computed.
    pub prefilled: u64,
    /// Tokens decoded.
    pub decoded: u64,
    /// All pages, by state.
    pub census: Census,
}

/// All pages, by state. The states add up to `total`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Census {
    /// Wiped and ready.
    pub clean: u32,
    /// To be wiped.
    pub dirty: u32,
    /// Waiting for the step that last named them.
    pub quarantined: u32,
    /// Held by a sequence.
    pub leased: u32,
    /// Held by prefix runs.
    pub shared: u32,
    /// Never to be used again.
    pub withdrawn: u32,
    /// All of them.
    pub total: u32,
}
