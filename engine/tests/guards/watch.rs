//! A stamp device that keeps a book of pages: who named each in which life, what was written there, and whether anything was read
//! that was not. What it finds wrong it notes; it never trusts the engine that it watches.

use engine::device::{
    Chunk, Device, DeviceFacts, DeviceFault, Want,
    stamp::{Lie, STAMP_VOCAB, StampDevice},
};
use isolation::{
    access::Access,
    page::{Erase, PageId},
    step::{OpenStep, StepReceipt},
    tag::TenantTag,
    units::{Epoch, Pages, Tokens},
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    rc::Rc,
};

use crate::common::PAGE;

/// What a device does in one step instead of its work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Does it otherwise.
    Lie(Lie),
    /// Does it, and says that it did not.
    Deny(DeviceFault),
    /// Does part of it, says so in its receipt, and calls it a success.
    PartAsSuccess,
    /// Spoils the first page of each chunk of this tenant: reading it gives no number from now on, until it is wiped.
    Spoil(TenantTag),
}

/// One life of a page, as the device was told of it.
#[derive(Clone, Copy, Debug)]
struct Life {
    generation: u64,
    tag: TenantTag,
    /// Places written, from the first on.
    written: u32,
}

/// The book.
#[derive(Default)]
pub(crate) struct Book {
    /// The first thing that was wrong.
    pub(crate) wrong: Option<String>,
    /// What to do in a step, by its number in the device's life, from 1.
    pub(crate) acts: BTreeMap<u64, Act>,
    pub(crate) steps: u64,
    /// Where each chunk of each tenant began, and its length.
    pub(crate) chunks: Vec<(TenantTag, u32, u32)>,
    lives: BTreeMap<usize, Life>,
    spoilt: BTreeSet<usize>,
    epoch: Option<Epoch>,
}

impl Book {
    fn note(&mut self, holds: bool, wrong: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(wrong());
        }
    }
}

/// See the module.
pub(crate) struct Watch {
    /// `None` only while it is exchanged for one with another lie.
    inner: Option<StampDevice>,
    always: Lie,
    pub(crate) book: Rc<RefCell<Book>>,
}

impl Watch {
    pub(crate) fn new(pages: u32, lie: Lie) -> Self {
        let page = NonZeroU32::new(PAGE).unwrap();
        let inner = StampDevice::new(Pages::new(pages), page, Tokens::new(64)).lying(lie);
        Self { inner: Some(inner), always: lie, book: Rc::default() }
    }

    fn inner(&mut self) -> &mut StampDevice {
        self.inner.as_mut().unwrap()
    }

    fn exchange(&mut self, lie: Lie) {
        self.inner = Some(self.inner.take().unwrap().lying(lie));
    }

    /// O3 and O8 of one chunk, before anything is done with it.
    fn look(&mut self, access: &Access) {
        let book = Rc::clone(&self.book);
        let mut book = book.borrow_mut();
        if book.epoch != Some(access.epoch()) {
            // A new life of the engine: nothing is known of any page, so each must be blank before it is used.
            book.lives.clear();
            book.epoch = Some(access.epoch());
        }
        let (start, bound) = (access.start().get(), access.bound().get());
        let (found, wanted) = (access.pages().len(), bound.div_ceil(PAGE) as usize);
        book.note(found == wanted, || format!("a table of {found} pages for {bound} places"));
        for (i, page) in access.pages().iter().map(|page| page.index()).enumerate() {
            let generation = access.generation(i).unwrap().get();
            let id = access.pages()[i];
            let known = book.lives.get(&page).copied();
            let life = match known {
                Some(life) if life.generation == generation => {
                    book.note(life.tag == access.tag(), || {
                        format!("page {page} has two tenants in one life")
                    });
                    life
                }
                other => {
                    let is_later = other.is_none_or(|life| life.generation < generation);
                    book.note(is_later, || format!("page {page} is named in an older life"));
                    let is_blank = self.inner().is_blank(id).unwrap();
                    book.note(is_blank, || format!("page {page} is not blank when its life begins"));
                    Life { generation, tag: access.tag(), written: 0 }
                }
            };
            let from = i as u32 * PAGE;
            let readable = start.saturating_sub(from).min(PAGE);
            let end = bound.saturating_sub(from).min(PAGE);
            book.note(readable <= life.written, || format!("page {page} is read where nothing was written"));
            let is_fresh = end <= readable || readable >= life.written;
            book.note(is_fresh, || format!("page {page} is written in a place that was filled"));
            book.lives.insert(page, Life { written: life.written.max(end), ..life });
        }
        book.chunks.push((access.tag(), start, access.len().get()));
    }

    fn is_spoilt(&self, access: &Access) -> bool {
        let book = self.book.borrow();
        access.pages().iter().any(|page| book.spoilt.contains(&page.index()))
    }
}

impl Erase for Watch {
    type Error = DeviceFault;

    fn erase(&mut self, page: PageId) -> Result<(), DeviceFault> {
        let result = self.inner().erase(page);
        self.book.borrow_mut().spoilt.remove(&page.index());
        result
    }

    fn is_blank(&mut self, page: PageId) -> Result<bool, DeviceFault> {
        self.inner().is_blank(page)
    }
}

impl Device for Watch {
    fn facts(&self) -> DeviceFacts {
        self.inner.as_ref().unwrap().facts()
    }

    fn run(
        &mut self,
        step: OpenStep,
        chunks: &[Chunk<'_>],
        logits: &mut Vec<f32>,
    ) -> (StepReceipt, Result<(), DeviceFault>) {
        for chunk in chunks {
            self.look(chunk.access);
        }
        let act = {
            let mut book = self.book.borrow_mut();
            book.steps += 1;
            let now = book.steps;
            book.acts.remove(&now)
        };
        let lie = match act {
            Some(Act::Lie(lie)) => lie,
            Some(Act::PartAsSuccess) => Lie::BreakStep(1),
            Some(Act::Deny(_) | Act::Spoil(_)) | None => self.always,
        };
        self.exchange(lie);
        let (receipt, mut result) = self.inner().run(step, chunks, logits);
        self.exchange(self.always);
        match act {
            Some(Act::Deny(fault)) => result = Err(fault),
            Some(Act::PartAsSuccess) => {
                let wanted = chunks.iter().filter(|chunk| chunk.want == Want::LastLogits).count();
                logits.resize(wanted * STAMP_VOCAB as usize, 1.0);
                result = Ok(());
            }
            Some(Act::Spoil(tag)) => {
                let hit = chunks.iter().filter(|chunk| chunk.access.tag() == tag);
                self.book.borrow_mut().spoilt.extend(hit.map(|chunk| chunk.access.pages()[0].index()));
            }
            Some(Act::Lie(_)) | None => {}
        }
        let wanting = chunks.iter().filter(|chunk| chunk.want == Want::LastLogits);
        for (chunk, row) in wanting.zip(logits.chunks_exact_mut(STAMP_VOCAB as usize)) {
            if self.is_spoilt(chunk.access) {
                row.fill(f32::NAN);
            }
        }
        (receipt, result)
    }
}
