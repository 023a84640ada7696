//! What a device is told for one sequence in one step. Knows no other sequence.

use crate::{
    page::PageId,
    tag::TenantTag,
    units::{Epoch, Generation, PageSize, StepId, Tokens},
};
use alloc::vec::Vec;

/// Where one sequence reads and writes in one step.
///
/// Row `i` of the chunk is written at position `start + i` and reads positions `0..=start + i`, no further.
/// `pages().len() * page_size >= bound()` holds, and the device checks it again.
#[derive(Debug)]
pub struct Access {
    pub(crate) tag: TenantTag,
    pub(crate) epoch: Epoch,
    pub(crate) step: StepId,
    pub(crate) page_size: PageSize,
    pub(crate) start: Tokens,
    pub(crate) len: Tokens,
    pub(crate) bound: Tokens,
    pub(crate) pages: Vec<PageId>,
    pub(crate) generations: Vec<Generation>,
}

// A device may work on threads of its own.
const _: () = {
    const fn may_be_sent<T: Send + Sync>() {}
    may_be_sent::<Access>();
};

impl Access {
    /// Whose sequence it is.
    pub const fn tag(&self) -> TenantTag {
        self.tag
    }

    /// The engine life it is for.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The step it is for, and no other.
    pub const fn step(&self) -> StepId {
        self.step
    }

    /// Tokens a page holds.
    pub const fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Tokens filled before this step: the first position to write.
    pub const fn start(&self) -> Tokens {
        self.start
    }

    /// Tokens to write now; at least one.
    pub const fn len(&self) -> Tokens {
        self.len
    }

    /// `start + len`: no position at or above it may be touched.
    pub const fn bound(&self) -> Tokens {
        self.bound
    }

    /// The page table up to the bound, in order of position.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// The `i`th page.
    pub fn page(&self, i: usize) -> Option<PageId> {
        self.pages.get(i).copied()
    }

    /// The life that each of [`Access::pages`] is in, in their order.
    pub fn generations(&self) -> &[Generation] {
        &self.generations
    }

    /// The life that the `i`th page is in.
    pub fn generation(&self, i: usize) -> Option<Generation> {
        self.generations.get(i).copied()
    }
}
