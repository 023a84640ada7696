//! What each token is: its bytes, whether it is text or control, and which bytes have no token.

use super::alphabet::{Table, bytes_of};
use super::{TokenizerError, index, token};
use crate::gguf::{Gguf, GgufError};
use crate::shape::VOCAB_MAX;

/// Most bytes of all tokens together.
const BYTES_MAX: usize = 1 << 26;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of plain text.
    Plain,
    /// Only trusted text may name it, and it is no part of an answer's text: ends, roles, unused places.
    Control,
    /// Only trusted text may name it, but when the model writes it, it is text.
    Marked,
}

/// All tokens of a file.
pub(super) struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each token's bytes end; they start where the one before ends.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    byte_tokens: Vec<u32>,
    longest_plain: usize,
    longest: usize,
}

impl Vocabulary {
    /// Reads `tokenizer.ggml.tokens` and `tokenizer.ggml.token_type`.
    pub(super) fn from_gguf(gguf: &Gguf) -> Result<Vocabulary, TokenizerError> {
        let texts = gguf
            .texts("tokenizer.ggml.tokens")?
            .ok_or(GgufError::Missing { key: "tokenizer.ggml.tokens" })?;
        if texts.is_empty() || texts.len() > VOCAB_MAX {
            return Err(TokenizerError::VocabularyTooLarge { bytes_max: VOCAB_MAX });
        }
        let types = gguf.integers("tokenizer.ggml.token_type")?;
        if types.is_some_and(|types| types.len() != texts.len()) {
            return Err(TokenizerError::TypesDoNotMatchTokens);
        }
        let table = Table::new();
        let mut vocabulary = Vocabulary {
            bytes: Vec::new(),
            ends: Vec::with_capacity(texts.len()),
            kinds: Vec::with_capacity(texts.len()),
            byte_tokens: vec![NONE; 256],
            longest_plain: 1,
            longest: 1,
        };
        for (id, text) in texts.iter().enumerate() {
            let number = types.and_then(|types| types.get(id)).copied().unwrap_or(TYPE_NORMAL);
            vocabulary.add(text, number, &table)?;
        }
        Ok(vocabulary)
    }

    fn add(&mut self, text: &str, number: i64, table: &Table) -> Result<(), TokenizerError> {
        let id = token(self.kinds.len());
        if text.is_empty() {
            return Err(TokenizerError::EmptyToken { token: id });
        }
        // A token of type "normal" whose text is not of the alphabet cannot come from merges: it is marked text.
        let spelt = bytes_of(text, table);
        let (kind, bytes) = match (number, spelt) {
            (TYPE_NORMAL, Some(bytes)) => (Kind::Plain, bytes),
            (TYPE_NORMAL | TYPE_USER_DEFINED, _) => (Kind::Marked, text.as_bytes().to_vec()),
            _ => (Kind::Control, text.as_bytes().to_vec()),
        };
        if kind == Kind::Plain {
            self.longest_plain = self.longest_plain.max(bytes.len());
            if let &[byte] = bytes.as_slice()
                && let Some(place) = self.byte_tokens.get_mut(usize::from(byte))
            {
                *place = id;
            }
        }
        self.longest = self.longest.max(bytes.len());
        self.bytes.extend(bytes);
        if self.bytes.len() > BYTES_MAX {
            return Err(TokenizerError::VocabularyTooLarge { bytes_max: BYTES_MAX });
        }
        self.ends.push(token(self.bytes.len()));
        self.kinds.push(kind);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn kind(&self, token: u32) -> Option<Kind> {
        self.kinds.get(index(token)).copied()
    }

    pub(super) fn bytes(&self, token: u32) -> Option<&[u8]> {
        let end = index(*self.ends.get(index(token))?);
        let start =
            token.checked_sub(1).and_then(|before| self.ends.get(index(before))).map_or(0, |end| index(*end));
        self.bytes.get(start..end)
    }

    /// Length in bytes; 0 for no token.
    pub(super) fn length(&self, token: u32) -> usize {
        let end_of = |token: u32| self.ends.get(index(token)).copied();
        let start = token.checked_sub(1).and_then(end_of).unwrap_or(0);
        end_of(token).map_or(0, |end| index(end.saturating_sub(start)))
    }

    pub(super) fn byte_token(&self, byte: u8) -> Option<u32> {
        self.byte_tokens.get(usize::from(byte)).copied().filter(|token| *token != NONE)
    }

    pub(super) fn longest_plain(&self) -> usize {
        self.longest_plain
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Ids and bytes of all tokens of plain text.
    pub(super) fn plain(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..token(self.len()))
            .filter(|token| self.kind(*token) == Some(Kind::Plain))
            .filter_map(|token| self.bytes(token).map(|bytes| (token, bytes)))
    }
}

// Token types of the format: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
const TYPE_NORMAL: i64 = 1;
const TYPE_USER_DEFINED: i64 = 4;
