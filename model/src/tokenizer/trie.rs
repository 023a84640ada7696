//! All tokens of plain text by their bytes: the longest that a word starts with, and the next shorter ones.

use super::fast::FastMap;
use super::{TokenizerError, index, token};

/// Most nodes: their numbers share 32 bits with a byte.
const NODES_MAX: usize = 1 << 24;
const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    /// The token of these bytes that merges can make, or [`NONE`].
    born: u32,
    /// The token of these bytes, whether merges make it or not, or [`NONE`].
    whole: u32,
    /// The longest born token that is a proper prefix of these bytes, or [`NONE`].
    shorter: u32,
}

/// A tree of bytes.
pub(super) struct Trie {
    edges: FastMap<u32, u32>,
    nodes: Vec<Node>,
    /// For each token the longest born token that is a proper prefix of it, or [`NONE`].
    shorter: Vec<u32>,
}

impl Trie {
    /// Builds the tree of all `tokens` (id and bytes); `born` says which of them merges can make.
    pub(super) fn new<'t>(
        vocab: usize,
        tokens: impl Iterator<Item = (u32, &'t [u8])>,
        born: impl Fn(u32) -> bool,
    ) -> Result<Trie, TokenizerError> {
        let empty = Node { born: NONE, whole: NONE, shorter: NONE };
        let mut trie = Trie { edges: FastMap::default(), nodes: vec![empty], shorter: vec![NONE; vocab] };
        for (id, bytes) in tokens {
            let mut at = ROOT;
            for byte in bytes {
                at = trie.grow(at, *byte)?;
            }
            if let Some(node) = trie.nodes.get_mut(index(at)) {
                node.whole = id;
                node.born = if born(id) { id } else { NONE };
            }
        }
        trie.link_shorter();
        Ok(trie)
    }

    fn grow(&mut self, at: u32, byte: u8) -> Result<u32, TokenizerError> {
        if self.nodes.len() >= NODES_MAX {
            return Err(TokenizerError::VocabularyTooLarge { bytes_max: NODES_MAX });
        }
        let fresh = token(self.nodes.len());
        let node = *self.edges.entry(edge(at, byte)).or_insert(fresh);
        if node == fresh {
            self.nodes.push(Node { born: NONE, whole: NONE, shorter: NONE });
        }
        Ok(node)
    }

    /// A child is younger than its parent, so one pass over the edges in the order of their parents is enough.
    fn link_shorter(&mut self) {
        let mut edges: Vec<(u32, u32)> = self.edges.iter().map(|(edge, child)| (edge >> 8, *child)).collect();
        edges.sort_unstable();
        for (parent, child) in edges {
            let above = self.nodes.get(index(parent)).copied();
            if let (Some(above), Some(node)) = (above, self.nodes.get_mut(index(child))) {
                node.shorter = if above.born == NONE { above.shorter } else { above.born };
            }
        }
        for node in &self.nodes {
            if let Some(shorter) = self.shorter.get_mut(index(node.whole)) {
                *shorter = node.shorter;
            }
        }
    }

    fn child(&self, at: u32, byte: u8) -> Option<u32> {
        self.edges.get(&edge(at, byte)).copied()
    }

    /// The longest token that merges can make and that `bytes` starts with.
    pub(super) fn longest(&self, bytes: &[u8]) -> Option<u32> {
        let mut at = ROOT;
        let mut best = NONE;
        for byte in bytes {
            let Some(child) = self.child(at, *byte) else { break };
            at = child;
            if let Some(node) = self.nodes.get(index(at))
                && node.born != NONE
            {
                best = node.born;
            }
        }
        (best != NONE).then_some(best)
    }

    /// The longest token that merges can make and that is a proper prefix of `token`.
    pub(super) fn shorter(&self, token: u32) -> Option<u32> {
        self.shorter.get(index(token)).copied().filter(|shorter| *shorter != NONE)
    }

    /// The token of exactly these bytes, whether merges make it or not.
    pub(super) fn whole(&self, bytes: &[u8]) -> Option<u32> {
        let end = bytes.iter().try_fold(ROOT, |at, byte| self.child(at, *byte))?;
        self.nodes.get(index(end)).map(|node| node.whole).filter(|whole| *whole != NONE)
    }
}

fn edge(at: u32, byte: u8) -> u32 {
    at << 8 | u32::from(byte)
}
