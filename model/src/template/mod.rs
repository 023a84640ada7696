//! Chat templates: messages to a prompt in which trusted and untrusted text stay apart.
//!
//! A template is a program that came with the model; it runs with fuel, a bound on its output, no files and no clock.
//! Each message's content goes in between two marks that hold a number nobody can guess, and is cut out of the output
//! by them. What a template writes itself is trusted, and may name special tokens; what stood between marks is not.
//!
//! What differs from Hugging Face's rendering: a template that looks *into* a content (`startswith`, `split`, `length`)
//! sees the marks. Trimming looks through them. Where marks come out broken or not at all, rendering fails.
//!
//! Architecture invariant: knows no tokenizer; draws no random number.

mod environment;
mod error;
mod mark;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write;

use minijinja::{Environment, Value};

use crate::gguf::Gguf;
use crate::tokenizer::Segment;
pub use error::TemplateError;
pub use mark::Nonce;

/// Fuel of one rendering by default: about so many instructions, or 64 times as many bytes copied.
pub const FUEL_DEFAULT: u64 = 1_000_000;
/// Most bytes of one rendering by default.
pub const OUTPUT_BYTES_DEFAULT: usize = 8 * 1024 * 1024;

const NAME: &str = "chat";

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions of whoever calls the API.
    System,
    /// The person who asks.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
    /// OpenAI's newer name for [`System`](Role::System); templates know it by the old one.
    Developer,
}

impl Role {
    /// The name that templates know.
    #[must_use]
    pub fn template_name(self) -> &'static str {
        match self {
            Role::System | Role::Developer => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One message of a chat. Its content is untrusted, whatever its role.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Who it is from.
    pub role: Role,
    /// What it says; may be empty.
    pub content: String,
}

/// Shows the role and a length only: a prompt appears in no log.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({:?}, {} bytes)", self.role, self.content.len())
    }
}

/// Whether the prompt ends with the beginning of the model's own message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationPrompt {
    /// It does: the model answers.
    Add,
    /// It does not.
    Omit,
}

/// What one rendering may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateLimits {
    /// See [`FUEL_DEFAULT`].
    pub fuel: u64,
    /// Most bytes of the output, marks included.
    pub output_bytes: usize,
}

impl Default for TemplateLimits {
    fn default() -> TemplateLimits {
        TemplateLimits { fuel: FUEL_DEFAULT, output_bytes: OUTPUT_BYTES_DEFAULT }
    }
}

/// A model's chat template, compiled.
pub struct ChatTemplate {
    environment: Environment<'static>,
    limits: TemplateLimits,
    bos: String,
    eos: String,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Compiles the template of a file; `None` when it has none, as base models have not.
    ///
    /// # Errors
    /// [`TemplateError::Invalid`] when it does not compile, [`TemplateError::Header`] when it is no text.
    pub fn from_gguf(gguf: &Gguf) -> Result<Option<ChatTemplate>, TemplateError> {
        let Some(source) = gguf.text("tokenizer.chat_template")? else { return Ok(None) };
        let tokens = gguf.texts("tokenizer.ggml.tokens")?.unwrap_or(&[]);
        let named = |key| -> Result<String, TemplateError> {
            let id = gguf.unsigned(key)?.and_then(|id| usize::try_from(id).ok());
            Ok(id.and_then(|id| tokens.get(id)).cloned().unwrap_or_default())
        };
        let (bos, eos) = (named("tokenizer.ggml.bos_token_id")?, named("tokenizer.ggml.eos_token_id")?);
        ChatTemplate::new(source, bos, eos).map(Some)
    }

    /// Compiles a template; `bos` and `eos` are the texts of the special tokens that it may write.
    ///
    /// # Errors
    /// [`TemplateError::Invalid`].
    pub fn new(source: &str, bos: String, eos: String) -> Result<ChatTemplate, TemplateError> {
        let mut environment = environment::environment();
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|error| TemplateError::Invalid { line: error.line() })?;
        let template = ChatTemplate { environment, limits: TemplateLimits::default(), bos, eos };
        Ok(template.with_limits(TemplateLimits::default()))
    }

    /// The same template with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: TemplateLimits) -> ChatTemplate {
        self.environment.set_fuel(Some(limits.fuel));
        self.limits = limits;
        self
    }

    /// Renders a chat. `nonce` must be fresh, and unknown to whoever wrote the messages.
    ///
    /// # Errors
    /// [`TemplateError`]: the template refused the messages, used up its fuel or output, or mangled a content.
    pub fn render(
        &self,
        messages: &[Message],
        generation: GenerationPrompt,
        nonce: &Nonce,
    ) -> Result<Vec<Segment>, TemplateError> {
        if messages.iter().any(|message| nonce.is_in(&message.content)) {
            return Err(TemplateError::NonceKnown);
        }
        let marked: Vec<Value> = messages
            .iter()
            .enumerate()
            .map(|(place, message)| {
                let content = nonce.mark(place, &message.content);
                let fields =
                    [("role", Value::from(message.role.template_name())), ("content", Value::from(content))];
                Value::from(BTreeMap::from(fields))
            })
            .collect();
        let context = Value::from(BTreeMap::from([
            ("messages", Value::from(marked)),
            ("add_generation_prompt", Value::from(generation == GenerationPrompt::Add)),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
        ]));
        let mut output = Bounded { bytes: Vec::new(), bound: self.limits.output_bytes, is_full: false };
        let template =
            self.environment.get_template(NAME).map_err(|error| TemplateError::of(&error, nonce))?;
        if let Err(error) = template.render_captured_to(context, &mut output) {
            let bound = self.limits.output_bytes;
            return Err(if output.is_full {
                TemplateError::OutputTooLong { bound }
            } else {
                TemplateError::of(&error, nonce)
            });
        }
        let text = String::from_utf8(output.bytes).map_err(|_| TemplateError::Mangled)?;
        nonce.cut(&text, messages)
    }
}

/// Takes bytes up to a bound.
struct Bounded {
    bytes: Vec<u8>,
    bound: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > self.bound.saturating_sub(self.bytes.len()) {
            self.is_full = true;
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
