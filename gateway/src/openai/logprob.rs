//! Log-probabilities, in the two forms that OpenAI gives them.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// What stands for a probability of zero, as at OpenAI: JSON has no infinity.
const LOGPROB_MIN: f32 = -9999.0;

/// One token of an answer, with its log-probability and those of the likeliest.
#[derive(Clone, PartialEq)]
pub(crate) struct TokenLogprob {
    /// The token as text; not UTF-8 by itself, it has U+FFFD.
    pub(crate) token: String,
    /// The token's bytes.
    pub(crate) bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub(crate) logprob: f32,
    /// The likeliest tokens: text, bytes, log-probability; likeliest first.
    pub(crate) top: Vec<(String, Vec<u8>, f32)>,
    /// Characters (Unicode scalar values) of the answer before this token.
    pub(crate) text_offset: usize,
}

/// Finite, at most 0 and never -0, so that equal values have equal bytes.
fn told(logprob: f32) -> f32 {
    if logprob.is_nan() {
        return LOGPROB_MIN;
    }
    let within = logprob.clamp(LOGPROB_MIN, 0.0);
    if within == 0.0 { 0.0 } else { within }
}

/// `choices[].logprobs` of a chat.
#[derive(Serialize)]
pub(super) struct ChatLogprobs<'a> {
    content: Vec<ChatToken<'a>>,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct ChatToken<'a> {
    token: &'a str,
    logprob: f32,
    bytes: &'a [u8],
    top_logprobs: Vec<ChatTop<'a>>,
}

#[derive(Serialize)]
struct ChatTop<'a> {
    token: &'a str,
    logprob: f32,
    bytes: &'a [u8],
}

impl<'a> ChatLogprobs<'a> {
    pub(super) fn of(tokens: &'a [TokenLogprob]) -> Self {
        let content = tokens.iter().map(|token| ChatToken {
            token: &token.token,
            logprob: told(token.logprob),
            bytes: &token.bytes,
            top_logprobs: token.top.iter().map(ChatTop::of).collect(),
        });
        Self { content: content.collect(), refusal: None }
    }
}

impl<'a> ChatTop<'a> {
    fn of((token, bytes, logprob): &'a (String, Vec<u8>, f32)) -> Self {
        Self { token, logprob: told(*logprob), bytes }
    }
}

/// `choices[].logprobs` of a legacy completion.
#[derive(Serialize)]
pub(super) struct TextLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f32>,
    top_logprobs: Vec<Tops>,
    text_offset: Vec<usize>,
}

/// Names and log-probabilities, each name once: an object, whose order is kept.
struct Tops(Vec<(String, f32)>);

impl Serialize for Tops {
    fn serialize<S: Serializer>(&self, target: S) -> Result<S::Ok, S::Error> {
        let mut map = target.serialize_map(Some(self.0.len()))?;
        for (name, logprob) in &self.0 {
            map.serialize_entry(name, logprob)?;
        }
        map.end()
    }
}

impl TextLogprobs {
    pub(super) fn of(tokens: &[TokenLogprob]) -> Self {
        Self {
            tokens: tokens.iter().map(|token| text_name(&token.token, &token.bytes)).collect(),
            token_logprobs: tokens.iter().map(|token| told(token.logprob)).collect(),
            top_logprobs: tokens.iter().map(Tops::of).collect(),
            text_offset: tokens.iter().map(|token| token.text_offset).collect(),
        }
    }
}

impl Tops {
    /// The likeliest, and the chosen token too when it is not among them: OpenAI always gives it.
    fn of(token: &TokenLogprob) -> Self {
        let top = token.top.iter().map(|(text, bytes, logprob)| (text_name(text, bytes), *logprob));
        let mut named: Vec<(String, f32)> = Vec::new();
        for (name, logprob) in top.chain([(text_name(&token.token, &token.bytes), token.logprob)]) {
            if named.iter().all(|(before, _)| *before != name) {
                named.push((name, told(logprob)));
            }
        }
        Self(named)
    }
}

/// How a legacy completion names a token: by its text, or, when its bytes are no text by themselves, by their values.
fn text_name(text: &str, bytes: &[u8]) -> String {
    if core::str::from_utf8(bytes).is_ok() {
        return text.to_owned();
    }
    let values: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("bytes:{values}")
}
