//! From a body to sequences of token ids that fit, or a refusal with its numbers. Pure but for the random it is given.

use model::{GenerationPrompt, ModelText, Nonce, Segment, TemplateError};
use policies::Policy;
use tenant::{Ask, Scopes, WorstCase};

use crate::answer::{CapOf, Count, Denied, Forbidden, OverCap, TooLong};
use crate::fault::{Fault, seeded};
use crate::openai::{Call, Endpoint, Prompt, parse};

/// A request that fits.
pub(crate) struct Prepared {
    pub(crate) call: Call,
    /// Token ids of each prompt.
    pub(crate) prompts: Vec<Vec<u32>>,
    /// Output tokens of each sequence, at most.
    pub(crate) output: u32,
}

impl Prepared {
    /// What it asks of limits, at most: each prompt once, and each choice of each with its whole output.
    pub(crate) fn ask(&self) -> Ask {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let prompt_tokens = count(self.prompts.iter().map(Vec::len).sum());
        let choices = count(self.prompts.len()).saturating_mul(self.call.choices.into());
        Ask { prompt_tokens, output_tokens_max: self.output.saturating_mul(choices) }
    }

    /// The most that it may use; none where that is more than any request may.
    pub(crate) fn worst(&self) -> Option<WorstCase> {
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let prompt = wide(self.prompts.iter().map(Vec::len).sum());
        let choices = wide(self.prompts.len()).saturating_mul(self.call.choices.into());
        WorstCase::new(prompt, self.output.into(), choices).ok()
    }

    /// This, if a key of these scopes may send it. An answer whose length is not said is no longer than the key allows.
    ///
    /// # Errors
    /// What it may not.
    pub(crate) fn within(self, scopes: &Scopes) -> Result<Self, Denied> {
        if !scopes.allows_model(&self.call.model) {
            return Err(Denied::Forbidden(Forbidden::Model));
        }
        let longest = self.prompts.iter().map(Vec::len).max().unwrap_or(0);
        let asked = u32::try_from(longest).unwrap_or(u32::MAX);
        let allowed = scopes.prompt_max.narrow(u32::MAX);
        if asked > allowed {
            let param = self.call.endpoint.prompt_field();
            return Err(Denied::OverCap(OverCap { of: CapOf::Prompt, asked, allowed, param }));
        }
        let output = scopes.output_max.narrow(self.output);
        if output < self.output && self.call.max_tokens.is_some() {
            let (asked, param) = (self.output, self.call.max_tokens_field);
            return Err(Denied::OverCap(OverCap { of: CapOf::Output, asked, allowed: output, param }));
        }
        Ok(Self { output, ..self })
    }
}

/// Parses, renders and counts.
pub(crate) fn prepare(
    endpoint: Endpoint,
    body: &[u8],
    policy: &Policy,
    model: &ModelText,
    (window, nonce): (u32, [u8; 16]),
) -> Result<Prepared, Denied> {
    let window = if seeded(Fault::AnyLength) { u32::MAX } else { window };
    let call = parse(endpoint, body, policy).map_err(Denied::Bad)?;
    if call.model != model.name {
        return Err(Denied::NoSuchModel);
    }
    let vocab = model.tokenizer.vocab();
    if let Some((id, _)) = call.sampling.logit_bias.iter().find(|(id, _)| is_outside(*id, vocab)) {
        return Err(Denied::NoSuchToken { id: *id, vocab, param: "logit_bias" });
    }
    let output = call.max_tokens.unwrap_or(match endpoint {
        Endpoint::Chat => policy.output_tokens_default(),
        Endpoint::Completions => policy.completion_tokens_default(),
    });
    let room =
        Room { window, output, given: call.max_tokens.is_some(), field: call.max_tokens_field, endpoint };
    if output >= window && room.given {
        return Err(room.too_long(Count::AtLeast(1)));
    }
    let nonce = Nonce::new(nonce);
    let mut prompts = Vec::with_capacity(call.prompts.len());
    let mut longest = 0;
    for prompt in &call.prompts {
        let ids = room.count(model, prompt, &nonce)?;
        longest = longest.max(ids.len());
        prompts.push(ids);
    }
    // Without a limit of the caller's own, the default shrinks to what the window leaves.
    let left = window.saturating_sub(u32::try_from(longest).unwrap_or(u32::MAX));
    let output = if room.given { output } else { output.min(left) };
    if output == 0 || output > left {
        return Err(room.too_long(Count::Exactly(longest)));
    }
    Ok(Prepared { call, prompts, output })
}

