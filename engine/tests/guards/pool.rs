//! Pages and leases without an engine, where a row needs several steps in flight at once.

use crate::rig::{Held, hold};
use isolation::{
    access::Access,
    lease::{Lease, PendingWrite},
    page::{Erase, PageId, Verify},
    pool::Pool,
    step::OpenStep,
    tag::{Registry, TenantScope, TenantTag},
    units::{Epoch, PageSize, Pages, Tokens},
};
use std::{convert::Infallible, num::NonZeroU32};

pub(crate) const SIZE: PageSize = PageSize::new(NonZeroU32::new(4).unwrap());

/// Each page holds the name of who wrote it last; 0 is blank.
pub(crate) struct Memory(pub(crate) Vec<u64>);

impl Memory {
    /// A device's late work: writes all pages of an access.
    pub(crate) fn write(&mut self, access: &Access) {
        access.pages().iter().for_each(|page| self.0[page.index()] = access.tag().get());
    }

    /// Whether the pages that a lease has bear no mark but its own tenant's.
    pub(crate) fn is_free_of_others(&self, lease: &Lease) -> bool {
        lease.pages().all(|page| [0, lease.tag().get()].contains(&self.0[page.index()]))
    }
}

impl Erase for Memory {
    type Error = Infallible;

    fn erase(&mut self, page: PageId) -> Result<(), Infallible> {
        self.0[page.index()] = 0;
        Ok(())
    }

    fn is_blank(&mut self, page: PageId) -> Result<bool, Infallible> {
        Ok(self.0[page.index()] == 0)
    }
}

/// A pool and its memory.
pub(crate) struct Bench {
    pub(crate) pool: Pool,
    pub(crate) memory: Memory,
}

impl Bench {
    /// All pages wiped.
    pub(crate) fn new(pages: u32) -> Self {
        let mut bench = Self {
            pool: Pool::new(Pages::new(pages), SIZE, Epoch::new(9)),
            memory: Memory(vec![u64::MAX; pages as usize]),
        };
        bench.scrub();
        bench
    }

    pub(crate) fn scrub(&mut self) {
        self.pool.scrub(Pages::new(u32::MAX), Verify::ReadBack, &mut self.memory).unwrap();
    }

    pub(crate) fn lease(&mut self, tag: u64, pages: u32) -> Held<Lease> {
        self.pool.lease(&scope(tag), Pages::new(pages)).map_err(|short| format!("not granted: {short}"))
    }

    /// A step that is under way with this lease in it.
    pub(crate) fn launch(
        &mut self,
        lease: &mut Lease,
        tokens: u32,
    ) -> Held<(OpenStep, PendingWrite, Access)> {
        let step = self.pool.open_step().map_err(|e| e.to_string())?;
        let (write, access) = lease.include(Tokens::new(tokens), &step).map_err(|e| e.to_string())?;
        Ok((step, write, access))
    }

    /// Writes and commits in a step of its own.
    pub(crate) fn fill(&mut self, lease: &mut Lease, tokens: u32) -> Held {
        let (step, write, access) = self.launch(lease, tokens)?;
        self.memory.write(&access);
        let receipt = step.finish();
        lease.commit(write, &receipt).map_err(|e| e.to_string())?;
        self.pool.settle(&receipt).map(drop).map_err(|e| e.to_string())
    }

    /// O7: each page is in one place.
    pub(crate) fn adds_up(&mut self) -> Held {
        let census = self.pool.census();
        hold(census.adds_up(), || format!("the pages do not add up: {census:?}"))
    }
}

pub(crate) fn scope(tag: u64) -> TenantScope {
    Registry::new().open(TenantTag::new(tag))
}
