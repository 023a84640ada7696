//! The tree's right edge: all that is needed to go on with a log, and to know its root.

use tlog_tiles::{EMPTY_HASH, Hash, node_hash};

/// Hashes in a full tile, and entries in a full bundle: C2SP's tile height is 8.
pub(crate) const TILE_WIDTH: usize = 256;
/// Levels of tiles that a log of 2^63 leaves has.
const LEVELS_MAX: usize = 8;

/// The tiles at the right edge, one for each level. At level L, each hash is the root of a full subtree of 256^L leaves.
#[derive(Clone, Default)]
pub(crate) struct Edge {
    size: u64,
    levels: Vec<Vec<Hash>>,
}

/// A tile that became full.
pub(crate) struct Full<'a> {
    pub(crate) level: u8,
    /// Its number within its level.
    pub(crate) number: u64,
    pub(crate) hashes: &'a [Hash],
}

impl Edge {
    /// The edge of a log of `size` leaves, whose tiles there are given, the lowest first. None if they do not fit the size.
    pub(crate) fn restore(size: u64, levels: Vec<Vec<Hash>>) -> Option<Self> {
        let fits = levels
            .iter()
            .enumerate()
            .all(|(level, hashes)| u8::try_from(level).is_ok_and(|level| hashes.len() == width(size, level)));
        (fits && levels.len() == depth(size)).then_some(Self { size, levels })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The tiles that are begun and not full, the lowest level first; an empty one has no hash.
    pub(crate) fn levels(&self) -> &[Vec<Hash>] {
        &self.levels
    }

    /// Adds a leaf; `full` is told each tile that it fills.
    pub(crate) fn push<E>(
        &mut self,
        leaf: Hash,
        full: &mut impl FnMut(Full<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.size = self.size.saturating_add(1);
        let mut hash = leaf;
        let mut count = self.size;
        for level in 0..LEVELS_MAX {
            if self.levels.len() == level {
                self.levels.push(Vec::with_capacity(TILE_WIDTH));
            }
            let Some(hashes) = self.levels.get_mut(level) else { break };
            hashes.push(hash);
            if hashes.len() < TILE_WIDTH {
                break;
            }
            count /= 256;
            let number = count.saturating_sub(1);
            full(Full { level: u8::try_from(level).unwrap_or(u8::MAX), number, hashes })?;
            hash = perfect(hashes);
            hashes.clear();
        }
        Ok(())
    }

    /// The root of the whole tree, as RFC 6962 defines it.
    pub(crate) fn root(&self) -> Hash {
        let mut root = None;
        for hashes in &self.levels {
            root = fold(hashes, root);
        }
        root.unwrap_or(EMPTY_HASH)
    }
}

/// Levels that a log of `size` leaves has tiles at.
pub(crate) fn depth(size: u64) -> usize {
    let mut depth = 0_usize;
    let mut rest = size;
    while rest > 0 {
        depth = depth.saturating_add(1);
        rest /= 256;
    }
    depth
}

/// Hashes in the last tile of a level that is not full; 0 when all are full.
pub(crate) fn width(size: u64, level: u8) -> usize {
    let hashes = size.checked_shr(u32::from(level).saturating_mul(8)).unwrap_or(0);
    usize::try_from(hashes % 256).unwrap_or(0)
}

/// Joins the full subtrees that `hashes` make up, the smallest first, to what stands right of them.
pub(crate) fn fold(hashes: &[Hash], right: Option<Hash>) -> Option<Hash> {
    let mut right = right;
    let mut rest = hashes;
    while !rest.is_empty() {
        // The smallest full subtree is at the right end, as wide as the lowest bit of the count.
        let smallest = 1_usize.checked_shl(rest.len().trailing_zeros()).unwrap_or(rest.len());
        let (left, subtree) = rest.split_at_checked(rest.len().saturating_sub(smallest))?;
        let root = perfect(subtree);
        right = Some(right.map_or(root, |right| node_hash(root, right)));
        rest = left;
    }
    right
}

/// Root of a full subtree over a power of two of hashes, at least one.
fn perfect(hashes: &[Hash]) -> Hash {
    let mut level = hashes.to_vec();
    while level.len() > 1 {
        level = level.chunks_exact(2).filter_map(pair).collect();
    }
    level.first().copied().unwrap_or(EMPTY_HASH)
}

fn pair(pair: &[Hash]) -> Option<Hash> {
    let [left, right] = pair else { return None };
    Some(node_hash(*left, *right))
}

#[cfg(test)]
mod tests;
