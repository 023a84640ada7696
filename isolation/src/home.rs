//! Where pages of dropped leases and runs land, and the count of those not yet dropped. Knows no page's
//! contents.

use crate::{
    page::{Owned, Page},
    units::{Pages, StepId, index, pages},
};
use alloc::vec::Vec;
use core::cell::Cell;

/// A page given back, and the last step that named it.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) page: Page<Owned>,
    pub(crate) fence: StepId,
}

/// The way home. Room for each page of the pool is made at the start, so that a drop neither allocates nor
/// panics.
pub(crate) struct Home {
    inbox: Cell<Vec<Retired>>,
    leased: Cell<u32>,
    shared: Cell<u32>,
}

impl Home {
    pub(crate) fn new(total: Pages) -> Self {
        let inbox = Cell::new(Vec::with_capacity(index(total.get())));
        Self { inbox, leased: Cell::new(0), shared: Cell::new(0) }
    }

    pub(crate) fn leased(&self) -> Pages {
        Pages::new(self.leased.get())
    }

    pub(crate) fn shared(&self) -> Pages {
        Pages::new(self.shared.get())
    }

    pub(crate) fn note_leased(&self, count: Pages) {
        self.leased.set(self.leased.get().saturating_add(count.get()));
    }

    /// One leased page became a shared one.
    pub(crate) fn note_sealed(&self) {
        self.leased.set(self.leased.get().saturating_sub(1));
        self.shared.set(self.shared.get().saturating_add(1));
    }

    pub(crate) fn retire_leased(&self, page: Page<Owned>, fence: StepId) {
        // I10
        self.forget_leased();
        self.push(Retired { page, fence });
    }

    pub(crate) fn forget_leased(&self) {
        self.leased.set(self.leased.get().saturating_sub(1));
    }

    pub(crate) fn retire_shared(&self, page: Page<Owned>, fence: StepId) {
        self.shared.set(self.shared.get().saturating_sub(1));
        self.push(Retired { page, fence });
    }

    fn push(&self, retired: Retired) {
        let mut inbox = self.inbox.take();
        inbox.push(retired);
        self.inbox.set(inbox);
    }

    /// Moves all that has landed to `into`; the room stays here.
    pub(crate) fn drain_to(&self, into: &mut Vec<Retired>) {
        let mut inbox = self.inbox.take();
        into.append(&mut inbox);
        self.inbox.set(inbox);
    }
}

impl core::fmt::Debug for Home {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let inbox = self.inbox.take();
        let waiting = pages(inbox.len());
        self.inbox.set(inbox);
        write!(f, "Home({waiting} waiting, {} leased, {} shared)", self.leased(), self.shared())
    }
}
