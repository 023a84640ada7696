//! Why a chat could not be rendered. No variant carries a word of a message.

use minijinja::{Error, ErrorKind};

use super::mark::Nonce;
use crate::gguf::GgufError;

/// Longest text of a template's own complaint that is passed on, in characters.
const RAISED_MAX: usize = 200;

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The header's template is no text.
    #[error(transparent)]
    Header(#[from] GgufError),
    /// The template does not compile: the operator must take another model file.
    #[error("the model's chat template does not compile{}", at(*line))]
    Invalid {
        /// The line, from 1, if known.
        line: Option<usize>,
    },
    /// The template refuses these messages; the caller can send others. The words are the template's own.
    #[error("the model's chat template refuses these messages: {complaint}")]
    Refused {
        /// What the template says, unless it quotes a message.
        complaint: String,
    },
    /// The template fails on these messages.
    #[error("the model's chat template fails on these messages{}", at(*line))]
    Failed {
        /// The line, from 1, if known.
        line: Option<usize>,
    },
    /// The rendering took more work than it may.
    #[error("rendering the chat takes more than the work allowed")]
    OutOfFuel,
    /// The rendering is longer than it may be.
    #[error("the rendered chat has more than {bound} bytes")]
    OutputTooLong {
        /// Most bytes.
        bound: usize,
    },
    /// The template leaves out a message's content: to answer without it would be silently wrong.
    #[error("the model's chat template leaves out the content of message {message}")]
    Dropped {
        /// Place of the message, from 0.
        message: usize,
    },
    /// The marks around a content came out broken, so that trusted and untrusted text cannot be told apart.
    #[error("the model's chat template takes a message's content apart")]
    Mangled,
    /// A message holds the nonce of this very rendering.
    #[error("a message holds the number that keeps it apart")]
    NonceKnown,
}

/// What a template gave to `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("raised by the template")]
pub(super) struct Raised(pub(super) String);

impl TemplateError {
    /// Sorts a failure of the template engine, whose own text may quote messages.
    pub(super) fn of(error: &Error, nonce: &Nonce) -> TemplateError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(Raised(complaint)) = error.downcast_ref() {
                let complaint: String = if nonce.is_in(complaint) {
                    String::new()
                } else {
                    complaint.chars().take(RAISED_MAX).collect()
                };
                return TemplateError::Refused { complaint };
            }
            if error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::OutOfFuel) {
                return TemplateError::OutOfFuel;
            }
            cause = error.source();
        }
        TemplateError::Failed { line: error.line() }
    }
}

fn at(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}
