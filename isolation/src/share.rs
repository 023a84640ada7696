//! Pages that several sequences of one tenant read, and none writes. Each says which tokens fill it.

use crate::{
    fault::{Fault, seeded},
    home::Home,
    page::{Facts, Owned, Page},
    tag::TenantTag,
    units::{PageSize, Pages, StepId, Tokens, pages},
};
use alloc::{rc::Rc, vec::Vec};
use core::cell::Cell;

/// A counted reference to one full page; the last one dropped retires it behind its fence.
#[derive(Clone, Debug)]
pub(crate) struct SharedPage(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` only while dropping.
    page: Option<Page<Owned>>,
    facts: Facts,
    /// What fills it, to the last place.
    tokens: Rc<[u32]>,
    fence: Cell<StepId>,
    home: Rc<Home>,
}

impl SharedPage {
    pub(crate) fn seal(page: Page<Owned>, tokens: &[u32], fence: StepId, home: Rc<Home>) -> Self {
        home.note_sealed();
        let facts = page.facts();
        Self(Rc::new(Inner { page: Some(page), facts, tokens: tokens.into(), fence: Cell::new(fence), home }))
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.0.tokens
    }

    pub(crate) fn facts(&self) -> Facts {
        self.0.facts
    }

    /// `step` names the page from now on.
    pub(crate) fn raise_fence(&self, step: StepId) {
        if !seeded(Fault::NoSharedFence) {
            self.0.fence.set(self.0.fence.get().max(step));
        }
    }

    /// Whether this is the only reference.
    pub(crate) fn is_unshared(&self) -> bool {
        Rc::strong_count(&self.0) == 1
    }

    pub(crate) fn is_of(&self, home: &Rc<Home>) -> bool {
        Rc::ptr_eq(&self.0.home, home)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.home.retire_shared(page, self.fence.get());
        }
    }
}

/// Full pages of one tenant, in order from a prompt's first token. A clone counts.
#[derive(Clone, Debug)]
pub struct SharedRun {
    tag: TenantTag,
    page_size: PageSize,
    pages: Vec<SharedPage>,
}

impl SharedRun {
    /// `None` for no page: a run has at least one.
    pub(crate) fn new(tag: TenantTag, page_size: PageSize, pages: Vec<SharedPage>) -> Option<Self> {
        (!pages.is_empty()).then_some(Self { tag, page_size, pages })
    }

    /// Whose pages these are.
    pub const fn tag(&self) -> TenantTag {
        self.tag
    }

    /// Tokens a page holds.
    pub const fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// How many pages; at least one.
    pub fn len(&self) -> Pages {
        pages(self.pages.len())
    }

    /// How many tokens: all places of all its pages.
    pub fn tokens(&self) -> Tokens {
        // A run was filled by a lease, which counts in `Tokens`.
        self.page_size.tokens_in(self.len()).unwrap_or(Tokens::ZERO)
    }

    /// The token at each place, as it was written there.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.iter().flat_map(|page| page.tokens().iter().copied())
    }

    pub(crate) fn pages(&self) -> &[SharedPage] {
        &self.pages
    }

    pub(crate) fn into_pages(self) -> Vec<SharedPage> {
        self.pages
    }
}
