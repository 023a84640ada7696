//! Pages held by one sequence of one tenant. Knows no device, and tokens only to say what a sealed page holds.

use crate::{
    access::Access,
    fault::{Fault, GUARDED, seeded},
    home::Home,
    page::{Facts, Owned, Page, PageId},
    share::{SharedPage, SharedRun},
    step::{OpenStep, StepReceipt, Wrote},
    tag::TenantTag,
    units::{Epoch, Generation, PageSize, Pages, StepId, Tokens, index, pages},
};
use alloc::{rc::Rc, vec::Vec};

/// A sequence's pages, in order of position: first those shared with others of its tenant, then its own.
///
/// Bound to a tenant, never cloned, never sent; dropping it, however that comes, retires its pages.
///
/// ```compile_fail,E0599
/// fn twice(lease: isolation::lease::Lease) -> [isolation::lease::Lease; 2] { [lease.clone(), lease] }
/// ```
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<isolation::lease::Lease>();
/// ```
/// It is given back once:
/// ```compile_fail,E0382
/// fn twice(lease: isolation::lease::Lease) { drop(lease); drop(lease); }
/// ```
/// A dropped lease cannot be read:
/// ```compile_fail,E0382
/// fn late(lease: isolation::lease::Lease) { drop(lease); lease.filled(); }
/// ```
#[derive(Debug)]
#[must_use = "dropping a lease retires its pages"]
pub struct Lease {
    tag: TenantTag,
    epoch: Epoch,
    page_size: PageSize,
    /// Read only: each is full, so no write of this lease can reach it.
    shared: Vec<SharedPage>,
    own: Vec<Page<Owned>>,
    filled: Tokens,
    fence: StepId,
    outstanding: Option<WriteId>,
    home: Rc<Home>,
}

/// Which write: no two are equal, since a page in one generation is written at one position by one step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct WriteId {
    step: StepId,
    page: PageId,
    generation: Generation,
    end: Tokens,
}

/// A write that a device was told of and has not confirmed. What it covers cannot be read.
#[derive(Debug)]
#[must_use = "a write that is not committed stays unreadable"]
pub struct PendingWrite(WriteId);

impl Lease {
    pub(crate) fn new(
        tag: TenantTag,
        epoch: Epoch,
        page_size: PageSize,
        own: Vec<Page<Owned>>,
        home: Rc<Home>,
    ) -> Self {
        home.note_leased(tag, pages(own.len()));
        let (filled, fence) = (Tokens::ZERO, StepId::new(0));
        Self { tag, epoch, page_size, shared: Vec::new(), own, filled, fence, outstanding: None, home }
    }

    /// Whose pages these are.
    pub const fn tag(&self) -> TenantTag {
        self.tag
    }

    /// Tokens written and confirmed: all that may be read.
    pub const fn filled(&self) -> Tokens {
        self.filled
    }

    /// Tokens that all its pages hold.
    pub fn capacity(&self) -> Tokens {
        let held = pages(self.shared.len().saturating_add(self.own.len()));
        self.page_size.tokens_in(held).unwrap_or(Tokens::new(u32::MAX))
    }

