//! The prefix trees of all tenants, one each, and the share of the pool that they may hold together. No call sees two
//! tenants' tokens.

use crate::fault::{Fault, seeded};
use isolation::{
    keyed::{Revision, Secrets},
    prefix::{PrefixError, PrefixTree},
    share::SharedRun,
    tag::{Registry, TenantTag},
    units::{PageSize, Pages},
};
use std::collections::BTreeMap;

/// See the module. Trees without pages are let go, so that there are at most as many as there are pages.
pub(super) struct Prefixes {
    page_size: PageSize,
    secrets: Secrets,
    revision: Revision,
    /// Pages of all trees together; none turns them off.
    share: Pages,
    trees: BTreeMap<TenantTag, PrefixTree>,
}

impl Prefixes {
    pub(super) fn new(page_size: PageSize, share: Pages, secrets: Secrets, revision: Revision) -> Self {
        Self { page_size, secrets, revision, share, trees: BTreeMap::new() }
    }

    /// The longest run that the tenant has for `prompt`, short of its last token.
    pub(super) fn find(&mut self, tag: TenantTag, prompt: &[u32]) -> Option<SharedRun> {
        let tag = if seeded(Fault::OneTreeForAll) { *self.trees.keys().next()? } else { tag };
        self.trees.get_mut(&tag)?.find(prompt)
    }

    /// Keeps `run` for its tenant.
    pub(super) fn keep(&mut self, registry: &mut Registry, run: &SharedRun) -> Result<(), PrefixError> {
        if self.share == Pages::ZERO {
            return Ok(());
        }
        let Self { page_size, share, secrets, revision, trees } = self;
        let tag = run.tag();
        let new = || PrefixTree::new(&registry.open(tag), *page_size, *share, secrets, revision);
        trees.entry(tag).or_insert_with(new).insert(run).map(drop)
    }

    /// Lets go of up to `wanted` of the tenant's pages that no sequence holds.
    pub(super) fn evict_of(&mut self, tag: TenantTag, wanted: Pages) -> Pages {
        let Some(tree) = self.trees.get_mut(&tag) else { return Pages::ZERO };
        let gone = tree.evict(wanted);
        if tree.held() == Pages::ZERO {
            self.trees.remove(&tag);
        }
        gone
    }

    /// Who has prefixes.
    pub(super) fn tenants(&self) -> impl Iterator<Item = TenantTag> + '_ {
        self.trees.keys().copied()
    }

    /// Pages above the share. Those that a sequence reads stay until it ends.
    pub(super) fn excess(&self) -> Pages {
        self.held().checked_sub(self.share).unwrap_or(Pages::ZERO)
    }

    /// Makes the share smaller; what is above it then is [`Prefixes::excess`].
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
