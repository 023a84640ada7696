//! Each tenant's last leaf, and one hash over all of them, which a seal puts into the log.
//!
//! The hash is RFC 6962's over the heads in the order in which tenants first appeared, so that whoever reads the log knows the order too,
//! and a tenant's head can be proved without the others.

use std::collections::{BTreeSet, HashMap};

use tlog_tiles::{EMPTY_HASH, Hash, node_hash, record_hash};

use crate::hex::Hex;
use crate::leaf::TenantLink;
use crate::tree::fold;

/// Tenants that one log may have records of.
pub const TENANTS_MAX: usize = 1 << 20;

/// A tenant's last leaf.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) tenant: Hex<16>,
    pub(crate) seq: u64,
    pub(crate) hash: Hex<32>,
}

impl Head {
    fn leaf(&self) -> Hash {
        let Hex(tenant) = self.tenant;
        let Hex(hash) = self.hash;
        record_hash(&[&tenant[..], &self.seq.to_be_bytes(), &hash].concat())
    }
}

/// The heads of all tenants.
#[derive(Default)]
pub(crate) struct Heads {
    order: Vec<Head>,
    places: HashMap<[u8; 16], usize>,
    /// The tree over the heads: at level k, the roots of its full subtrees of 2^k heads.
    levels: Vec<Vec<Hash>>,
    /// Places whose hash in the tree is not up to date.
    stale: BTreeSet<usize>,
}

/// Why a leaf does not fit what its tenant has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Misfit {
    Seq { expected: u64 },
    Prev,
    TooMany,
}

impl Heads {
    pub(crate) const fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn all(&self) -> &[Head] {
        &self.order
    }

    /// What the tenant's next leaf has to say; none when there is no place for another tenant.
    pub(crate) fn next(&self, tenant: Hex<16>) -> Option<TenantLink> {
        let head = self.places.get(&tenant.0).and_then(|place| self.order.get(*place));
        match head {
            Some(head) => Some(TenantLink { tenant, seq: head.seq.checked_add(1)?, prev: head.hash }),
            None if self.order.len() < TENANTS_MAX => Some(TenantLink { tenant, seq: 1, prev: Hex([0; 32]) }),
            None => None,
        }
    }

    /// Takes `hash`, of a leaf that says `link`, as its tenant's last.
    pub(crate) fn follow(&mut self, link: &TenantLink, hash: Hex<32>) -> Result<(), Misfit> {
        let next = self.next(link.tenant).ok_or(Misfit::TooMany)?;
        if link.seq != next.seq {
            return Err(Misfit::Seq { expected: next.seq });
        }
        if link.prev != next.prev {
            return Err(Misfit::Prev);
        }
        self.put(Head { tenant: link.tenant, seq: link.seq, hash });
        Ok(())
    }

    /// Sets a tenant's head, whatever it was.
    pub(crate) fn put(&mut self, head: Head) {
        let Hex(tenant) = head.tenant;
        let place = *self.places.entry(tenant).or_insert(self.order.len());
        match self.order.get_mut(place) {
            Some(known) => *known = head,
            None => self.order.push(head),
        }
        self.stale.insert(place);
    }

    /// The hash over all heads.
    pub(crate) fn root(&mut self) -> Hex<32> {
        let mut stale = core::mem::take(&mut self.stale);
        let mut level = 0_usize;
        while !stale.is_empty() {
            stale = self.refresh(level, &stale);
            level = level.saturating_add(1);
        }
        let Hash(root) = fold_levels(&self.levels).unwrap_or(EMPTY_HASH);
        Hex(root)
    }

    /// Brings the hashes at `stale` places of a level up to date; answers the places above them that are stale now.
    fn refresh(&mut self, level: usize, stale: &BTreeSet<usize>) -> BTreeSet<usize> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        let mut above = BTreeSet::new();
        for &place in stale {
            let Some(hash) = self.hash(level, place) else { continue };
            let Some(hashes) = self.levels.get_mut(level) else { continue };
            match hashes.get_mut(place) {
                Some(known) => *known = hash,
                None => hashes.push(hash),
            }
            above.insert(place / 2);
        }
        above
    }

    /// The hash at a place of a level, from those below it; none for a subtree that is not full.
    fn hash(&self, level: usize, place: usize) -> Option<Hash> {
        let Some(below) = level.checked_sub(1) else { return self.order.get(place).map(Head::leaf) };
        let below = self.levels.get(below)?;
        let left = place.checked_mul(2)?;
        Some(node_hash(*below.get(left)?, *below.get(left.checked_add(1)?)?))
    }
}

/// Root over the full subtrees of each level, where the last of an odd number has none above it.
fn fold_levels(levels: &[Vec<Hash>]) -> Option<Hash> {
    let mut right = None;
    for hashes in levels {
        if hashes.len() % 2 == 1 {
            right = fold(hashes.last_chunk::<1>()?, right);
        }
    }
    right
}

#[cfg(test)]
mod tests;
