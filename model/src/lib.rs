//! What a model file says: metadata, tensors, tokenizer, chat template; where to get one, and whether it is the right one.
//!
//! The public interface is:
//! - [`Gguf`] and [`ModelFile`]: the header of a file, and positioned reads of its tensors;
//! - [`LlamaShape`]: the numbers that the Llama family is computed with;
//! - [`Tokenizer`] and [`StreamDecoder`]: text to token ids and back; [`Segment`] keeps trusted text apart from the rest;
//! - [`ChatTemplate`]: messages to segments;
//! - [`ModelText`]: all that an edge needs of a model, read from the header alone;
//! - [`catalog`] and [`fetch`]: which models there are, and how to get one that is surely the right one;
//! - [`Summary`]: what a header says, for a person.
//!
//! Architecture invariant: imports no other crate of ours; knows no tenant, no request and no kernel.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

pub mod catalog;
pub mod fetch;
mod file;
mod gguf;
mod shape;
mod summary;
mod template;
#[cfg(test)]
mod testing;
mod text;
mod tokenizer;

pub use file::{ModelError, ModelFile};
pub use gguf::{
    ALIGNMENT_MAX, ARRAY_DEPTH_MAX, ARRAY_LEN_MAX, Array, DIMS_MAX, Gguf, GgufError, HELD_BYTES_MAX,
    KEY_BYTES_MAX, METADATA_MAX, STRING_BYTES_MAX, TENSOR_NAME_BYTES_MAX, TENSORS_MAX, TensorInfo,
    TensorKind, Value,
};
pub use shape::{CONTEXT_MAX, HEADS_MAX, LAYERS_MAX, LlamaShape, ShapeError, VOCAB_MAX, WIDTH_MAX};
pub use summary::Summary;
pub use template::{
    ChatTemplate, FUEL_DEFAULT, GenerationPrompt, Message, Nonce, OUTPUT_BYTES_DEFAULT, Role, TemplateError,
    TemplateLimits,
};
pub use text::{ModelText, ModelTextError};
pub use tokenizer::{Segment, StreamDecoder, Tokenizer, TokenizerError, TooLong};
