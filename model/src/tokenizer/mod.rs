//! Byte-level BPE, built from a model file: text to token ids and back.
//!
//! Equal to llama.cpp's encoding, word for word, with one difference that is wanted: a special token is recognised in
//! trusted text alone. In untrusted text `<|im_end|>` is ten plain characters.
//!
//! Bytes that no token stands for vanish, as they do in llama.cpp (SmolLM2: 04 06 13 14 16 1d, which are control
//! characters, and c0 c1 f1 f2 f5 to ff, of which f1 and f2 start characters of planes 4 to 11, all unassigned).
//!
//! Nothing is cached between texts: how long a text takes says nothing about texts before it.
//!
//! Architecture invariant: knows no template and no role; holds no text.

mod alphabet;
mod decode;
mod error;
mod fast;
mod merges;
mod recall;
mod special;
mod split;
#[cfg(test)]
mod tests;
mod trie;
mod vocabulary;
mod word;

use crate::gguf::{Gguf, GgufError};
pub use decode::StreamDecoder;
pub use error::{TokenizerError, TooLong};
use merges::Merges;
use special::Specials;
use split::Splitter;
use trie::Trie;
use vocabulary::{Kind, Vocabulary};
use word::{Encoder, Over, Scratch};

/// A piece of a prompt, and whether it may name special tokens.
#[derive(Clone, PartialEq, Eq)]
pub enum Segment {
    /// Written by the operator or the model's template: special tokens in it are parsed.
    Trusted(String),
    /// Written by anyone else: nothing in it is more than text.
    Untrusted(String),
}

impl Segment {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Segment::Trusted(text) | Segment::Untrusted(text) => text,
        }
    }
}

/// Shows lengths only: a prompt appears in no log.
impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Segment::Trusted(_) => "Trusted",
            Segment::Untrusted(_) => "Untrusted",
        };
        write!(f, "{name}({} bytes)", self.text().len())
    }
}

/// Text to token ids and back, for one model.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    merges: Merges,
    trie: Trie,
    specials: Specials,
    splitter: Splitter,
    stop_tokens: Vec<u32>,
    bos: Option<u32>,
}

