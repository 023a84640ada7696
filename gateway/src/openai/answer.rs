//! The answer of one request: whole, or as server-sent events.

use serde::Serialize;

use super::call::Endpoint;
use super::logprob::{ChatLogprobs, TextLogprobs, TokenLogprob};
use super::stream::StreamMode;
use super::{event_bytes, json_bytes};

/// The event that ends a stream which completed, and no other.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// Why an answer that completed has no more tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Finish {
    /// The model ended it, or a string of `stop` came.
    Stop,
    /// All the tokens that were asked for.
    Length,
}

/// Tokens that a request took, all its prompts and choices together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Usage {
    /// Tokens of the prompts.
    pub(crate) prompt: u64,
    /// Those of them that came from the tenant's own prefix cache.
    pub(crate) cached: u64,
    /// Tokens that were generated.
    pub(crate) completion: u64,
}

/// What all events of one request have in common.
#[derive(Clone)]
pub(crate) struct Shape {
    /// Which contract it speaks.
    pub(crate) endpoint: Endpoint,
    /// Name of the answer, such as `chatcmpl-...`.
    pub(crate) id: String,
    /// Unix time in seconds.
    pub(crate) created: u64,
    /// The model that answers.
    pub(crate) model: String,
    /// Changes whenever equal seeds may give other answers.
    pub(crate) fingerprint: String,
    /// How the answer is sent.
    pub(crate) stream: StreamMode,
}

/// A piece of one choice. No `Debug`: it is the caller's.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// Which choice, from 0.
    pub(crate) index: u32,
    /// Its text, perhaps empty.
    pub(crate) text: &'a str,
    /// Its tokens, when they were asked for.
    pub(crate) logprobs: Option<&'a [TokenLogprob]>,
}

/// One choice, whole. No `Debug`: it is the caller's.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    /// Its text, perhaps empty.
    pub(crate) text: &'a str,
    /// Why it ended.
    pub(crate) finish: Finish,
    /// Its tokens, when they were asked for.
    pub(crate) logprobs: Option<&'a [TokenLogprob]>,
}

#[derive(Serialize)]
struct Envelope<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: &'a [C],
    /// Outer `None`: the field is left out; inner `None`: null.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageBody>>,
}

#[derive(Serialize)]
struct UsageBody {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

/// A choice of a chat: `said` is its `message` or its `delta`.
#[derive(Serialize)]
struct ChatChoice<'a> {
    index: u32,
    #[serde(flatten)]
    said: Said<'a>,
    logprobs: Option<ChatLogprobs<'a>>,
    finish_reason: Option<Finish>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Said<'a> {
    Message(WholeMessage<'a>),
    Delta(Delta<'a>),
}

#[derive(Serialize)]
struct WholeMessage<'a> {
    role: &'static str,
    content: &'a str,
    refusal: Option<()>,
}

#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

/// A choice of a legacy completion, whole or a piece.
#[derive(Serialize)]
struct TextChoice<'a> {
    text: &'a str,
    index: u32,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<Finish>,
}

impl Usage {
    const fn body(self) -> UsageBody {
        UsageBody {
            prompt_tokens: self.prompt,
            completion_tokens: self.completion,
            total_tokens: self.prompt.saturating_add(self.completion),
            prompt_tokens_details: PromptDetails { cached_tokens: self.cached },
            completion_tokens_details: CompletionDetails { reasoning_tokens: 0 },
        }
    }
}

impl Shape {
    /// The event that opens choice `index`: its role. A legacy completion has none, and this is empty.
    pub(crate) fn first_event(&self, index: u32) -> Vec<u8> {
        match self.endpoint {
            Endpoint::Chat => {
                self.chat_event(index, Delta { role: Some("assistant"), content: Some("") }, None, None)
            }
            Endpoint::Completions => Vec::new(),
        }
    }

    /// The event of one piece.
    pub(crate) fn piece_event(&self, piece: &Piece<'_>) -> Vec<u8> {
        match self.endpoint {
            Endpoint::Chat => {
                let delta = Delta { role: None, content: Some(piece.text) };
                self.chat_event(piece.index, delta, piece.logprobs, None)
            }
            Endpoint::Completions => self.text_event(piece, None),
        }
    }

