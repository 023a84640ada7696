//! Batch-invariant number crunching on the CPU: packed matrices, attention over pages, and what lies between.
//!
//! **Architecture invariant (P1):** the value of an output element depends on its own row and the weights alone. It is reduced
//! in one fixed order, whatever the batch, the chunking, the thread count and the instruction set, so every path gives the same
//! bits. Knows no tenant and no request; imports nothing of ours.
//!
//! **Architecture invariant (P3):** keys and values leave a page only through [`kv::Kv::open`], which compares the capability
//! that the caller shows with the page's own [`label`]: opaque owner, generation, filled length.
//!
//! The only crate with `unsafe`. Shapes are checked where a caller comes in ([`KernelError::Shape`]); behind that border loops
//! index and count freely.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "inner loops over shapes that were checked at the border; counts are far below the types' limits"
)]

mod aligned;
pub mod attention;
pub mod cpu;
mod exp;
pub mod fault;
pub mod kv;
pub mod label;
mod matmul;
pub mod matrix;
pub mod pool;
pub mod rows;
pub mod vector;

pub use cpu::{Cpu, Isa};
pub use label::{Capability, Denied};
pub use matmul::matmul;
pub use matrix::{Matrix, Quant};
pub use pool::Pool;
pub use rows::Rows;

use thiserror::Error;

/// Why a kernel did not run.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum KernelError {
    /// A slice or matrix has not the size that the others ask for.
    #[error("{what}: {found} where {wanted} is needed")]
    Shape {
        /// Which argument.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The size asked for.
        wanted: usize,
    },
    /// This CPU lacks the instruction set.
    #[error("this CPU has no {isa:?}")]
    Unsupported {
        /// What was asked for.
        isa: Isa,
    },
    /// Memory for this many bytes cannot be had.
    #[error("no memory for {bytes} bytes")]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A page is not what its capability says. Nothing of it was read or written; results of the call are void.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// A worker thread panicked; results of the call are void.
    #[error("a worker thread panicked")]
    WorkerPanicked,
    /// A thread could not be started.
    #[error("worker thread {index} could not be started")]
    NoThread {
        /// Which one.
        index: usize,
    },
}

/// Refuses a size that is not the one needed.
pub(crate) fn expect_len(what: &'static str, found: usize, wanted: usize) -> Result<(), KernelError> {
    if found == wanted { Ok(()) } else { Err(KernelError::Shape { what, found, wanted }) }
}