impl Tokenizer {
    /// Builds the tokenizer from a file's header.
    ///
    /// # Errors
    /// [`TokenizerError`] for whatever is not a byte-level BPE that we encode exactly.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer, TokenizerError> {
        let name = gguf.text("tokenizer.ggml.model")?.unwrap_or("");
        if name != "gpt2" {
            return Err(TokenizerError::Model { name: name.chars().take(64).collect() });
        }
        let name = gguf.text("tokenizer.ggml.pre")?.unwrap_or("");
        let splitter = Splitter::named(name)
            .ok_or_else(|| TokenizerError::PreTokenizer { name: name.chars().take(64).collect() })?;
        let vocabulary = Vocabulary::from_gguf(gguf)?;
        let list = merge_list(gguf, &vocabulary)?;
        let bytes = (0..=u8::MAX).filter_map(|byte| vocabulary.byte_token(byte));
        let merges = Merges::new(vocabulary.len(), bytes, &list)?;
        let trie = Trie::new(vocabulary.len(), vocabulary.plain(), |token| merges.is_born(token))?;
        if let Some((token, _)) = vocabulary.plain().find(|(token, bytes)| trie.whole(bytes) != Some(*token))
        {
            return Err(TokenizerError::DuplicateToken { token });
        }
        let specials = Specials::new(&vocabulary);
        let stop_tokens = stop_tokens(gguf, &vocabulary, &specials)?;
        let bos = bos(gguf, &vocabulary, splitter)?;
        Ok(Tokenizer { vocabulary, merges, trie, specials, splitter, stop_tokens, bos })
    }

    /// The token ids of a whole prompt of at most `limit` tokens.
    ///
    /// Text is cut at special tokens in trusted segments, and nowhere else: a word may span from a trusted segment into
    /// an untrusted one, as it would if the prompt were one string.
    ///
    /// # Errors
    /// [`TooLong`], as soon as that is certain.
    pub fn count(&self, segments: &[Segment], limit: usize) -> Result<Vec<u32>, TooLong> {
        let bytes = segments.iter().fold(0_usize, |sum, segment| sum.saturating_add(segment.text().len()));
        self.refuse_by_bytes(bytes, limit)?;
        let mut counted = Counted { tokenizer: self, limit, ids: Vec::new(), scratch: Scratch::new() };
        let mut run = String::new();
        for segment in segments {
            let mut rest = segment.text();
            while let Segment::Trusted(_) = segment
                && let Some(special) = self.specials.first(rest)
            {
                run.push_str(rest.get(..special.at).unwrap_or(""));
                counted.plain(&run)?;
                run.clear();
                counted.special(special.token)?;
                rest = rest.get(special.at.saturating_add(special.length)..).unwrap_or("");
            }
            run.push_str(rest);
        }
        counted.plain(&run)?;
        Ok(counted.ids)
    }

    /// The token ids of untrusted text.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn encode_plain(&self, text: &str, limit: usize) -> Result<Vec<u32>, TooLong> {
        self.refuse_by_bytes(text.len(), limit)?;
        let mut counted = Counted { tokenizer: self, limit, ids: Vec::new(), scratch: Scratch::new() };
        counted.plain(text)?;
        Ok(counted.ids)
    }

    /// The token ids of trusted text: special tokens in it are parsed.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn encode_trusted(&self, text: &str, limit: usize) -> Result<Vec<u32>, TooLong> {
        self.count(&[Segment::Trusted(text.to_owned())], limit)
    }

    /// True when text of so many bytes has more than `window` tokens whatever it says.
    ///
    /// Bytes that vanish are counted like others: a text above this length is refused unread.
    #[must_use]
    pub fn cannot_fit(&self, bytes: usize, window: usize) -> bool {
        bytes > window.saturating_mul(self.longest_token_bytes())
    }

    fn refuse_by_bytes(&self, bytes: usize, limit: usize) -> Result<(), TooLong> {
        if self.cannot_fit(bytes, limit) {
            return Err(TooLong { at_least: bytes.div_ceil(self.longest_token_bytes().max(1)), limit });
        }
        Ok(())
    }

    /// Bytes of the longest token, special ones included.
    #[must_use]
    pub fn longest_token_bytes(&self) -> usize {
        self.vocabulary.longest()
    }

    /// The bytes that a token stands for; for a control token, its name.
    #[must_use]
    pub fn token_bytes(&self, token: u32) -> Option<&[u8]> {
        self.vocabulary.bytes(token)
    }

    /// True for tokens that are no part of an answer's text, and for ids that are no token.
    #[must_use]
    pub fn is_control(&self, token: u32) -> bool {
        !matches!(self.vocabulary.kind(token), Some(Kind::Plain | Kind::Marked))
    }

    /// The tokens after which an answer has ended, in ascending order.
    #[must_use]
    pub fn stop_tokens(&self) -> &[u32] {
        &self.stop_tokens
    }

    /// Number of tokens.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token that a plain completion's prompt starts with, if this model wants one.
    #[must_use]
    pub fn add_bos(&self) -> Option<u32> {
        self.bos
    }
}

/// Names the kind of tokenizer and its sizes, not its 50,000 tokens.
impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("splitter", &self.splitter)
            .field("vocab", &self.vocab())
            .finish_non_exhaustive()
    }
}

/// Ids so far, and the limit that they must keep.
struct Counted<'t> {
    tokenizer: &'t Tokenizer,
    limit: usize,
    ids: Vec<u32>,
    scratch: Scratch,
}

