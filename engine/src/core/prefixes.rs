//! The prefix trees of all tenants, one each, and the share of the pool that they may hold together. No call sees two
//! tenants' tokens.

use isolation::{
    prefix::{PrefixError, PrefixTree},
    share::SharedRun,
    tag::{Registry, TenantTag},
    units::{PageSize, Pages},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// See the module. Trees without pages are let go, so that there are at most as many as there are pages.
pub(super) struct Prefixes {
    page_size: PageSize,
    /// Pages of all trees together; none turns them off.
    share: Pages,
    trees: BTreeMap<TenantTag, PrefixTree>,
}

impl Prefixes {
    pub(super) fn new(page_size: PageSize, share: Pages) -> Self {
        Self { page_size, share, trees: BTreeMap::new() }
    }

    /// The longest run that the tenant has for `prompt`, short of its last token.
    pub(super) fn find(&mut self, tag: TenantTag, prompt: &[u32]) -> Option<SharedRun> {
        self.trees.get_mut(&tag)?.find(prompt)
    }

    /// Keeps `run`, which holds `ids`, for its tenant.
    pub(super) fn keep(
        &mut self,
        registry: &mut Registry,
        tag: TenantTag,
        ids: &[u32],
        run: SharedRun,
    ) -> Result<(), PrefixError> {
        if self.share == Pages::ZERO {
            return Ok(());
        }
        let (page_size, share) = (self.page_size, self.share);
        let tree =
            self.trees.entry(tag).or_insert_with(|| PrefixTree::new(&registry.open(tag), page_size, share));
        tree.insert(ids, run).map(drop)
    }

    /// Lets go of up to `wanted` pages that no sequence holds: the tenant's own first, then the largest trees'.
    pub(super) fn evict_for(&mut self, tag: TenantTag, wanted: Pages) -> Pages {
        let own = self.trees.get_mut(&tag).map_or(Pages::ZERO, |tree| tree.evict(wanted));
        let rest = wanted.checked_sub(own).unwrap_or(Pages::ZERO);
        let others = self.evict(rest);
        own.checked_add(others).unwrap_or(wanted)
    }

    /// Lets go of up to `wanted` pages that no sequence holds, the largest trees' first.
    pub(super) fn evict(&mut self, wanted: Pages) -> Pages {
        let mut by_size: Vec<(Reverse<Pages>, TenantTag)> =
            self.trees.iter().map(|(tag, tree)| (Reverse(tree.held()), *tag)).collect();
        by_size.sort_unstable();
        let mut gone = Pages::ZERO;
        for (_, tag) in by_size {
            let Some(rest) = wanted.checked_sub(gone).filter(|rest| *rest > Pages::ZERO) else { break };
            let evicted = self.trees.get_mut(&tag).map_or(Pages::ZERO, |tree| tree.evict(rest));
            gone = gone.checked_add(evicted).unwrap_or(wanted);
        }
        self.trees.retain(|_, tree| tree.held() > Pages::ZERO);
        gone
    }

    /// Lets go of what is above the share. Pages that a sequence reads stay until it ends.
    pub(super) fn trim(&mut self) -> Pages {
        match self.held().checked_sub(self.share) {
            Some(excess) if excess > Pages::ZERO => self.evict(excess),
            Some(_) | None => Pages::ZERO,
        }
    }

    /// Changes the share; [`Prefixes::trim`] then obeys it.
    pub(super) fn narrow(&mut self, share: Pages) {
        self.share = self.share.min(share);
    }

    /// Lets go of all that a tenant has.
    pub(super) fn forget(&mut self, tag: TenantTag) {
        self.trees.remove(&tag);
    }

    pub(super) fn is_off(&self) -> bool {
        self.share == Pages::ZERO
    }

    pub(super) fn held(&self) -> Pages {
        Pages::new(self.trees.values().fold(0_u32, |sum, tree| sum.saturating_add(tree.held().get())))
    }
}
