//! How a request ends. Knows no status line.

use crate::{evidence::IntegrityError, units::Tokens};

// I12: no variant, no reason and no order is shared.
/// The end of a request. A refusal is not a success.
///
/// There is no default end:
/// ```compile_fail,E0277
/// // I12
/// let end: isolation::outcome::Outcome = Default::default();
/// ```
/// and none is "more finished" than another:
/// ```compile_fail,E0369
/// use isolation::outcome::Outcome;
/// fn is_done(end: Outcome, than: Outcome) -> bool { end > than }
/// ```
/// A refusal cannot pass for a finish reason:
/// ```compile_fail,E0308
/// use isolation::outcome::{Outcome, Rejection};
/// fn polite(why: Rejection) -> Outcome { Outcome::Completed(why) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "each end must be answered and recorded"]
pub enum Outcome {
    /// All that was asked for has been sent.
    Completed(Finish),
    /// Refused before any page was touched.
    Rejected(Rejection),
    /// The client left.
    Cancelled,
    /// Our fault.
    Failed(Failure),
}

/// Why a completed sequence has no more tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Finish {
    /// The model or a stop word ended it.
    Stop,
    /// It has as many tokens as were asked for.
    Length,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejection {
    /// Prompt and output together exceed the window.
    TooLong {
        /// Tokens asked for, prompt and output.
        asked: u64,
        /// Tokens allowed now.
        window: Tokens,
    },
    /// The prompt has no token.
    EmptyPrompt,
    /// No token may be generated.
    NothingToGenerate,
    /// A token id is not in the vocabulary.
    UnknownToken {
        /// The id.
        id: u32,
        /// Ids are below this.
        vocab: u32,
    },
    /// A sampling value is outside its range.
    BadSampling,
    /// Too many sequences are live or queued.
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

impl core::fmt::Display for Rejection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong { asked, window } => write!(f, "{asked} tokens asked, the window is {window}"),
            Self::EmptyPrompt => f.write_str("the prompt has no token"),
            Self::NothingToGenerate => f.write_str("no token may be generated"),
            Self::UnknownToken { id, vocab } => write!(f, "token {id} of a vocabulary of {vocab}"),
            Self::BadSampling => f.write_str("a sampling value is outside its range"),
            Self::Overloaded { sequences, sequences_max } => {
                write!(f, "{sequences} sequences of at most {sequences_max}")
            }
            Self::NotAuthentic => f.write_str("the ticket is not right"),
            Self::ShuttingDown => f.write_str("the engine is shutting down"),
        }
    }
}

impl core::error::Error for Rejection {}

/// What failed on our side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// The device refused or broke a step.
    Device,
    /// A logit was not a number.
    NotANumber,
    /// A page or a lease was not what it had to be.
    Isolation,
    /// The engine's word did not stand up to what was sent.
    Integrity(IntegrityError),
    /// The engine went away.
    EngineLost,
    /// The time allowed ran out.
    Deadline {
        /// That time.
        limit_ms: u64,
    },
    /// The engine is shutting down.
    ShuttingDown,
    /// Its pages were taken back for another tenant, and the pool has since become too small for it.
    NoCapacity,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Device => f.write_str("the device failed"),
            Self::NotANumber => f.write_str("a logit was not a number"),
            Self::Isolation => f.write_str("a page was not what it had to be"),
            Self::Integrity(error) => error.fmt(f),
            Self::EngineLost => f.write_str("the engine went away"),
            Self::Deadline { limit_ms } => write!(f, "not done in {limit_ms} ms"),
            Self::ShuttingDown => f.write_str("the engine is shutting down"),
            Self::NoCapacity => f.write_str("the pool became too small"),
        }
    }
}

impl core::error::Error for Failure {}