impl Counted<'_> {
    fn special(&mut self, token: u32) -> Result<(), TooLong> {
        self.ids.push(token);
        self.within()
    }

    fn within(&self) -> Result<(), TooLong> {
        if self.ids.len() > self.limit {
            return Err(TooLong { at_least: self.ids.len(), limit: self.limit });
        }
        Ok(())
    }

    /// Text without special tokens.
    fn plain(&mut self, text: &str) -> Result<(), TooLong> {
        let mut rest = text;
        while !rest.is_empty() {
            let length = self.tokenizer.splitter.first_word(rest).max(1);
            // A scanner ends words between characters; were it ever to fail, the rest is one word.
            let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
            self.word(word.as_bytes())?;
            rest = after;
        }
        Ok(())
    }

    /// One word. Llama 3 takes a whole token where there is one; bytes without a token end a piece, and vanish.
    fn word(&mut self, word: &[u8]) -> Result<(), TooLong> {
        let tokenizer = self.tokenizer;
        if tokenizer.splitter == Splitter::Llama3
            && let Some(whole) = tokenizer.trie.whole(word)
        {
            self.ids.push(whole);
            return self.within();
        }
        let encoder =
            Encoder { merges: &tokenizer.merges, trie: &tokenizer.trie, vocabulary: &tokenizer.vocabulary };
        for piece in word.split(|byte| tokenizer.vocabulary.byte_token(*byte).is_none()) {
            let left = self.limit.saturating_sub(self.ids.len());
            let before = self.ids.len();
            encoder.encode(piece, left, &mut self.scratch, &mut self.ids).map_err(|Over { at_least }| {
                TooLong { at_least: before.saturating_add(at_least), limit: self.limit }
            })?;
        }
        Ok(())
    }
}

/// The merge rules as token ids.
fn merge_list(gguf: &Gguf, vocabulary: &Vocabulary) -> Result<Vec<(u32, u32, u32)>, TokenizerError> {
    let texts =
        gguf.texts("tokenizer.ggml.merges")?.ok_or(GgufError::Missing { key: "tokenizer.ggml.merges" })?;
    let table = alphabet::Table::new();
    let by_bytes: std::collections::HashMap<&[u8], u32> =
        vocabulary.plain().map(|(token, bytes)| (bytes, token)).collect();
    let mut list = Vec::with_capacity(texts.len());
    for (merge, text) in texts.iter().enumerate() {
        let rule = text.split_once(' ').and_then(|(left, right)| {
            let mut left = alphabet::bytes_of(left, &table)?;
            let right = alphabet::bytes_of(right, &table)?;
            let (one, other) = (*by_bytes.get(left.as_slice())?, *by_bytes.get(right.as_slice())?);
            left.extend(right);
            Some((one, other, *by_bytes.get(left.as_slice())?))
        });
        list.push(rule.ok_or(TokenizerError::BadMerge { merge })?);
    }
    Ok(list)
}

/// Ends of an answer: what the file names, and the usual names where they are special tokens.
fn stop_tokens(
    gguf: &Gguf,
    vocabulary: &Vocabulary,
    specials: &Specials,
) -> Result<Vec<u32>, TokenizerError> {
    const KEYS: [&str; 3] =
        ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];
    const NAMES: [&str; 5] = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"];
    let mut tokens = Vec::new();
    for key in KEYS {
        tokens.extend(token_under(gguf, vocabulary, key)?);
    }
    tokens.extend(NAMES.iter().filter_map(|name| specials.named(name)));
    tokens.sort_unstable();
    tokens.dedup();
    Ok(tokens)
}

fn bos(gguf: &Gguf, vocabulary: &Vocabulary, splitter: Splitter) -> Result<Option<u32>, TokenizerError> {
    // Llama 3 files say nothing and want it, as llama.cpp knows.
    let wanted = gguf.flag("tokenizer.ggml.add_bos_token")?.unwrap_or(splitter == Splitter::Llama3);
    if wanted { token_under(gguf, vocabulary, "tokenizer.ggml.bos_token_id") } else { Ok(None) }
}

fn token_under(
    gguf: &Gguf,
    vocabulary: &Vocabulary,
    key: &'static str,
) -> Result<Option<u32>, TokenizerError> {
    let Some(token) = gguf.unsigned(key)? else { return Ok(None) };
    let id = u32::try_from(token).ok().filter(|id| index(*id) < vocabulary.len());
    id.map(Some).ok_or(TokenizerError::NoSuchToken { key, token })
}

/// A token id as an index. Ids are below [`VOCAB_MAX`](crate::VOCAB_MAX), which any `usize` of ours holds.
fn index(token: u32) -> usize {
    usize::try_from(token).unwrap_or(usize::MAX)
}

/// An index as a token id; above all ids when it does not fit.
fn token(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
