//! What may go wrong when a model is loaded, and how far loading has come.

use isolation::units::Tokens;
use kernels::KernelError;
use model::{ModelError, ShapeError};
use thiserror::Error;

/// How far loading has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoadProgress {
    /// Bytes of tensors packed.
    pub done: u64,
    /// Bytes of tensors in all.
    pub total: u64,
}

/// Why a device cannot be had.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read, or is no model file.
    #[error(transparent)]
    File(#[from] ModelError),
    /// The model is none that we can compute.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A tensor that the shape needs is not there.
    #[error("the model file has no tensor {name}")]
    NoTensor {
        /// Its name.
        name: String,
    },
    /// A tensor has other sizes than the shape says.
    #[error("tensor {name} is {found} where {wanted} is needed")]
    Tensor {
        /// Its name.
        name: String,
        /// Its size.
        found: u64,
        /// The size needed.
        wanted: u64,
    },
    /// A norm is stored in a number format that is not 32-bit float.
    #[error("tensor {name} is not stored as 32-bit floats")]
    NotFloat {
        /// Its name.
        name: String,
    },
    /// The pool's memory cannot be had.
    #[error(
        "no memory for a pool of {tokens} tokens: {pages} pages of {page_bytes} bytes; ask for fewer tokens or free memory"
    )]
    NoMemoryForPool {
        /// Tokens asked for.
        tokens: Tokens,
        /// Bytes of one page.
        page_bytes: usize,
        /// Pages needed.
        pages: usize,
    },
    /// A kernel refused the sizes, or this CPU or its memory is too small.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}
