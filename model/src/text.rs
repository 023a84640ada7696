//! All that an edge needs of a model: its tokenizer, its template, its window. Read from the header alone.

use std::path::Path;

use crate::file::{ModelError, ModelFile};
use crate::shape::{LlamaShape, ShapeError};
use crate::template::{ChatTemplate, TemplateError};
use crate::tokenizer::{Tokenizer, TokenizerError};

/// A model, as far as text is concerned.
#[derive(Debug)]
pub struct ModelText {
    /// Text to token ids and back.
    pub tokenizer: Tokenizer,
    /// Messages to a prompt; base models have none.
    pub template: Option<ChatTemplate>,
    /// What callers name it by: the file's name without `.gguf`.
    pub name: String,
    /// Tokens of the window that the model was trained for.
    pub context: usize,
}

/// Why a model's text side cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelTextError {
    /// The file.
    #[error(transparent)]
    File(#[from] ModelError),
    /// Its shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Its tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// Its chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Embedding and tokenizer disagree.
    #[error("the embedding has {rows} rows, the tokenizer {tokens} tokens")]
    Vocabulary {
        /// Rows of the embedding.
        rows: usize,
        /// Tokens.
        tokens: usize,
    },
    /// The file's name gives no name for the model.
    #[error("the model file's name is no name for a model")]
    Name,
}

impl ModelText {
    /// Reads the header of a model file.
    ///
    /// # Errors
    /// [`ModelTextError`].
    pub fn load(path: &Path) -> Result<ModelText, ModelTextError> {
        let file = ModelFile::open(path)?;
        let shape = LlamaShape::from_gguf(file.header())?;
        let tokenizer = Tokenizer::from_gguf(file.header())?;
        if tokenizer.vocab() != shape.vocab {
            return Err(ModelTextError::Vocabulary { rows: shape.vocab, tokens: tokenizer.vocab() });
        }
        let template = ChatTemplate::from_gguf(file.header())?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).ok_or(ModelTextError::Name)?.to_owned();
        Ok(ModelText { tokenizer, template, name, context: shape.context })
    }
}
