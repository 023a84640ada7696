//! OpenAI's contract, as bytes: bodies of requests in, bodies and events of answers out.
//!
//! The public interface is:
//! - [`parse`]: a body to a [`Call`], or a [`BadRequest`] that says what is wrong, where, and what is allowed;
//! - [`Shape`]: the answer of one request, whole or as server-sent events, in the form that the official clients read;
//! - [`error_json`] and [`error_event`], [`models_json`] and [`model_json`].
//!
//! Fields that only describe the caller are read and left aside; a field that would change the answer and that we do
//! not honour is refused by name.
//!
//! Architecture invariant: pure. Knows no socket, clock, tenant, key or window, and quotes no prompt, in no message and
//! no `Debug`.

mod answer;
mod call;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON has its kinds for good; a field takes some and refuses the rest"
)]
mod chat;
mod error;
mod extras;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON has its kinds for good; a field takes some and refuses the rest"
)]
mod field;
mod json;
mod listing;
mod logprob;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON has its kinds for good; a field takes some and refuses the rest"
)]
mod number;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON has its kinds for good; a field takes some and refuses the rest"
)]
mod prompt;
mod sampling;
mod stream;

pub(crate) use answer::{Choice, DONE, Finish, Piece, Shape, Usage};
pub(crate) use call::{Call, Endpoint, Prompt, parse};
pub(crate) use error::{BadRequest, ErrorBody, error_event, error_json};
pub(crate) use listing::{ModelEntry, model_json, models_json};
pub(crate) use logprob::TokenLogprob;
pub(crate) use stream::StreamMode;

use serde::Serialize;

#[expect(
    clippy::expect_used,
    reason = "plain structs of numbers, strings and lists always serialise into memory"
)]
fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data serialises into memory")
}

/// One server-sent event that carries `value`; JSON holds no raw line break, so one line is enough.
fn event_bytes(value: &impl Serialize) -> Vec<u8> {
    [b"data: ".as_slice(), &json_bytes(value), b"\n\n"].concat()
}

#[cfg(test)]
mod tests;
