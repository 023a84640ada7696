//! Where pages of dropped leases and runs land, and the count of those not yet dropped. Knows no page's
//! contents.

use crate::{
    page::{Owned, Page},
    quota::Held,
    tag::TenantTag,
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
    /// Leased and shared pages together, by tenant.
    held: Cell<Held>,
}

impl Home {
    pub(crate) fn new(total: Pages) -> Self {
        let inbox = Cell::new(Vec::with_capacity(index(total.get())));
        Self { inbox, leased: Cell::new(0), shared: Cell::new(0), held: Cell::default() }
    }

    pub(crate) fn leased(&self) -> Pages {
        Pages::new(self.leased.get())
    }

    pub(crate) fn shared(&self) -> Pages {
        Pages::new(self.shared.get())
    }

    /// What `look` makes of the pages held by tenant.
    pub(crate) fn with_held<T>(&self, look: impl FnOnce(&Held) -> T) -> T {
        let held = self.held.take();
        let seen = look(&held);
        self.held.set(held);
        seen
    }

    pub(crate) fn note_leased(&self, tag: TenantTag, count: Pages) {
        self.leased.set(self.leased.get().saturating_add(count.get()));
        if count > Pages::ZERO {
            let mut held = self.held.take();
            let mine = held.entry(tag).or_default();
            *mine = mine.saturating_add(count.get());
            self.held.set(held);
        }
    }

    /// One leased page became a shared one.
    pub(crate) fn note_sealed(&self) {
        self.leased.set(self.leased.get().saturating_sub(1));
        self.shared.set(self.shared.get().saturating_add(1));
    }

    pub(crate) fn retire_leased(&self, page: Page<Owned>, fence: StepId) {
        // I10
        self.forget_leased(page.facts().tag);
        self.push(Retired { page, fence });
    }

    pub(crate) fn forget_leased(&self, tag: TenantTag) {
        self.leased.set(self.leased.get().saturating_sub(1));
        self.forget(tag);
    }

    pub(crate) fn retire_shared(&self, page: Page<Owned>, fence: StepId) {
        self.shared.set(self.shared.get().saturating_sub(1));
        self.forget(page.facts().tag);
        self.push(Retired { page, fence });
    }

    fn forget(&self, tag: TenantTag) {
        let mut held = self.held.take();
        match held.get_mut(&tag) {
            Some(mine) if *mine > 1 => *mine = mine.saturating_sub(1),
            Some(_) | None => drop(held.remove(&tag)),
        }
        self.held.set(held);
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
        write!(f, "Home({waiting} waiting, {} leased, {} shared)", self.leased(), self.shared())?;
        self.with_held(|held| held.fmt(f))
    }
}
