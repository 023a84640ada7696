//! One request, as the gateway understands it.

use model::Message;
use policies::Policy;

use crate::fault::{Fault, seeded};

use super::error::{BadCode, BadRequest};
use super::extras;
use super::field::{Fields, list, text};
use super::json::{self, Json};
use super::number::small;
use super::sampling::{Sampling, chat_logprobs, text_logprobs};
use super::stream::StreamMode;
use super::{chat, prompt};

/// Bytes of a model's name at most.
const MODEL_BYTES_MAX: usize = 256;

/// Which of OpenAI's two contracts a request speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Endpoint {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
}

impl Endpoint {
    /// The field that holds what is asked: `param` of a prompt that does not fit.
    pub(crate) const fn prompt_field(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Completions => "prompt",
        }
    }
}

/// One prompt. No `Debug`: it is the caller's.
#[derive(Clone, PartialEq)]
pub(crate) enum Prompt {
    /// Messages, at least one.
    Chat(Vec<Message>),
    /// Text, perhaps empty.
    Text(String),
    /// Token ids, at least one; not compared with any vocabulary yet.
    Tokens(Vec<u32>),
}

/// One request, within the policy's bounds. No `Debug`: it holds prompts.
#[derive(Clone, PartialEq)]
pub(crate) struct Call {
    /// Which contract it speaks.
    pub(crate) endpoint: Endpoint,
    /// The model asked for, 1 to 256 bytes; not compared with what there is yet.
    pub(crate) model: String,
    /// At least one; more than one for [`Endpoint::Completions`] alone.
    pub(crate) prompts: Vec<Prompt>,
    /// Answers to each prompt, at least 1 (`n`).
    pub(crate) choices: u8,
    /// Output tokens of each answer at most, at least 1; none given means the policy's default.
    pub(crate) max_tokens: Option<u32>,
    /// The name that the body gave that limit by: `max_tokens` or `max_completion_tokens`.
    pub(crate) max_tokens_field: &'static str,
    /// Strings that end an answer, none of them empty.
    pub(crate) stop: Vec<String>,
    /// How the next token is chosen.
    pub(crate) sampling: Sampling,
    /// Which log-probabilities go back.
    pub(crate) logprobs: wire::Logprobs,
    /// How the answer is sent.
    pub(crate) stream: StreamMode,
}

/// Reads the body of a request; the caller bounds its bytes.
///
/// # Errors
/// The first thing that is wrong: see [`BadCode`].
pub(crate) fn parse(endpoint: Endpoint, body: &[u8], policy: &Policy) -> Result<Call, BadRequest> {
    let mut fields = Fields::of_body(json::read(body, policy.json_depth_max())?)?;
    let model = fields.require("model", model_name)?;
    let prompts = match endpoint {
        Endpoint::Chat => {
            let read = |value, path: &str| chat::messages(value, path, policy.messages_max());
            vec![Prompt::Chat(fields.require("messages", read)?)]
        }
        Endpoint::Completions => {
            fields.require("prompt", |value, path| prompt::prompts(value, path, policy))?
        }
    };
    let (max_tokens, max_tokens_field) = output_limit(endpoint, &mut fields)?;
    let sampling = Sampling::take(&mut fields, policy)?;
    let logprobs = match endpoint {
        Endpoint::Chat => chat_logprobs(&mut fields)?,
        Endpoint::Completions => text_logprobs(&mut fields)?,
    };
    let stream = StreamMode::take(&mut fields)?;
    let stop = fields.read("stop", |value, path| stops(value, path, policy))?.unwrap_or_default();
    let choices_max = u8::try_from(policy.choices_max()).unwrap_or(u8::MAX);
    let choices =
        fields.read("n", |value, path| small(value, path, 1..=u32::from(choices_max)))?.unwrap_or(1);
    match endpoint {
        Endpoint::Chat => extras::of_chat(&mut fields)?,
        Endpoint::Completions => extras::of_completion(&mut fields)?,
    }
    if !seeded(Fault::UnknownFields) {
        fields.finish()?;
    }
    Ok(Call {
        endpoint,
        model,
        prompts,
        choices: u8::try_from(choices).unwrap_or(choices_max),
        max_tokens,
        max_tokens_field,
        stop,
        sampling,
        logprobs,
        stream,
    })
}

fn model_name(value: Json, path: &str) -> Result<String, BadRequest> {
    let name = text(value, path)?;
    sized(&name, path, MODEL_BYTES_MAX)?;
    Ok(name)
}

/// The limit of output tokens, and the name it came by. A chat has two names for it, which must not disagree.
fn output_limit(endpoint: Endpoint, fields: &mut Fields) -> Result<(Option<u32>, &'static str), BadRequest> {
    const OLD: &str = "max_tokens";
    const NEW: &str = "max_completion_tokens";
    let positive = |value, path: &str| small(value, path, 1..=u32::MAX);
    let old = fields.read(OLD, positive)?;
    let new = match endpoint {
        Endpoint::Chat => fields.read(NEW, positive)?,
        Endpoint::Completions => None,
    };
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            let what = format!("it says {old} and '{NEW}' says {new}; give one of them");
            Err(BadRequest::at(BadCode::InvalidValue, OLD, what))
        }
        (_, Some(new)) => Ok((Some(new), NEW)),
        (old, None) => Ok((old, OLD)),
    }
}

fn stops(value: Json, path: &str, policy: &Policy) -> Result<Vec<String>, BadRequest> {
    let bytes_max = policy.stop_bytes_max();
    if let Json::Text(stop) = value {
        sized(&stop, path, bytes_max)?;
        super::field::at_most(1, path, policy.stop_sequences_max())?;
        return Ok(vec![stop]);
    }
    let Json::Array(_) = value else {
        return Err(super::field::wrong_type(path, "a string or an array of strings", &value));
    };
    let entry = |(index, value)| {
        let at = format!("{path}[{index}]");
        let stop = text(value, &at)?;
        sized(&stop, &at, bytes_max)?;
        Ok(stop)
    };
    list(value, path, policy.stop_sequences_max())?.into_iter().enumerate().map(entry).collect()
}

/// Refuses a string of no bytes, or of more than `most`.
fn sized(value: &str, path: &str, most: usize) -> Result<(), BadRequest> {
    if value.is_empty() {
        return Err(BadRequest::at(BadCode::EmptyString, path, "it is empty"));
    }
    if value.len() > most {
        let what = format!("it has {} bytes, and at most {most} are allowed", value.len());
        return Err(BadRequest::at(BadCode::StringAboveMaxLength, path, what));
    }
    Ok(())
}
