//! One page of key/value memory, in a state that its type names. Knows no lease and no pool.
//!
//! ```text
//!   born ──► Dirty ──scrub──► Clean ──give──► Owned
//!              ▲ │                              │
//!              │ └──► withdrawn (destroyed)     │
//!              └────────────retire──────────────┘
//! ```

use crate::{
    fault::{Fault, seeded},
    tag::TenantTag,
    units::{Generation, index},
};

/// The number of a page. Only a pool makes them, and a device is told of them only to
/// wipe them ([`Erase`]) or for a step ([`crate::access::Access`]).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PageId(u32);

impl PageId {
    /// Where the page lies in the pool's memory, below the pool's total.
    pub const fn index(self) -> usize {
        index(self.0)
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// A page as a linear token: one for each page, which moves from state to state and is never copied.
///
/// ```compile_fail,E0599
/// use isolation::page::{Clean, Page};
/// fn twice(page: Page<Clean>) -> [Page<Clean>; 2] { [page.clone(), page] }
/// ```
/// Only a scrub makes it clean:
/// ```compile_fail,E0423
/// use isolation::page::{Clean, Dirty, Page};
/// fn wash(page: Page<Dirty>) -> Page<Clean> { Page { state: Clean(()), ..todo!() } }
/// ```
/// ```compile_fail,E0308
/// use isolation::page::{Clean, Dirty, Page};
/// fn wash(page: Page<Dirty>) -> Page<Clean> { page }
/// ```
#[derive(Debug)]
pub struct Page<S> {
    id: PageId,
    generation: Generation,
    /// Who held it last.
    past: Option<TenantTag>,
    state: S,
}

/// Holds unknown bytes, maybe another tenant's.
#[derive(Debug)]
pub struct Dirty(());

/// Reads as zero.
#[derive(Debug)]
pub struct Clean(());

/// Belongs to one tenant.
#[derive(Debug)]
pub struct Owned {
    tag: TenantTag,
}

impl Page<Dirty> {
    /// Every page is born dirty: nobody knows what the memory held before.
    pub(crate) const fn born(number: u32) -> Self {
        Self { id: PageId(number), generation: Generation::new(0), past: None, state: Dirty(()) }
    }

    /// Ends the page, and says whose bytes may be in it.
    pub(crate) fn withdraw(self) -> Lineage {
        // I1, I2: a destroyed token cannot come back.
        Lineage { page: self.id, generation: self.generation, last: self.past }
    }

    /// The only road to [`Clean`].
    pub(crate) fn scrub<E: Erase>(self, verify: Verify, memory: &mut E) -> ScrubEnd<E::Error> {
        // I2
        if !seeded(Fault::NoScrub)
            && let Err(error) = memory.erase(self.id)
        {
            return ScrubEnd::Failed(self, error);
        }
        let blank = match verify {
            Verify::ReadBack if !seeded(Fault::NoVerify) && !seeded(Fault::NoScrub) => {
                memory.is_blank(self.id)
            }
            Verify::ReadBack | Verify::TrustWipe => Ok(true),
        };
        match blank {
            // I4: a page at its last generation could only be granted under a number that it had before.
            Ok(true) if self.generation.next().is_some() => ScrubEnd::Clean(self.moved(Clean(()))),
            Ok(true | false) => ScrubEnd::Unfit(self),
            Err(error) => ScrubEnd::Failed(self, error),
        }
    }
}

impl Page<Clean> {
    /// Begins a new life of the page.
    pub(crate) fn give(self, tag: TenantTag) -> Page<Owned> {
        // I4
        let next = if seeded(Fault::GenerationNotBumped) { None } else { self.generation.next() };
        let generation = next.unwrap_or(self.generation);
        Page { generation, ..self.moved(Owned { tag }) }
    }

    /// Back among the dirty, unused.
    pub(crate) fn soil(self) -> Page<Dirty> {
        self.moved(Dirty(()))
    }
}

impl Page<Owned> {
    /// What linear tokens rule out, for [`Fault::DoubleGrant`] alone.
    #[cfg(feature = "seeded-faults")]
    pub(crate) fn forge_clean(&self) -> Page<Clean> {
        Page { id: self.id, generation: self.generation, past: self.past, state: Clean(()) }
    }

    pub(crate) const fn facts(&self) -> Facts {
        Facts { id: self.id, generation: self.generation, tag: self.state.tag }
    }

    pub(crate) fn retire(self) -> Page<Dirty> {
        let past = if seeded(Fault::NoLineage) { None } else { Some(self.state.tag) };
        Page { past, ..self.moved(Dirty(())) }
    }
}

impl<S> Page<S> {
    fn moved<T>(self, state: T) -> Page<T> {
        Page { id: self.id, generation: self.generation, past: self.past, state }
    }
}

/// Where a withdrawn page comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lineage {
    /// The page.
    pub page: PageId,
    /// Its last life; 0 for a page that was never granted.
    pub generation: Generation,
    /// Who held it in that life; `None` for a page that was never granted.
    pub last: Option<TenantTag>,
}

/// What an owned page is: plain numbers, which give no right to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Facts {
    pub(crate) id: PageId,
    pub(crate) generation: Generation,
    pub(crate) tag: TenantTag,
}

