//! What unit tests of this crate start from.

use crate::{
    lease::Lease,
    page::{Erase, PageId, Verify},
    pool::Pool,
    tag::{Registry, TenantScope, TenantTag},
    units::{Epoch, PageSize, Pages, Tokens},
};
use core::num::NonZeroU32;

/// Tokens a page holds in tests.
pub(crate) const SIZE: PageSize = PageSize::new(NonZeroU32::new(4).unwrap());

/// Memory that is always blank.
pub(crate) struct Blank;

impl Erase for Blank {
    type Error = core::convert::Infallible;

    fn erase(&mut self, _: PageId) -> Result<(), Self::Error> {
        Ok(())
    }

    fn is_blank(&mut self, _: PageId) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A pool of clean pages.
pub(crate) fn pool(pages: u32, epoch: u64) -> Pool {
    let mut pool = Pool::new(Pages::new(pages), SIZE, Epoch::new(epoch));
    pool.scrub(Pages::new(pages), Verify::ReadBack, &mut Blank).unwrap();
    pool
}

pub(crate) fn scope(tag: u64) -> TenantScope {
    Registry::new().open(TenantTag::new(tag))
}

/// Writes and commits `tokens`, in a step of their own.
pub(crate) fn fill(pool: &mut Pool, lease: &mut Lease, tokens: u32) {
    let step = pool.open_step().unwrap();
    let (write, _) = lease.include(Tokens::new(tokens), &step).unwrap();
    let receipt = step.finish();
    lease.commit(write, &receipt).unwrap();
    pool.settle(&receipt).unwrap();
}