    /// The event that ends choice `index`.
    pub(crate) fn finish_event(&self, index: u32, finish: Finish) -> Vec<u8> {
        match self.endpoint {
            Endpoint::Chat => self.chat_event(index, Delta::default(), None, Some(finish)),
            Endpoint::Completions => {
                self.text_event(&Piece { index, text: "", logprobs: None }, Some(finish))
            }
        }
    }

    /// The event that tells the usage; empty unless [`StreamMode::Events`] asks for it.
    pub(crate) fn usage_event(&self, usage: &Usage) -> Vec<u8> {
        match self.stream {
            StreamMode::Events { usage: true } => {
                event_bytes(&self.envelope::<TextChoice<'_>>(self.chunk(), &[], Some(Some(usage.body()))))
            }
            StreamMode::Events { usage: false } | StreamMode::Whole => Vec::new(),
        }
    }

    /// The body of an answer that is sent whole; a choice's index is its place.
    pub(crate) fn whole(&self, choices: &[Choice<'_>], usage: &Usage) -> Vec<u8> {
        let usage = Some(Some(usage.body()));
        match self.endpoint {
            Endpoint::Chat => {
                let choices: Vec<_> =
                    (0..).zip(choices).map(|(index, choice)| chat_choice(index, choice)).collect();
                json_bytes(&self.envelope("chat.completion", &choices, usage))
            }
            Endpoint::Completions => {
                let choices: Vec<_> =
                    (0..).zip(choices).map(|(index, choice)| text_choice(index, choice)).collect();
                json_bytes(&self.envelope("text_completion", &choices, usage))
            }
        }
    }

    fn chat_event(
        &self,
        index: u32,
        delta: Delta<'_>,
        logprobs: Option<&[TokenLogprob]>,
        finish: Option<Finish>,
    ) -> Vec<u8> {
        let choice = ChatChoice {
            index,
            said: Said::Delta(delta),
            logprobs: logprobs.map(ChatLogprobs::of),
            finish_reason: finish,
        };
        event_bytes(&self.envelope(self.chunk(), &[choice], self.no_usage()))
    }

    fn text_event(&self, piece: &Piece<'_>, finish: Option<Finish>) -> Vec<u8> {
        let choice = TextChoice {
            text: piece.text,
            index: piece.index,
            logprobs: piece.logprobs.map(TextLogprobs::of),
            finish_reason: finish,
        };
        event_bytes(&self.envelope(self.chunk(), &[choice], self.no_usage()))
    }

    fn envelope<'a, C>(
        &'a self,
        object: &'static str,
        choices: &'a [C],
        usage: Option<Option<UsageBody>>,
    ) -> Envelope<'a, C> {
        Envelope {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            system_fingerprint: &self.fingerprint,
            choices,
            usage,
        }
    }

    const fn chunk(&self) -> &'static str {
        match self.endpoint {
            Endpoint::Chat => "chat.completion.chunk",
            Endpoint::Completions => "text_completion",
        }
    }

    /// `usage` of a chunk that tells none.
    const fn no_usage(&self) -> Option<Option<UsageBody>> {
        match self.stream {
            StreamMode::Events { usage: true } => Some(None),
            StreamMode::Events { usage: false } | StreamMode::Whole => None,
        }
    }
}

fn chat_choice<'a>(index: u32, choice: &Choice<'a>) -> ChatChoice<'a> {
    ChatChoice {
        index,
        said: Said::Message(WholeMessage { role: "assistant", content: choice.text, refusal: None }),
        logprobs: choice.logprobs.map(ChatLogprobs::of),
        finish_reason: Some(choice.finish),
    }
}

fn text_choice<'a>(index: u32, choice: &Choice<'a>) -> TextChoice<'a> {
    TextChoice {
        text: choice.text,
        index,
        logprobs: choice.logprobs.map(TextLogprobs::of),
        finish_reason: Some(choice.finish),
    }
}
