//! What a witness answers: C2SP's tlog-witness, as status, type and text.

use crate::witness::request::REQUEST_BYTES_MAX;

/// The type of a text that anybody may read.
const TEXT: &str = "text/plain; charset=utf-8";
/// The type of the size that a witness knows.
const SIZE: &str = "text/x.tlog.size";

/// A witness's answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body: lines of signatures, the size that the witness knows, or why it refuses.
    pub body: String,
}

/// Why a witness does not cosign.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The body is longer than any request.
    #[error("the request has more than {REQUEST_BYTES_MAX} bytes, the most that it may")]
    TooLarge,
    /// The body is no request; what of it is wrong.
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    /// More is said to be known than there is.
    #[error("the old size, {old}, is larger than the checkpoint's, {size}")]
    OldAboveSize {
        /// The old size.
        old: u64,
        /// The checkpoint's.
        size: u64,
    },
    /// No log that is watched has this name.
    #[error("this witness watches no log of that name")]
    UnknownLog,
    /// The log has not signed it.
    #[error("the checkpoint is not signed by the key that this witness has of the log")]
    Unsigned,
    /// The witness knows another size.
    #[error("this witness knows {known} leaves of the log")]
    Known {
        /// The size that it knows.
        known: u64,
    },
    /// Two trees of one size: the log has shown two histories.
    #[error("this witness knows another tree of {size} leaves of this log: it was written anew")]
    Forked {
        /// Their size.
        size: u64,
    },
    /// The proof does not show that the checkpoint begins with what the witness knows.
    #[error("the proof does not show that the log still begins with the leaves that this witness knows")]
    Proof,
    /// What the witness knows is not known to be on its medium.
    #[error(
        "this witness cannot keep what it would cosign: its operator must look after its disk and start it again"
    )]
    Disk,
}

impl Refusal {
    /// The status of HTTP.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed(_) | Self::OldAboveSize { .. } => 400,
            Self::Unsigned => 403,
            Self::UnknownLog => 404,
            Self::Known { .. } | Self::Forked { .. } => 409,
            Self::TooLarge => 413,
            Self::Proof => 422,
            Self::Disk => 500,
        }
    }
}

impl From<Result<Vec<u8>, Refusal>> for Answer {
    fn from(decided: Result<Vec<u8>, Refusal>) -> Self {
        let (status, content_type, body) = match decided {
            Ok(lines) => (200, TEXT, String::from_utf8_lossy(&lines).into_owned()),
            Err(Refusal::Known { known }) => (409, SIZE, format!("{known}\n")),
            Err(refusal) => (refusal.status(), TEXT, format!("{refusal}\n")),
        };
        Self { status, content_type, body }
    }
}
