//! Bodies in, bodies out: tables of good and bad requests, and the exact bytes of answers.

mod answers;
mod bad;
mod good;
mod random;

use std::sync::LazyLock;

use policies::Policy;

use super::error::BadCode;
use super::sampling::Sampling;
use super::*;

fn policy() -> Policy {
    static SHIPPED: LazyLock<Policy> = LazyLock::new(|| Policy::shipped().unwrap());
    *SHIPPED
}

fn chat(body: &str) -> Result<Call, BadRequest> {
    parse(Endpoint::Chat, body.as_bytes(), &policy())
}

fn completion(body: &str) -> Result<Call, BadRequest> {
    parse(Endpoint::Completions, body.as_bytes(), &policy())
}

/// A good chat with raw JSON fields added; `fields` begins with a comma or is empty.
fn chat_with(fields: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"PLANTED"}}]{fields}}}"#)
}

/// A good completion with raw JSON fields added.
fn completion_with(fields: &str) -> String {
    format!(r#"{{"model":"m","prompt":"PLANTED"{fields}}}"#)
}
