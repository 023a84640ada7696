//! One sequence's tokens as text: whole characters, nothing of a stop string, nothing before it is sure not to be one.

use model::{ModelText, StreamDecoder};
use wire::TokenOut;

use crate::openai::TokenLogprob;

/// Turns tokens into text that may be sent.
pub(super) struct Teller {
    decoder: StreamDecoder,
    /// Decoded and not yet sent: its end may begin a stop string.
    held: String,
    /// Characters sent.
    sent_chars: usize,
    /// Log-probabilities not yet sent, and the characters decoded before each.
    waiting: Vec<TokenLogprob>,
    stops: Vec<String>,
    wants_logprobs: bool,
    tokens: u32,
    is_stopped: bool,
}

/// What may be sent now. No `Debug`: it is the caller's.
#[derive(Default)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) logprobs: Vec<TokenLogprob>,
}

impl Told {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.logprobs.is_empty()
    }
}

impl Teller {
    pub(super) fn new(stops: Vec<String>, wants_logprobs: bool) -> Self {
        Self {
            decoder: StreamDecoder::new(),
            held: String::new(),
            sent_chars: 0,
            waiting: Vec::new(),
            stops,
            wants_logprobs,
            tokens: 0,
            is_stopped: false,
        }
    }

    /// Tokens taken.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Whether a stop string came; nothing is taken after it.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Takes one token, and returns what may be sent by it.
    pub(super) fn take(&mut self, model: &ModelText, token: &TokenOut) -> Told {
        if self.is_stopped {
            return Told::default();
        }
        self.tokens = self.tokens.saturating_add(1);
        if self.wants_logprobs {
            let before = self.sent_chars.saturating_add(self.held.chars().count());
            self.waiting.push(logprob(model, token, before));
        }
        let text = self.decoder.push(&model.tokenizer, token.id);
        self.held.push_str(text);
        let stop = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = stop {
            self.is_stopped = true;
            self.held.truncate(at);
            return self.release(at, Rest::Drop);
        }
        let safe = self.held.len().saturating_sub(self.may_begin_a_stop());
        self.release(safe, Rest::Keep)
    }

    /// What is left when the sequence has ended by itself.
    pub(super) fn finish(&mut self) -> Told {
        let rest = std::mem::replace(&mut self.decoder, StreamDecoder::new()).finish();
        if self.is_stopped {
            return Told::default();
        }
        self.held.push_str(&rest);
        let all = self.held.len();
        self.release(all, Rest::All)
    }

    /// Bytes at the end of what is held that a stop string begins with.
    fn may_begin_a_stop(&self) -> usize {
        let longest = self.stops.iter().map(|stop| stop.len().saturating_sub(1)).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let tails = (from..self.held.len()).filter_map(|at| self.held.get(at..));
        tails
            .filter(|tail| self.stops.iter().any(|stop| stop.starts_with(tail)))
            .map(str::len)
            .max()
            .unwrap_or(0)
    }

    fn release(&mut self, bytes: usize, rest: Rest) -> Told {
        let text: String = self.held.drain(..bytes).collect();
        self.sent_chars = self.sent_chars.saturating_add(text.chars().count());
        let sent = self.sent_chars;
        // A token goes with its first character; one without any goes with what follows.
        let due = match rest {
            Rest::All => self.waiting.len(),
            Rest::Keep | Rest::Drop => {
                self.waiting.iter().take_while(|token| token.text_offset < sent).count()
            }
        };
        let logprobs = self.waiting.drain(..due).collect();
        if let Rest::Drop = rest {
            self.waiting.clear();
        }
        Told { text, logprobs }
    }
}

/// What becomes of log-probabilities beyond the text that is sent.
#[derive(Clone, Copy)]
enum Rest {
    Keep,
    Drop,
    All,
}

fn logprob(model: &ModelText, token: &TokenOut, text_offset: usize) -> TokenLogprob {
    let bytes = |id| model.tokenizer.token_bytes(id).unwrap_or_default().to_vec();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let top = token.top.iter().map(|&(id, logprob)| {
        let bytes = bytes(id);
        (text(&bytes), bytes, logprob)
    });
    let own = bytes(token.id);
    TokenLogprob { token: text(&own), logprob: token.logprob, top: top.collect(), bytes: own, text_offset }
}
