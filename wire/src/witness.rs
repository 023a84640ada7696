//! What one side saw of a sequence, in digests and numbers. The engine signs what it makes of that, and the gateway, which saw
//! the same from the other side, compares.

use crate::message::{Evidence, Finished, Submit, TokenOut};
use crate::statement::Statement;
use crate::ticket::{count, digest_tokens, fixed};
use ring::digest;

/// Separate these uses of SHA-256 from every other; bump with any change to what is covered.
const OUTPUT_DOMAIN: &[u8] = b"bulkhead output ids v1\0";
const BIAS_DOMAIN: &[u8] = b"bulkhead logit bias v1\0";

/// The digest of output ids, as they come: SHA-256 over a domain, each id, and their count. (That of a prompt has its count
/// first, which an output does not know then.)
#[derive(Clone)]
pub struct OutputDigest {
    context: digest::Context,
    tokens: u64,
}

impl Default for OutputDigest {
    fn default() -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(OUTPUT_DOMAIN);
        Self { context, tokens: 0 }
    }
}

impl OutputDigest {
    /// Takes the next id.
    pub fn push(&mut self, id: u32) {
        self.context.update(&id.to_le_bytes());
        self.tokens = self.tokens.saturating_add(1);
    }

    /// Of all ids so far.
    #[must_use]
    pub fn finish(&self) -> [u8; 32] {
        let mut context = self.context.clone();
        context.update(&self.tokens.to_le_bytes());
        fixed(context.finish().as_ref())
    }
}

/// The digest of what is added to logits: SHA-256 over a domain, the count, and each id with the bits of its number.
#[must_use]
pub fn digest_bias(bias: &[(u32, f32)]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(BIAS_DOMAIN);
    context.update(&count(bias.len()));
    for (id, bias) in bias {
        context.update(&id.to_le_bytes());
        context.update(&bias.to_bits().to_le_bytes());
    }
    fixed(context.finish().as_ref())
}

/// See the module. Holds no token.
pub struct Witness {
    /// What is known from the start; the rest comes.
    known: Statement,
    is_proved: bool,
    output: OutputDigest,
}

impl Witness {
    /// Of what was asked of the engine, which runs this model.
    #[must_use]
    pub fn of(submit: &Submit, model: [u8; 32]) -> Self {
        let sampling = &submit.sampling;
        let known = Statement {
            request: submit.request,
            epoch: submit.epoch,
            model,
            prompt_sha256: [0; 32],
            prompt_tokens: u32::try_from(submit.prompt.len()).unwrap_or(u32::MAX),
            cached: 0,
            written: 0,
            attended: 0,
            pages: 0,
            generations: 0,
            max_tokens: submit.max_tokens,
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: sampling.min_p,
            frequency_penalty: sampling.frequency_penalty,
            presence_penalty: sampling.presence_penalty,
            logit_bias_sha256: digest_bias(&sampling.logit_bias),
            stop_sha256: digest_tokens(&submit.stop_tokens),
            seed: sampling.seed,
            finish: Finished::Stop,
            output_tokens: 0,
            output_sha256: [0; 32],
        };
        Self { known, is_proved: false, output: OutputDigest::default() }
    }

    /// Takes note of what prefill consumed.
    pub fn proved(&mut self, evidence: &Evidence) {
        let Evidence { prompt_digest, written, attended, cached, pages, generations } = *evidence;
        self.known = Statement {
            prompt_sha256: prompt_digest,
            written,
            attended,
            cached,
            pages,
            generations,
            ..self.known
        };
        self.is_proved = true;
    }

    /// Takes note of tokens that were sent, in their order.
    pub fn sent(&mut self, tokens: &[TokenOut]) {
        for token in tokens {
            self.output.push(token.id);
            self.known.output_tokens = self.known.output_tokens.saturating_add(1);
        }
    }

    /// What there is to state of a sequence that completed so; `None` before it has proved its prefill.
    #[must_use]
    pub fn stated(&self, finish: Finished) -> Option<Statement> {
        let output_sha256 = self.output.finish();
        self.is_proved.then(|| Statement { finish, output_sha256, ..self.known.clone() })
    }
}
