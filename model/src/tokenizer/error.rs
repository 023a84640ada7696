//! Why a text or a file's tokenizer is refused.

use crate::gguf::GgufError;

/// The text has more tokens than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at least {at_least} tokens, where {limit} fit")]
pub struct TooLong {
    /// Tokens it has at least: counting stopped there, or its length in bytes alone says so.
    pub at_least: usize,
    /// Tokens that would fit.
    pub limit: usize,
}

/// Why a file's tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A key is missing or has the wrong type.
    #[error(transparent)]
    Header(#[from] GgufError),
    /// Not a byte-level BPE.
    #[error("tokenizer model {name:?} is not supported; \"gpt2\" (byte-level BPE) is")]
    Model {
        /// What the file says.
        name: String,
    },
    /// A pre-tokenizer that we do not have, or none named: to guess would be silently wrong.
    #[error("pre-tokenizer {name:?} is not supported; gpt-2, smollm, llama-bpe and qwen2 are")]
    PreTokenizer {
        /// What the file says.
        name: String,
    },
    /// No tokens, too many, or too long.
    #[error("the vocabulary is empty or above the bound of {bytes_max}")]
    VocabularyTooLarge {
        /// The bound: of tokens, or of the bytes of all of them.
        bytes_max: usize,
    },
    /// The list of types is not as long as the list of tokens.
    #[error("the lists of tokens and of their types differ in length")]
    TypesDoNotMatchTokens,
    /// A token without text.
    #[error("token {token} is empty")]
    EmptyToken {
        /// Its id.
        token: u32,
    },
    /// Two tokens of plain text with the same bytes.
    #[error("token {token} has the bytes of another")]
    DuplicateToken {
        /// The second one's id.
        token: u32,
    },
    /// A merge rule that is not two tokens with a space between, or whose halves or result are no plain tokens.
    #[error("merge rule {merge} does not join two plain tokens to a third")]
    BadMerge {
        /// Its place in the list, from 0.
        merge: usize,
    },
    /// A merge rule that comes before the rule that makes one of its halves.
    #[error("merge rule {merge} comes before one of its halves is made")]
    MergeOutOfOrder {
        /// Its place in the list, from 0.
        merge: usize,
    },
    /// A token id outside the vocabulary.
    #[error("{key} names token {token}, which is not in the vocabulary")]
    NoSuchToken {
        /// The key.
        key: &'static str,
        /// What it names.
        token: u64,
    },
}