/// How one scrub ended.
pub(crate) enum ScrubEnd<E> {
    Clean(Page<Clean>),
    /// The memory did not do as asked; the page is as dirty as before.
    Failed(Page<Dirty>, E),
    /// Not blank after its wipe, or out of generations: never to be granted again.
    Unfit(Page<Dirty>),
}

/// Memory that can wipe pages. Its one promise is checked by reading back.
pub trait Erase {
    /// Why the memory could not do it.
    type Error;

    /// After `Ok`, each byte of `page` reads as zero until the next write.
    ///
    /// # Errors
    /// When the wipe was not done, or may not have been.
    fn erase(&mut self, page: PageId) -> Result<(), Self::Error>;

    /// Whether each byte of `page` reads as zero now, by reading them all.
    ///
    /// # Errors
    /// When the page could not be read.
    fn is_blank(&mut self, page: PageId) -> Result<bool, Self::Error>;
}

/// Whether a wipe is believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verify {
    /// Each wiped page is read back; one that is not blank is withdrawn.
    ReadBack,
    /// Not read back. For memory whose wipe is checked elsewhere, or benches.
    TrustWipe,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Blank;

    /// Memory that keeps what it held.
    struct Stained;

    impl Erase for Stained {
        type Error = core::convert::Infallible;

        fn erase(&mut self, _: PageId) -> Result<(), Self::Error> {
            Ok(())
        }

        fn is_blank(&mut self, _: PageId) -> Result<bool, Self::Error> {
            Ok(false)
        }
    }

    #[test]
    fn a_page_that_keeps_its_past_is_unfit() {
        // I2
        let end = Page::born(0).scrub(Verify::ReadBack, &mut Stained);
        assert!(matches!(end, ScrubEnd::Unfit(_)));
        let end = Page::born(0).scrub(Verify::TrustWipe, &mut Stained);
        assert!(matches!(end, ScrubEnd::Clean(_)), "believed, where the caller says so");
    }

    #[test]
    fn each_grant_is_a_new_life_and_after_the_last_there_is_none() {
        let ScrubEnd::Clean(page) = Page::born(7).scrub(Verify::ReadBack, &mut Blank) else {
            panic!("clean")
        };
        let owned = page.give(TenantTag::new(1));
        let facts = owned.facts();
        // I4
        assert_eq!((facts.id.index(), facts.generation, facts.tag.get()), (7, Generation::new(1), 1));
        let spent = Page { generation: Generation::new(u64::MAX), ..owned.retire() };
        assert!(matches!(spent.scrub(Verify::ReadBack, &mut Blank), ScrubEnd::Unfit(_)));
    }
}
