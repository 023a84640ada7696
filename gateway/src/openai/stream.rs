//! Whether the answer comes whole or as events.

use super::error::{BadCode, BadRequest};
use super::field::{Fields, flag};
use super::json::Json;

/// How the answer is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamMode {
    /// One body.
    Whole,
    /// Server-sent events.
    Events {
        /// Whether a last chunk tells the usage (`stream_options.include_usage`); then all others say `"usage":null`.
        usage: bool,
    },
}

impl StreamMode {
    pub(super) fn take(fields: &mut Fields) -> Result<Self, BadRequest> {
        let stream = fields.read("stream", flag)?.unwrap_or(false);
        match (stream, fields.read("stream_options", options)?) {
            (true, usage) => Ok(Self::Events { usage: usage.unwrap_or(false) }),
            (false, None) => Ok(Self::Whole),
            (false, Some(_)) => {
                Err(BadRequest::at(BadCode::InvalidValue, "stream_options", "it needs 'stream' to be true"))
            }
        }
    }
}

/// Whether the usage is wanted.
fn options(value: Json, path: &str) -> Result<bool, BadRequest> {
    let mut fields = Fields::of(value, path)?;
    let usage = fields.read("include_usage", flag)?.unwrap_or(false);
    // Padding against eavesdroppers: to leave it off is fine, to promise it is not.
    if fields.read("include_obfuscation", flag)?.unwrap_or(false) {
        return Err(BadRequest::unsupported(&fields.path("include_obfuscation")));
    }
    fields.finish()?;
    Ok(usage)
}