/// What a prompt must leave room for.
struct Room {
    window: u32,
    output: u32,
    given: bool,
    field: &'static str,
    endpoint: Endpoint,
}

impl Room {
    fn count(&self, model: &ModelText, prompt: &Prompt, nonce: &Nonce) -> Result<Vec<u32>, Denied> {
        let param = self.endpoint.prompt_field();
        let window = usize::try_from(self.window).unwrap_or(usize::MAX);
        let tokenizer = &model.tokenizer;
        let ids = match prompt {
            Prompt::Chat(messages) => {
                let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
                self.refuse_by_bytes(model, bytes)?;
                let why = "this model has no chat template; use /v1/completions";
                let template = model.template.as_ref().ok_or(Denied::NoChat { why })?;
                let rendered = template.render(messages, GenerationPrompt::Add, nonce);
                let segments = rendered.map_err(|error| {
                    if matches!(error, TemplateError::OutputTooLong { .. }) {
                        return self.too_long(Count::AtLeast(window));
                    }
                    Denied::NoChat { why: "the model's chat template refuses these messages" }
                })?;
                self.tokens(model, &segments)?
            }
            Prompt::Text(text) => {
                self.refuse_by_bytes(model, text.len())?;
                self.tokens(model, &[Segment::Untrusted(text.clone())])?
            }
            Prompt::Tokens(ids) => {
                let vocab = tokenizer.vocab();
                if let Some(id) = ids.iter().find(|id| is_outside(**id, vocab)) {
                    return Err(Denied::NoSuchToken { id: *id, vocab, param });
                }
                ids.clone()
            }
        };
        if ids.is_empty() {
            return Err(Denied::EmptyPrompt { param });
        }
        let output = if self.given { self.output } else { 1 };
        let all = ids.len().saturating_add(usize::try_from(output).unwrap_or(usize::MAX));
        if all > window {
            return Err(self.too_long(Count::Exactly(ids.len())));
        }
        Ok(ids)
    }

    /// A prompt that cannot fit by its length alone is not tokenized.
    fn refuse_by_bytes(&self, model: &ModelText, bytes: usize) -> Result<(), Denied> {
        let window = usize::try_from(self.window).unwrap_or(usize::MAX);
        if !model.tokenizer.cannot_fit(bytes, window) {
            return Ok(());
        }
        let least = bytes.checked_div(model.tokenizer.longest_token_bytes()).unwrap_or(bytes);
        Err(self.too_long(Count::AtLeast(least)))
    }

    fn tokens(&self, model: &ModelText, segments: &[Segment]) -> Result<Vec<u32>, Denied> {
        let window = usize::try_from(self.window).unwrap_or(usize::MAX);
        let counted = model.tokenizer.count(segments, window);
        counted.map_err(|too_long| self.too_long(Count::AtLeast(too_long.at_least)))
    }

    fn too_long(&self, prompt: Count) -> Denied {
        let (Count::Exactly(tokens) | Count::AtLeast(tokens)) = prompt;
        // The prompt is to blame when it would not fit even with one token of output.
        let prompt_fits = tokens < usize::try_from(self.window).unwrap_or(usize::MAX);
        let param = if prompt_fits && self.given { self.field } else { self.endpoint.prompt_field() };
        let output = if self.given { self.output } else { 1 };
        Denied::TooLong(TooLong { window: self.window, prompt, output, param })
    }
}

fn is_outside(id: u32, vocab: usize) -> bool {
    usize::try_from(id).unwrap_or(usize::MAX) >= vocab
}
