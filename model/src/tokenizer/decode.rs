//! Token ids back to text, one at a time: a character may span tokens, and the bytes may be no text at all.

use super::Tokenizer;

/// Turns token ids into text as they come.
///
/// # Invariants
/// What was pushed and what [`finish`](StreamDecoder::finish) returns, joined, is the lossy decoding of all tokens'
/// bytes joined. At most three bytes are held back.
#[derive(Default)]
pub struct StreamDecoder {
    held: Vec<u8>,
    text: String,
}

impl StreamDecoder {
    /// A decoder that has seen nothing.
    #[must_use]
    pub fn new() -> StreamDecoder {
        StreamDecoder::default()
    }

    /// The text that this token completes; empty when it ends inside a character, or is a control token or none.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> &str {
        self.text.clear();
        if !tokenizer.is_control(token) {
            self.held.extend_from_slice(tokenizer.token_bytes(token).unwrap_or(&[]));
            self.release();
        }
        &self.text
    }

    /// Moves all that is decided from `held` to `text`; keeps the beginning of a sequence that may yet be completed.
    fn release(&mut self) {
        let mut rest = self.held.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
            self.text.push_str(&String::from_utf8_lossy(valid));
            rest = after;
            // `None`: what is left may be the beginning of a character.
            let Some(invalid) = error.error_len() else { break };
            self.text.push(char::REPLACEMENT_CHARACTER);
            rest = rest.get(invalid..).unwrap_or(&[]);
        }
        if let Ok(valid) = std::str::from_utf8(rest) {
            self.text.push_str(valid);
            rest = &[];
        }
        let done = self.held.len().saturating_sub(rest.len());
        self.held.drain(..done);
    }

    /// What is held back at the end: a cut sequence becomes U+FFFD.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}