    /// Its pages, in order of position, for counting and display: a device goes by an [`Access`] alone.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.table().map(|page| page.id)
    }

    /// The life that each of its pages is in, in the order of [`Lease::pages`].
    pub fn generations(&self) -> impl Iterator<Item = Generation> + '_ {
        self.table().map(|page| page.generation)
    }

    /// Its pages that are shared: adopted, or sealed by this lease.
    pub fn shared_pages(&self) -> Pages {
        pages(self.shared.len())
    }

    /// FNV-1a over the numbers and generations of its pages up to the filled mark, for evidence.
    pub fn generation_digest(&self) -> u64 {
        let filled = index(self.page_size.pages_for(self.filled).get());
        let mut digest = FNV_BASIS;
        for page in self.table().take(filled) {
            for byte in page.id.get().to_le_bytes().into_iter().chain(page.generation.get().to_le_bytes()) {
                digest = (digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        digest
    }

    /// Puts a sealed prefix in front, which then counts as filled.
    ///
    /// # Errors
    /// When the run is another tenant's or another pool's, or the lease has been used.
    pub fn adopt(&mut self, run: SharedRun) -> Result<(), LeaseError> {
        // I7
        if run.tag() != self.tag && !seeded(Fault::CrossTenantAdopt) {
            return Err(LeaseError::OtherTenant { lease: self.tag, run: run.tag() });
        }
        if run.page_size() != self.page_size || !run.pages().iter().all(|page| page.is_of(&self.home)) {
            return Err(LeaseError::OtherPool);
        }
        if self.filled != Tokens::ZERO || self.outstanding.is_some() {
            return Err(LeaseError::InUse { filled: self.filled });
        }
        self.filled = if seeded(Fault::AdoptUnfilled) { Tokens::ZERO } else { run.tokens() };
        self.shared = run.into_pages();
        Ok(())
    }

    /// Raises the fence of each of its pages to `step`, then says where the next `len` tokens go and what
    /// they may read. A device is told of a sequence's pages in no other way.
    ///
    /// # Errors
    /// When the tokens do not fit, there are none, the step is another epoch's, or a write is outstanding.
    pub fn include(&mut self, len: Tokens, step: &OpenStep) -> Result<(PendingWrite, Access), LeaseError> {
        // I4
        if step.epoch() != self.epoch {
            return Err(LeaseError::OtherEpoch { lease: self.epoch, step: step.epoch() });
        }
        // I5: two writes to one place could land in either order.
        if let Some(write) = self.outstanding
            && !seeded(Fault::WriteTwice)
        {
            return Err(LeaseError::WriteOutstanding { step: write.step });
        }
        // I6
        let capacity = self.capacity();
        let full = LeaseError::Full { filled: self.filled, len, capacity };
        let end = self
            .filled
            .checked_add(len)
            .filter(|&end| end <= capacity || seeded(Fault::WriteBeyond))
            .ok_or(full)?;
        let first = index(self.page_size.full_pages(self.filled).get());
        let Some(into) = self.table().nth(first).filter(|_| len > Tokens::ZERO) else {
            return Err(LeaseError::EmptyWrite);
        };
        // I1, I7: adoption refuses these too; here is where numbers leave, so here it is asked again.
        if GUARDED && let Some(foreign) = self.table().find(|page| page.tag != self.tag) {
            return Err(LeaseError::OtherTenant { lease: self.tag, run: foreign.tag });
        }

        // I3: before anybody is told of a page.
        self.fence = self.fence.max(step.id());
        for page in &self.shared {
            page.raise_fence(step.id());
        }
        let write = WriteId { step: step.id(), page: into.id, generation: into.generation, end };
        let access = self.access(len, end, step);
        self.outstanding = Some(write);
        if seeded(Fault::NoFilledMark) {
            self.filled = end;
        }
        Ok((PendingWrite(write), access))
    }

    /// Moves the filled mark over `write`, which `receipt` proves done.
    ///
    /// # Errors
    /// When the write is not this lease's outstanding one, or the receipt is another step's or a failed
    /// step's. The write then stays unreadable, and the lease takes no other.
    pub fn commit(&mut self, write: PendingWrite, receipt: &StepReceipt) -> Result<(), LeaseError> {
        let PendingWrite(write) = write;
        // I5
        if self.outstanding != Some(write) && !seeded(Fault::ForeignCommit) {
            return Err(LeaseError::OtherWrite { step: write.step });
        }
        if receipt.epoch() != self.epoch {
            return Err(LeaseError::OtherEpoch { lease: self.epoch, step: receipt.epoch() });
        }
        if receipt.step() != write.step && !seeded(Fault::StaleCommit) {
            return Err(LeaseError::OtherStep { wrote: write.step, proved: receipt.step() });
        }
        if receipt.wrote() != Wrote::All && !seeded(Fault::FailedCommit) {
            return Err(LeaseError::StepFailed { step: write.step });
        }
        self.outstanding = None;
        self.filled = write.end;
        Ok(())
    }

    /// Turns its full own pages into shared ones, which it goes on reading, and returns the run of all its
    /// full pages; `None` while no page is full. `ids` are the tokens at its places, from the first on.
    ///
    /// # Errors
    /// When `ids` do not reach the end of the full pages, or are not what a page already shared was filled with.
    pub fn seal(&mut self, ids: &[u32]) -> Result<Option<SharedRun>, LeaseError> {
        let full = index(self.page_size.full_pages(self.filled).get());
        let mut tokens = ids.chunks_exact(index(self.page_size.tokens())).take(full);
        // I7: what is said of a page is what was said when it was sealed.
        let is_same = self.shared.iter().all(|page| tokens.next() == Some(page.tokens()));
        // I7: a write begins at the filled mark, so it never reaches a full page.
        let fresh = full.saturating_sub(self.shared.len()).min(self.own.len());
        if !is_same || tokens.len() != fresh {
            return Err(LeaseError::OtherTokens { filled: self.filled, ids: ids.len() });
        }
        for (page, tokens) in self.own.drain(..fresh).zip(tokens) {
            self.shared.push(SharedPage::seal(page, tokens, self.fence, Rc::clone(&self.home)));
        }
        Ok(SharedRun::new(self.tag, self.page_size, self.shared.clone()))
    }

    fn access(&self, len: Tokens, bound: Tokens, step: &OpenStep) -> Access {
        let named = index(self.page_size.pages_for(bound).get());
        let (pages, generations) = self.table().take(named).map(|page| (page.id, page.generation)).unzip();
        Access {
            tag: self.tag,
            epoch: self.epoch,
            step: step.id(),
            page_size: self.page_size,
            start: self.filled,
            len,
            bound,
            pages,
            generations,
        }
    }

    fn table(&self) -> impl Iterator<Item = Facts> + '_ {
        self.shared.iter().map(SharedPage::facts).chain(self.own.iter().map(Page::facts))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if seeded(Fault::LostPage) && self.own.pop().is_some() {
            self.home.forget_leased(self.tag);
        }
        for page in self.own.drain(..) {
            self.home.retire_leased(page, self.fence);
        }
    }
}

/// Offset basis and prime of 64-bit FNV-1a (RFC 9923).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Why a lease refused. None of these can come from a client: each is a fault of ours, and fails the
/// sequence.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LeaseError {
    /// The run is another tenant's, or a page is.
    OtherTenant {
        /// Whose lease.
        lease: TenantTag,
        /// Whose run.
        run: TenantTag,
    },
    /// The run's pages are another pool's.
    OtherPool,
    /// The step is of another life of the engine.
    OtherEpoch {
        /// The lease's.
        lease: Epoch,
        /// The step's.
        step: Epoch,
    },
    /// A prefix goes in front of an unused lease only.
    InUse {
        /// Tokens filled.
        filled: Tokens,
    },
    /// The tokens do not fit.
    Full {
        /// Tokens filled.
        filled: Tokens,
        /// Tokens to write.
        len: Tokens,
        /// Tokens that the lease holds.
        capacity: Tokens,
    },
    /// The tokens named are not those that its full pages hold.
    OtherTokens {
        /// Tokens filled.
        filled: Tokens,
        /// Tokens named.
        ids: usize,
    },
    /// No token is to be written.
    EmptyWrite,
    /// The write of an earlier step is not committed.
    WriteOutstanding {
        /// That step.
        step: StepId,
    },
    /// The write is not the one that this lease waits for.
    OtherWrite {
        /// The step that wrote.
        step: StepId,
    },
    /// The receipt proves another step.
    OtherStep {
        /// The step that wrote.
        wrote: StepId,
        /// The step that is proved.
        proved: StepId,
    },
    /// The step is over, and failed.
    StepFailed {
        /// That step.
        step: StepId,
    },
}

impl core::fmt::Display for LeaseError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OtherTenant { lease, run } => {
                write!(f, "a run of tenant {run} in a lease of tenant {lease}")
            }
            Self::OtherPool => f.write_str("a run of another pool"),
            Self::OtherEpoch { lease, step } => {
                write!(f, "a step of epoch {step} in a lease of epoch {lease}")
            }
            Self::InUse { filled } => write!(f, "a prefix in front of a lease with {filled} tokens"),
            Self::Full { filled, len, capacity } => {
                write!(f, "{len} tokens after {filled} in a lease that holds {capacity}")
            }
            Self::OtherTokens { filled, ids } => {
                write!(f, "{ids} tokens are not those of {filled} filled places")
            }
            Self::EmptyWrite => f.write_str("a write of no token"),
            Self::WriteOutstanding { step } => write!(f, "the write of step {step} is not committed"),
            Self::OtherWrite { step } => {
                write!(f, "a write of step {step} that this lease does not wait for")
            }
            Self::OtherStep { wrote, proved } => write!(f, "step {wrote} wrote, step {proved} is proved"),
            Self::StepFailed { step } => write!(f, "step {step} failed"),
        }
    }
}

impl core::error::Error for LeaseError {}

#[cfg(test)]
mod tests;
