//! What one tenant's prompts have in common, page by page. Knows one tenant only.
//!
//! A node is one full page, found by the keyed name of its prefix, and then only taken if the very tokens that the page was
//! filled with are asked for, after the very page before: a collision of names is a miss.

use crate::{
    fault::{Fault, seeded},
    keyed::{PageKey, Revision, Secrets, TreeSecret},
    share::{SharedPage, SharedRun},
    tag::{TenantScope, TenantTag},
    units::{PageSize, Pages, index, pages},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

/// One tenant's cached prefixes, of bounded size.
#[derive(Debug)]
pub struct PrefixTree {
    tag: TenantTag,
    page_size: PageSize,
    max: Pages,
    secret: TreeSecret,
    root: PageKey,
    nodes: BTreeMap<PageKey, Node>,
    /// Nodes without children, least recently used first: the only ones that can be evicted.
    leaves: BTreeSet<(Used, PageKey)>,
    clock: Used,
}

/// Rises with each call.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Used(u64);

#[derive(Debug)]
struct Node {
    page: SharedPage,
    /// The name of the page before it, or the root's.
    before: PageKey,
    children: u32,
    used: Used,
}

impl PrefixTree {
    /// An empty tree of the scope's tenant that holds at most `max` pages, all of them computed by `revision`.
    pub fn new(
        scope: &TenantScope,
        page_size: PageSize,
        max: Pages,
        secrets: &Secrets,
        revision: &Revision,
    ) -> Self {
        let secret = secrets.of(scope);
        let root = secret.root(revision);
        Self {
            tag: scope.tag(),
            page_size,
            max,
            secret,
            root,
            nodes: BTreeMap::new(),
            leaves: BTreeSet::new(),
            clock: Used(0),
        }
    }

    /// Whose prefixes these are.
    pub const fn tag(&self) -> TenantTag {
        self.tag
    }

    /// Pages held now.
    pub fn held(&self) -> Pages {
        pages(self.nodes.len())
    }

    /// The longest cached run of whole pages that `prompt` begins with, short of its last token: that one
    /// must be computed, for there is nothing to sample from otherwise.
    pub fn find(&mut self, prompt: &[u32]) -> Option<SharedRun> {
        self.tick();
        // I8
        let reusable = prompt.len().saturating_sub(if seeded(Fault::PrefixWholePrompt) { 0 } else { 1 });
        let mut found = Vec::new();
        let mut at = self.root;
        for tokens in prompt.get(..reusable)?.chunks_exact(index(self.page_size.tokens())) {
            let key = self.secret.page(at, tokens);
            let Some(node) = self.nodes.get(&key).filter(|node| node.holds(at, tokens)) else { break };
            found.push(node.page.clone());
            self.touch(key);
            at = key;
        }
        SharedRun::new(self.tag, self.page_size, found)
    }

    /// Keeps `run`, as far as there is room, and returns how many pages are new. What is cached already stays; what was
    /// used least goes first.
    ///
    /// # Errors
    /// When the run is another tenant's or of another page size.
    pub fn insert(&mut self, run: &SharedRun) -> Result<Pages, PrefixError> {
        // I8
        if run.tag() != self.tag {
            return Err(PrefixError::OtherTenant { tree: self.tag, run: run.tag() });
        }
        if run.page_size() != self.page_size {
            return Err(PrefixError::OtherPageSize { tree: self.page_size, run: run.page_size() });
        }
        self.tick();
        let mut added = 0_usize;
        let mut at = self.root;
        for page in run.pages() {
            let key = self.secret.page(at, page.tokens());
            match self.nodes.get(&key).map(|node| node.holds(at, page.tokens())) {
                Some(true) => self.touch(key),
                // Two prefixes of one name: the first stays.
                Some(false) => break,
                None => {
                    // What this call has touched is as new as the clock, so the path is not evicted from under the
                    // run.
                    if self.held() >= self.max && !self.evict_one(self.clock) {
                        break;
                    }
                    self.add(at, key, page.clone());
                    added = added.saturating_add(1);
                }
            }
            at = key;
        }
        Ok(pages(added))
    }

    /// Lets go of up to `wanted` pages that nobody else holds, least recently used first, and returns how
    /// many there were.
    pub fn evict(&mut self, wanted: Pages) -> Pages {
        let mut gone = 0_u32;
        while gone < wanted.get() && self.evict_one(Used(u64::MAX)) {
            gone = gone.saturating_add(1);
        }
        Pages::new(gone)
    }

    /// Whether a leaf was let go that was last used before `limit` and that nobody else holds.
    fn evict_one(&mut self, limit: Used) -> bool {
        // I8
        let is_free = |node: &Node| node.page.is_unshared() || seeded(Fault::EvictInUse);
        let victim = self
            .leaves
            .iter()
            .take_while(|(used, _)| *used < limit)
            .find(|(_, key)| self.nodes.get(key).is_some_and(is_free))
            .copied();
        let Some((used, key)) = victim else { return false };
        self.leaves.remove(&(used, key));
        let Some(node) = self.nodes.remove(&key) else { return false };
        if let Some(before) = self.nodes.get_mut(&node.before) {
            before.children = before.children.saturating_sub(1);
            if before.children == 0 {
                self.leaves.insert((before.used, node.before));
            }
        }
        true
    }

    /// A page must never move to another place in a prompt: `before` is in the tree, or the root.
    fn add(&mut self, before: PageKey, key: PageKey, page: SharedPage) {
        if let Some(above) = self.nodes.get_mut(&before) {
            above.children = above.children.saturating_add(1);
            self.leaves.remove(&(above.used, before));
        }
        self.leaves.insert((self.clock, key));
        self.nodes.insert(key, Node { page, before, children: 0, used: self.clock });
    }

    fn touch(&mut self, key: PageKey) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if self.leaves.remove(&(node.used, key)) {
            self.leaves.insert((self.clock, key));
        }
        node.used = self.clock;
    }

    fn tick(&mut self) {
        self.clock = Used(self.clock.0.saturating_add(1));
    }
}

impl Node {
    /// Whether it is the page that follows `before` and is filled with `tokens`.
    fn holds(&self, before: PageKey, tokens: &[u32]) -> bool {
        // I8
        seeded(Fault::PrefixNoTokenCompare) || self.before == before && self.page.tokens() == tokens
    }
}

/// Why a run was not cached. None of these can come from a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PrefixError {
    /// The run is another tenant's.
    OtherTenant {
        /// Whose tree.
        tree: TenantTag,
        /// Whose run.
        run: TenantTag,
    },
    /// The run's pages are of another size.
    OtherPageSize {
        /// The tree's.
        tree: PageSize,
        /// The run's.
        run: PageSize,
    },
}

impl core::fmt::Display for PrefixError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OtherTenant { tree, run } => write!(f, "a run of tenant {run} in a tree of tenant {tree}"),
            Self::OtherPageSize { tree, run } => {
                write!(f, "pages of {} tokens in a tree of {}", run.tokens(), tree.tokens())
            }
        }
    }
}

impl core::error::Error for PrefixError {}

#[cfg(test)]
mod tests;
