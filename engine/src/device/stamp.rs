//! A device for tests whose numbers are hashes: any foreign, stale, missing or extra read changes what comes out.
//!
//! Two layers, as in a real model: a cell of layer 0 is a hash of (tag, position, token); a cell of layer 1 also folds all
//! cells of layer 0 that its row may read; the logits fold layer 1. Each slot keeps the generation it was written in, and
//! reading it in another one spoils the fold. When all is right the logits are [`expected_logits`], a function of the tag
//! and the tokens alone. Memory is born poisoned. No float is in any decision.
//!
//! A [`Lie`] takes honesty away in one way, so that tests can show that they would notice.

use crate::device::{Chunk, Device, DeviceFacts, DeviceFault, Want};
use isolation::{
    access::Access,
    page::{Erase, PageId},
    step::{OpenStep, StepReceipt},
    tag::TenantTag,
    units::{PageSize, Pages, Tokens},
};
use std::num::NonZeroU32;

/// Token ids of the stamp device are below this.
pub const STAMP_VOCAB: u32 = 64;

const LAYERS: usize = 2;
/// Odd constants of SplitMix64 (Steele, Lea, Flood 2014).
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_A: u64 = 0xbf58_476d_1ce4_e5b9;
const MIX_B: u64 = 0x94d0_49bb_1331_11eb;

/// How a stamp device misbehaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lie {
    /// Not at all.
    None,
    /// Each row reads one position more than it may.
    ReadBeyond,
    /// Each row misses the first position.
    ReadShort,
    /// The last token of each chunk is not written.
    DropWrite,
    /// The page after the right one is read in place of the first page.
    ReadNeighbour,
    /// After so many wipes, a wipe leaves the page as it was.
    SkipWipe(u64),
    /// After so many wipes, a wipe fails.
    FailWipe(u64),
    /// After so many wipes, one leaves the page as it was, and all that follow fail.
    SkipThenFail(u64),
    /// Every so many steps one breaks, half written.
    BreakStep(u64),
    /// Every so many steps the last row of logits has a NaN.
    NotANumber(u64),
    /// Every so many steps a page is denied.
    Deny(u64),
    /// Each chunk is padded by one row, whose slot, for want of one, is the last of memory.
    PadWrite,
    /// Each chunk is padded to a whole page, and where its own table ends, the columns of the table that had its row before
    /// are used.
    StaleRow,
    /// Each row of logits goes to the chunk beside its own.
    SwapRows,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Slot {
    cells: [u64; LAYERS],
    generation: u64,
}

/// See the module.
#[derive(Debug)]
pub struct StampDevice {
    facts: DeviceFacts,
    slots: Vec<Slot>,
    lie: Lie,
    steps: u64,
    wipes: u64,
    /// The widest page table that each row had, its head as of the last step, for [`Lie::StaleRow`].
    rows: Vec<Vec<PageId>>,
}

impl StampDevice {
    /// `pages` poisoned pages of `page_tokens`, stepping over at most `chunk_max` tokens.
    #[must_use]
    pub fn new(pages: Pages, page_tokens: NonZeroU32, chunk_max: Tokens) -> Self {
        let page_size = PageSize::new(page_tokens);
        let facts = DeviceFacts {
            vocab: index(STAMP_VOCAB),
            page_size,
            pages,
            context_trained: Tokens::new(u32::MAX),
            chunk_max,
            model_digest: [0x57; 32],
        };
        let poison = |at: u32| {
            let bits = mix(u64::from(at) ^ GAMMA);
            Slot { cells: [bits, mix(bits)], generation: bits }
        };
        let slots = (0..pages.get().saturating_mul(page_tokens.get())).map(poison).collect();
        Self { facts, slots, lie: Lie::None, steps: 0, wipes: 0, rows: Vec::new() }
    }

    /// The same device, misbehaving.
    #[must_use]
    pub fn lying(mut self, lie: Lie) -> Self {
        self.lie = lie;
        self
    }

    fn page_slots(&mut self, page: PageId) -> Result<&mut [Slot], DeviceFault> {
        let size = index(self.facts.page_size.tokens());
        let from = page.index().saturating_mul(size);
        let fault = DeviceFault::Page { page: page.index(), pages: self.facts.pages };
        self.slots.get_mut(from..from.saturating_add(size)).ok_or(fault)
    }

