//! The border between the scheduler and the hardware. Knows no queue and no tenant beyond the tag in an [`Access`].

pub mod cpu;
pub mod stamp;

use isolation::{
    access::Access,
    page::Erase,
    step::{OpenStep, StepReceipt},
    units::{PageSize, Pages, StepId, Tokens},
};
use thiserror::Error;

/// What one chunk is to give back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Want {
    /// Nothing: more of the prompt is to come.
    Nothing,
    /// The logits of its last row.
    LastLogits,
}

/// Consecutive tokens of one sequence in one step.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Their ids; as many as `access.len()`.
    pub tokens: &'a [u32],
    /// Where they are written, and what they may read.
    pub access: &'a Access,
    /// What is to come back.
    pub want: Want,
}

/// What a device is, and what it truly holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceFacts {
    /// Token ids are below this; also the length of a row of logits.
    pub vocab: usize,
    /// Tokens a page holds.
    pub page_size: PageSize,
    /// Pages measured: allocated and touched (P4).
    pub pages: Pages,
    /// The longest context that the model was trained for.
    pub context_trained: Tokens,
    /// Tokens that one step takes at most, all chunks together; at least 1.
    pub chunk_max: Tokens,
    /// SHA-256 of the model file.
    pub model_digest: [u8; 32],
}

/// Memory for pages, and what computes on them.
pub trait Device: Erase<Error = DeviceFault> {
    /// What it is; never changes.
    fn facts(&self) -> DeviceFacts;

    /// Runs one step to its end. `logits` is cleared, then gets one row of `vocab` numbers for each chunk that wants it, in
    /// the order of `chunks`.
    ///
    /// The receipt comes whatever the result: with it, nothing of this step is in flight. It is `step.finish()` with `Ok`
    /// and `step.fail()` with `Err`.
    fn run(
        &mut self,
        step: OpenStep,
        chunks: &[Chunk<'_>],
        logits: &mut Vec<f32>,
    ) -> (StepReceipt, Result<(), DeviceFault>);
}

/// Why a device refused or broke a step. None of these can come from a client: each is a fault of ours or of the machine.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum DeviceFault {
    /// A chunk is for another step than the one that runs.
    #[error("a chunk of step {named} in step {step}")]
    OtherStep {
        /// What the chunk names.
        named: StepId,
        /// What runs.
        step: StepId,
    },
    /// A chunk has another number of tokens than its access covers.
    #[error("{tokens} tokens for an access of {access}")]
    Length {
        /// Tokens given.
        tokens: usize,
        /// Tokens that the access covers.
        access: Tokens,
    },
    /// The page table does not reach the bound.
    #[error("a page table of {pages} pages for {bound} tokens")]
    Table {
        /// Pages in the table.
        pages: usize,
        /// Positions that it must cover.
        bound: Tokens,
    },
    /// A page lies outside the device's memory.
    #[error("page {page} of {pages}")]
    Page {
        /// Its index.
        page: usize,
        /// Pages that the device holds.
        pages: Pages,
    },
    /// A token id is outside the vocabulary.
    #[error("token {id} of {vocab}")]
    Token {
        /// The id.
        id: u32,
        /// Ids are below this.
        vocab: usize,
    },
    /// A step is larger than the device takes.
    #[error("{tokens} tokens in a step of at most {chunk_max}")]
    Step {
        /// Tokens of all chunks.
        tokens: usize,
        /// The most it takes.
        chunk_max: Tokens,
    },
    /// A page is not what a lease said of it: another tenant's, in another life, or not written so far. Nothing of it was read.
    #[error("a page was denied: {0}")]
    Denied(kernels::Denied),
    /// A kernel refused or broke off.
    #[error("a kernel failed: {0}")]
    Kernel(kernels::KernelError),
    /// The machine broke: a worker thread died or the hardware reported an error.
    #[error("the device broke")]
    Broken,
}

impl From<kernels::KernelError> for DeviceFault {
    fn from(error: kernels::KernelError) -> Self {
        use kernels::KernelError as E;
        match error {
            E::Denied(why) => Self::Denied(why),
            E::Shape { .. }
            | E::Unsupported { .. }
            | E::NoMemory { .. }
            | E::WorkerPanicked
            | E::NoThread { .. } => Self::Kernel(error),
        }
    }
}
