//! How the next token is chosen: the fields of a body that say so.

use policies::Policy;

use super::error::{BadCode, BadRequest, shown};
use super::field::{Fields, at_most, wrong_type};
use super::json::Json;
use super::number::{decimal, integer, seed, small};

/// The most that `top_k` may be; no vocabulary is larger.
const TOP_K_MAX: i128 = 1_048_576;

/// How the next token is chosen. What a body leaves out has OpenAI's default.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// 0 takes the likeliest token; at most 2; default 1.
    pub(crate) temperature: f32,
    /// Nucleus mass, over 0 and at most 1; default 1. A body's 0 becomes the least positive float, which keeps the
    /// likeliest token alone.
    pub(crate) top_p: f32,
    /// Likeliest tokens kept; 0 (also given as -1) keeps all.
    pub(crate) top_k: u32,
    /// Keeps tokens at least this fraction as likely as the likeliest, 0 to 1; 0 keeps all.
    pub(crate) min_p: f32,
    /// What the body asked for; without one, the caller of [`parse`](super::parse) draws one.
    pub(crate) seed: Option<u64>,
    /// -2 to 2; default 0.
    pub(crate) frequency_penalty: f32,
    /// -2 to 2; default 0.
    pub(crate) presence_penalty: f32,
    /// Token ids, rising and each once, and what is added to their logits, -100 to 100.
    pub(crate) logit_bias: Vec<(u32, f32)>,
}

impl Sampling {
    /// The engine's form of this, with the seed to use.
    pub(crate) fn with_seed(&self, seed: u64, logprobs: wire::Logprobs) -> wire::Sampling {
        wire::Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            seed,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            logit_bias: self.logit_bias.clone(),
            logprobs,
        }
    }

    pub(super) fn take(fields: &mut Fields, policy: &Policy) -> Result<Self, BadRequest> {
        let mut number = |name: &str, least: f64, most: f64, default: f32| {
            let read = fields.read(name, |value, path| decimal(value, path, least..=most));
            read.map(|given| given.unwrap_or(default))
        };
        let temperature = number("temperature", 0.0, 2.0, 1.0)?;
        let top_p = number("top_p", 0.0, 1.0, 1.0)?.max(f32::MIN_POSITIVE);
        let min_p = number("min_p", 0.0, 1.0, 0.0)?;
        let frequency_penalty = number("frequency_penalty", -2.0, 2.0, 0.0)?;
        let presence_penalty = number("presence_penalty", -2.0, 2.0, 0.0)?;
        let top_k = fields.read("top_k", |value, path| integer(value, path, -1..=TOP_K_MAX))?;
        let bias = fields.read("logit_bias", |value, path| bias(value, path, policy.logit_bias_max()))?;
        Ok(Self {
            temperature,
            top_p,
            top_k: u32::try_from(top_k.unwrap_or(0)).unwrap_or(0),
            min_p,
            seed: fields.read("seed", seed)?,
            frequency_penalty,
            presence_penalty,
            logit_bias: bias.unwrap_or_default(),
        })
    }
}

fn bias(value: Json, path: &str, most: usize) -> Result<Vec<(u32, f32)>, BadRequest> {
    let Json::Object(entries) = value else { return Err(wrong_type(path, "an object", &value)) };
    at_most(entries.len(), path, most)?;
    let mut biases = Vec::with_capacity(entries.len());
    for (token, value) in entries {
        let at = format!("{path}.{}", shown(&token));
        let id = token.parse::<u32>().ok().filter(|id| id.to_string() == token);
        let id = id.ok_or_else(|| {
            BadRequest::at(BadCode::InvalidValue, &at, "the key is no token id in decimal digits")
        })?;
        biases.push((id, decimal(value, &at, -100.0..=100.0)?));
    }
    biases.sort_unstable_by_key(|(id, _)| *id);
    Ok(biases)
}

/// Which log-probabilities a chat asks for.
pub(super) fn chat_logprobs(fields: &mut Fields) -> Result<wire::Logprobs, BadRequest> {
    let top = fields.read("top_logprobs", |value, path| small(value, path, 0..=20))?;
    let wanted = fields.read("logprobs", super::field::flag)?.unwrap_or(false);
    match (wanted, top) {
        (true, top) => Ok(wire::Logprobs::Top(u8::try_from(top.unwrap_or(0)).unwrap_or(0))),
        (false, None | Some(0)) => Ok(wire::Logprobs::Omit),
        (false, Some(_)) => {
            Err(BadRequest::at(BadCode::InvalidValue, "top_logprobs", "it needs 'logprobs' to be true"))
        }
    }
}

/// Which log-probabilities a legacy completion asks for.
pub(super) fn text_logprobs(fields: &mut Fields) -> Result<wire::Logprobs, BadRequest> {
    let top = fields.read("logprobs", |value, path| small(value, path, 0..=5))?;
    Ok(top.map_or(wire::Logprobs::Omit, |top| wire::Logprobs::Top(u8::try_from(top).unwrap_or(0))))
}