    /// The slot of a position, and the generation that its page should be in.
    fn place(&self, access: &Access, position: usize) -> Option<(usize, u64)> {
        let size = index(self.facts.page_size.tokens());
        let (mut page, offset) = (position.checked_div(size)?, position.checked_rem(size)?);
        if self.lie == Lie::ReadNeighbour && page == 0 {
            page = 1;
        }
        let generation = access.generation(page)?.get();
        Some((access.page(page)?.index().checked_mul(size)?.checked_add(offset)?, generation))
    }

    fn fold(&self, access: &Access, layer: usize, row: usize) -> u64 {
        let first = usize::from(self.lie == Lie::ReadShort);
        let last = if self.lie == Lie::ReadBeyond { row.saturating_add(1) } else { row };
        let mut folded = 0;
        for position in first..=last {
            let Some((at, generation)) = self.place(access, position) else { continue };
            let slot = self.slots.get(at).copied().unwrap_or_default();
            let cell = slot.cells.get(layer).copied().unwrap_or_default();
            folded = absorb(folded, cell ^ (slot.generation ^ generation).wrapping_mul(GAMMA));
        }
        folded
    }

    fn write(&mut self, access: &Access, position: usize, layer: usize, cell: u64) {
        let size = index(self.facts.page_size.tokens());
        let place = || {
            let (page, offset) = (position.checked_div(size)?, position.checked_rem(size)?);
            let at = access.page(page)?.index().checked_mul(size)?.checked_add(offset)?;
            Some((at, access.generation(page)?.get()))
        };
        let Some((at, generation)) = place() else { return };
        if let Some(slot) = self.slots.get_mut(at) {
            slot.generation = generation;
            if let Some(place) = slot.cells.get_mut(layer) {
                *place = cell;
            }
        }
    }

    /// Layer by layer, each written for the whole chunk before the next reads it, as kernels do.
    fn forward(&mut self, chunk: &Chunk<'_>) -> u64 {
        let (access, tag) = (chunk.access, chunk.access.tag());
        let start = index(access.start().get());
        let written = if self.lie == Lie::DropWrite {
            chunk.tokens.len().saturating_sub(1)
        } else {
            chunk.tokens.len()
        };
        for (i, &token) in chunk.tokens.iter().enumerate().take(written) {
            let position = start.saturating_add(i);
            self.write(access, position, 0, cell(tag, position, token, 0));
        }
        for (i, &token) in chunk.tokens.iter().enumerate().take(written) {
            let position = start.saturating_add(i);
            let below = self.fold(access, 0, position);
            self.write(access, position, 1, cell(tag, position, token, below));
        }
        self.fold(access, 1, start.saturating_add(chunk.tokens.len()).saturating_sub(1))
    }

    /// What a device does that pads its rows and minds no table's end.
    fn pad(&mut self, row: usize, access: &Access) {
        let spoiled = [GAMMA; LAYERS];
        match self.lie {
            Lie::PadWrite => {
                if let Some(slot) = self.slots.last_mut() {
                    slot.cells = spoiled;
                }
            }
            Lie::StaleRow => {
                let size = index(self.facts.page_size.tokens());
                if self.rows.len() <= row {
                    self.rows.resize_with(row.saturating_add(1), Vec::new);
                }
                let Some(table) = self.rows.get_mut(row) else { return };
                let stale = table.get(access.pages().len()).copied();
                let kept = table.split_off(access.pages().len().min(table.len()));
                *table = access.pages().iter().copied().chain(kept).collect();
                let at = stale.and_then(|page| page.index().checked_mul(size));
                if let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) {
                    slot.cells = spoiled;
                }
            }
            Lie::None
            | Lie::ReadBeyond
            | Lie::ReadShort
            | Lie::DropWrite
            | Lie::ReadNeighbour
            | Lie::SkipWipe(_)
            | Lie::FailWipe(_)
            | Lie::SkipThenFail(_)
            | Lie::BreakStep(_)
            | Lie::NotANumber(_)
            | Lie::Deny(_)
            | Lie::SwapRows => {}
        }
    }

    fn check(&self, step: &OpenStep, chunks: &[Chunk<'_>]) -> Result<(), DeviceFault> {
        let tokens: usize = chunks.iter().map(|chunk| chunk.tokens.len()).sum();
        if tokens > index(self.facts.chunk_max.get()) {
            return Err(DeviceFault::Step { tokens, chunk_max: self.facts.chunk_max });
        }
        for Chunk { tokens, access, .. } in chunks {
            if access.step() != step.id() {
                return Err(DeviceFault::OtherStep { named: access.step(), step: step.id() });
            }
            if tokens.len() != index(access.len().get()) {
                return Err(DeviceFault::Length { tokens: tokens.len(), access: access.len() });
            }
            if access.pages().len() < index(self.facts.page_size.pages_for(access.bound()).get()) {
                return Err(DeviceFault::Table { pages: access.pages().len(), bound: access.bound() });
            }
            if let Some(page) = access.pages().iter().find(|p| p.index() >= index(self.facts.pages.get())) {
                return Err(DeviceFault::Page { page: page.index(), pages: self.facts.pages });
            }
            if let Some(&id) = tokens.iter().find(|&&id| id >= STAMP_VOCAB) {
                return Err(DeviceFault::Token { id, vocab: self.facts.vocab });
            }
        }
        Ok(())
    }

    fn is_turn(&self, every: u64) -> bool {
        self.steps.checked_rem(every) == Some(0)
    }
}

