//! The CPU as a device: Llama on `kernels`, with a pool of pages that is allocated and touched before it is promised (P4).
//!
//! Architecture invariant: knows no queue and no tenant beyond the tag in an access; all arithmetic is in `kernels`.

mod forward;
mod load;
#[cfg(test)]
mod tests;
mod weights;

pub use load::{LoadError, LoadProgress};
pub use weights::Weights;

use super::{Chunk, Device, DeviceFacts, DeviceFault};
use forward::Buffers;
use isolation::{
    page::{Erase, PageId},
    step::{OpenStep, StepReceipt},
    units::{PageSize, Tokens},
};
use kernels::{
    Cpu, Isa, KernelError, Pool,
    kv::{Kv, KvShape, PAGE},
    vector::Rope,
};
use std::{num::NonZeroU32, path::Path, sync::Arc};

/// Tokens of one step at most: a prefill chunk that keeps its rows within the second-level cache.
pub const STEP_TOKENS_MAX: u32 = 512;

/// What the caller chooses about a CPU device.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Tokens that the pool is to hold; rounded up to whole pages.
    pub pool_tokens: Tokens,
    /// Threads that compute, the step loop's own included; at least 1.
    pub threads: usize,
    /// The instruction set; the best that is here when there is none named.
    pub isa: Option<Isa>,
}

/// Weights, and memory for pages.
pub struct CpuDevice {
    weights: Arc<Weights>,
    kv: Kv,
    rope: Rope,
    pool: Pool,
    cpu: Cpu,
    buffers: Buffers,
    facts: DeviceFacts,
}

impl CpuDevice {
    /// Reads the model file, packs its weights and takes memory for the pool.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(
        path: &Path,
        options: CpuOptions,
        progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Self, LoadError> {
        let weights = Weights::read(path, progress)?;
        Self::with_weights(Arc::new(weights), options)
    }

    /// A fresh device over weights that are loaded.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn with_weights(weights: Arc<Weights>, options: CpuOptions) -> Result<Self, LoadError> {
        let cpu = options.isa.map_or_else(|| Ok(Cpu::best()), Cpu::with)?;
        let shape = weights.shape();
        let page_size = page_size();
        let pages = page_size.pages_for(options.pool_tokens);
        let kv_shape = KvShape { layers: shape.layers, heads: shape.kv_heads, dim: shape.head_dim };
        let count = usize::try_from(pages.get()).unwrap_or(usize::MAX);
        let kv = Kv::new(kv_shape, count).map_err(|error| match error {
            KernelError::NoMemory { .. } => LoadError::NoMemoryForPool {
                tokens: options.pool_tokens,
                page_bytes: kv_shape.page_bytes(),
                pages: count,
            },
            KernelError::Shape { .. }
            | KernelError::Unsupported { .. }
            | KernelError::Denied(_)
            | KernelError::WorkerPanicked
            | KernelError::NoThread { .. } => LoadError::Kernel(error),
        })?;
        let holds = page_size.tokens_in(pages).unwrap_or(Tokens::new(u32::MAX));
        // Positions that no lease can reach need no table.
        let positions = shape.context.min(usize::try_from(holds.get()).unwrap_or(usize::MAX));
        let facts = DeviceFacts {
            vocab: shape.vocab,
            page_size,
            pages,
            context_trained: Tokens::new(u32::try_from(shape.context).unwrap_or(u32::MAX)),
            chunk_max: Tokens::new(STEP_TOKENS_MAX),
            model_digest: weights.digest(),
        };
        Ok(Self {
            rope: Rope::new(shape.head_dim, shape.rope_base, positions)?,
            pool: Pool::new(options.threads)?,
            buffers: Buffers::new(shape)?,
            weights,
            kv,
            cpu,
            facts,
        })
    }

    /// Refuses what the kernels could not run: by step, length, table, page, token and size.
    fn check(&self, step: &OpenStep, chunks: &[Chunk<'_>]) -> Result<(), DeviceFault> {
        let mut tokens = 0_usize;
        for chunk in chunks {
            let access = chunk.access;
            if access.step() != step.id() {
                return Err(DeviceFault::OtherStep { named: access.step(), step: step.id() });
            }
            if chunk.tokens.len() != count(access.len()) || chunk.tokens.is_empty() {
                return Err(DeviceFault::Length { tokens: chunk.tokens.len(), access: access.len() });
            }
            let reach = access.pages().len().saturating_mul(PAGE);
            if reach < count(access.bound()) || access.page_size() != self.facts.page_size {
                return Err(DeviceFault::Table { pages: access.pages().len(), bound: access.bound() });
            }
            if let Some(page) = access.pages().iter().find(|page| page.index() >= self.kv.pages()) {
                return Err(DeviceFault::Page { page: page.index(), pages: self.facts.pages });
            }
            if let Some(&id) = chunk.tokens.iter().find(|&&id| usize_of(id) >= self.facts.vocab) {
                return Err(DeviceFault::Token { id, vocab: self.facts.vocab });
            }
            tokens = tokens.saturating_add(chunk.tokens.len());
        }
        if tokens > count(self.facts.chunk_max) {
            return Err(DeviceFault::Step { tokens, chunk_max: self.facts.chunk_max });
        }
        Ok(())
    }

    fn forward(
        &mut self,
        step: &OpenStep,
        chunks: &[Chunk<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), DeviceFault> {
        self.check(step, chunks)?;
        let mut machine = forward::Machine {
            cpu: self.cpu,
            pool: &mut self.pool,
            kv: &mut self.kv,
            rope: &self.rope,
            weights: &self.weights,
        };
        Ok(self.buffers.run(&mut machine, chunks, logits)?)
    }
}

impl Erase for CpuDevice {
    type Error = DeviceFault;

    fn erase(&mut self, page: PageId) -> Result<(), DeviceFault> {
        Ok(self.kv.erase(page.index())?)
    }

    fn is_blank(&mut self, page: PageId) -> Result<bool, DeviceFault> {
        Ok(self.kv.is_blank(page.index())?)
    }
}

impl Device for CpuDevice {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn run(
        &mut self,
        step: OpenStep,
        chunks: &[Chunk<'_>],
        logits: &mut Vec<f32>,
    ) -> (StepReceipt, Result<(), DeviceFault>) {
        logits.clear();
        // The threads of the pool are done when a kernel returns, so nothing is in flight in either case.
        match self.forward(&step, chunks, logits) {
            Ok(()) => (step.finish(), Ok(())),
            Err(fault) => {
                logits.clear();
                (step.fail(), Err(fault))
            }
        }
    }
}

/// Tokens a page holds, as the kernels lay it out.
fn page_size() -> PageSize {
    let tokens = u32::try_from(PAGE).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    PageSize::new(tokens)
}

fn count(tokens: Tokens) -> usize {
    usize_of(tokens.get())
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
