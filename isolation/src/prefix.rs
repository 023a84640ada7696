//! What one tenant's prompts have in common, page by page. Knows one tenant only.
//!
//! A node is one full page, keyed below its parent by the very tokens that the page holds: there is no hash
//! to collide.

use crate::{
    fault::{Fault, seeded},
    share::{SharedPage, SharedRun},
    tag::{TenantScope, TenantTag},
    units::{PageSize, Pages, index, pages},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    vec::Vec,
};

/// One tenant's cached prefixes, of bounded size.
#[derive(Debug)]
pub struct PrefixTree {
    tag: TenantTag,
    page_size: PageSize,
    max: Pages,
    nodes: BTreeMap<NodeId, Node>,
    first_pages: Children,
    /// Nodes without children, least recently used first: the only ones that can be evicted.
    leaves: BTreeSet<(Used, NodeId)>,
    clock: Used,
    last_id: NodeId,
}

type Children = BTreeMap<Rc<[u32]>, NodeId>;

/// Rises with each call.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Used(u64);

/// Never used twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct NodeId(u64);

#[derive(Debug)]
struct Node {
    tokens: Rc<[u32]>,
    page: SharedPage,
    parent: Option<NodeId>,
    children: Children,
    used: Used,
}

impl PrefixTree {
    /// An empty tree of the scope's tenant that holds at most `max` pages.
    pub const fn new(scope: &TenantScope, page_size: PageSize, max: Pages) -> Self {
        Self {
            tag: scope.tag(),
            page_size,
            max,
            nodes: BTreeMap::new(),
            first_pages: BTreeMap::new(),
            leaves: BTreeSet::new(),
            clock: Used(0),
            last_id: NodeId(0),
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
        let mut at = None;
        for tokens in prompt.get(..reusable)?.chunks_exact(index(self.page_size.tokens())) {
            let Some(next) = self.child(at, tokens) else { break };
            self.touch(next);
            found.extend(self.nodes.get(&next).map(|node| node.page.clone()));
            at = Some(next);
        }
        SharedRun::new(self.tag, self.page_size, found)
    }

    /// Keeps `run` as the pages of `tokens`, as far as there is room, and returns how many pages are new.
    /// What is cached already stays; what was used least goes first.
    ///
    /// # Errors
    /// When the run is another tenant's, of another page size, or longer than `tokens`.
    pub fn insert(&mut self, tokens: &[u32], run: SharedRun) -> Result<Pages, PrefixError> {
        // I8
        if run.tag() != self.tag {
            return Err(PrefixError::OtherTenant { tree: self.tag, run: run.tag() });
        }
        if run.page_size() != self.page_size {
            return Err(PrefixError::OtherPageSize { tree: self.page_size, run: run.page_size() });
        }
        if tokens.len() < index(run.tokens().get()) {
            return Err(PrefixError::TooFewTokens { tokens: tokens.len(), run: run.len() });
        }
        self.tick();
        let mut added = 0_usize;
        let mut at = None;
        for (tokens, page) in tokens.chunks_exact(index(self.page_size.tokens())).zip(run.pages()) {
            if let Some(next) = self.child(at, tokens) {
                self.touch(next);
                at = Some(next);
                continue;
            }
            // What this call has touched is as new as the clock, so the path is not evicted from under the
            // run.
            if self.held() >= self.max && !self.evict_one(self.clock) {
                break;
            }
            at = self.add(at, tokens, page.clone());
            if at.is_none() {
                break;
            }
            added = added.saturating_add(1);
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
            .find(|(_, id)| self.nodes.get(id).is_some_and(is_free))
            .copied();
        let Some((used, id)) = victim else { return false };
        self.leaves.remove(&(used, id));
        let Some(node) = self.nodes.remove(&id) else { return false };
        if let Some(siblings) = self.children_mut(node.parent) {
            siblings.remove(&node.tokens);
        }
        if let Some(parent) = node.parent
            && let Some(above) = self.nodes.get(&parent)
            && above.children.is_empty()
        {
            self.leaves.insert((above.used, parent));
        }
        true
    }

    fn child(&self, parent: Option<NodeId>, tokens: &[u32]) -> Option<NodeId> {
        let children = match parent {
            Some(parent) => &self.nodes.get(&parent)?.children,
            None => &self.first_pages,
        };
        if seeded(Fault::PrefixNoTokenCompare) {
            return children.iter().find(|(key, _)| key.first() == tokens.first()).map(|(_, id)| *id);
        }
        children.get(tokens).copied()
    }

    /// `None` where the parent is gone: a page must never move to another place in a prompt.
    fn add(&mut self, parent: Option<NodeId>, tokens: &[u32], page: SharedPage) -> Option<NodeId> {
        let id = NodeId(self.last_id.0.checked_add(1)?);
        let tokens: Rc<[u32]> = Rc::from(tokens);
        self.children_mut(parent)?.insert(Rc::clone(&tokens), id);
        self.last_id = id;
        if let Some(parent) = parent
            && let Some(above) = self.nodes.get(&parent)
        {
            self.leaves.remove(&(above.used, parent));
        }
        self.leaves.insert((self.clock, id));
        self.nodes.insert(id, Node { tokens, page, parent, children: Children::new(), used: self.clock });
        Some(id)
    }

    fn children_mut(&mut self, parent: Option<NodeId>) -> Option<&mut Children> {
        match parent {
            Some(parent) => Some(&mut self.nodes.get_mut(&parent)?.children),
            None => Some(&mut self.first_pages),
        }
    }

    fn touch(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if self.leaves.remove(&(node.used, id)) {
            self.leaves.insert((self.clock, id));
        }
        node.used = self.clock;
    }

    fn tick(&mut self) {
        self.clock = Used(self.clock.0.saturating_add(1));
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
    /// The run has more places than there are tokens.
    TooFewTokens {
        /// How many tokens.
        tokens: usize,
        /// How many pages.
        run: Pages,
    },
}

impl core::fmt::Display for PrefixError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OtherTenant { tree, run } => write!(f, "a run of tenant {run} in a tree of tenant {tree}"),
            Self::OtherPageSize { tree, run } => {
                write!(f, "pages of {} tokens in a tree of {}", run.tokens(), tree.tokens())
            }
            Self::TooFewTokens { tokens, run } => write!(f, "{tokens} tokens for a run of {run} pages"),
        }
    }
}

impl core::error::Error for PrefixError {}

#[cfg(test)]
mod tests;