impl Erase for StampDevice {
    type Error = DeviceFault;

    fn erase(&mut self, page: PageId) -> Result<(), DeviceFault> {
        self.wipes = self.wipes.saturating_add(1);
        let past = |after| self.wipes.saturating_sub(after);
        if matches!(self.lie, Lie::SkipWipe(after) if past(after) > 0)
            || matches!(self.lie, Lie::SkipThenFail(after) if past(after) == 1)
        {
            return Ok(());
        }
        if matches!(self.lie, Lie::FailWipe(after) if past(after) > 0)
            || matches!(self.lie, Lie::SkipThenFail(after) if past(after) > 1)
        {
            return Err(DeviceFault::Broken);
        }
        self.page_slots(page)?.fill(Slot::default());
        Ok(())
    }

    fn is_blank(&mut self, page: PageId) -> Result<bool, DeviceFault> {
        Ok(self.page_slots(page)?.iter().all(|slot| *slot == Slot::default()))
    }
}

impl Device for StampDevice {
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
        self.steps = self.steps.saturating_add(1);
        if let Err(fault) = self.check(&step, chunks) {
            return (step.fail(), Err(fault));
        }
        if matches!(self.lie, Lie::Deny(every) if self.is_turn(every)) {
            return (step.fail(), Err(DeviceFault::Denied(kernels::Denied::Owner { page: 0 })));
        }
        let breaks = matches!(self.lie, Lie::BreakStep(every) if self.is_turn(every));
        let upto = if breaks { chunks.len().div_ceil(2) } else { chunks.len() };
        for (row, chunk) in chunks.iter().enumerate().take(upto) {
            let folded = self.forward(chunk);
            self.pad(row, chunk.access);
            if chunk.want == Want::LastLogits {
                push_logits(folded, logits);
            }
        }
        if breaks {
            return (step.fail(), Err(DeviceFault::Broken));
        }
        if matches!(self.lie, Lie::NotANumber(every) if self.is_turn(every))
            && let Some(logit) = logits.last_mut()
        {
            *logit = f32::NAN;
        }
        if self.lie == Lie::SwapRows && logits.len() > self.facts.vocab {
            logits.rotate_left(self.facts.vocab);
        }
        (step.finish(), Ok(()))
    }
}

/// The logits after `tokens` of tenant `tag`, computed without pages, steps or batches: the oracle.
#[must_use]
pub fn expected_logits(tag: TenantTag, tokens: &[u32]) -> Vec<f32> {
    let (mut below, mut folded) = (0, 0);
    for (position, &token) in tokens.iter().enumerate() {
        below = absorb(below, cell(tag, position, token, 0));
        folded = absorb(folded, cell(tag, position, token, below));
    }
    let mut logits = Vec::new();
    push_logits(folded, &mut logits);
    logits
}

/// Numbers from 0 to just under 8, in steps of 1/512, so that each is exact.
fn push_logits(folded: u64, logits: &mut Vec<f32>) {
    logits.extend((0..STAMP_VOCAB).map(|id| {
        let bits = mix(folded ^ u64::from(id).wrapping_mul(GAMMA)) >> 52;
        f32::from(u16::try_from(bits).unwrap_or(u16::MAX)) / 512.0
    }));
}

fn cell(tag: TenantTag, position: usize, token: u32, below: u64) -> u64 {
    let position = u64::try_from(position).unwrap_or(u64::MAX);
    [position, u64::from(token), below].into_iter().fold(tag.get(), absorb)
}

fn absorb(folded: u64, word: u64) -> u64 {
    mix(folded.wrapping_mul(GAMMA) ^ word).wrapping_add(GAMMA)
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(MIX_A);
    word = (word ^ (word >> 27)).wrapping_mul(MIX_B);
    word ^ (word >> 31)
}

fn index(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
