//! The chain of a log's leaves: each tenant's own, and the seals over all of them.

use tlog_tiles::Hash;

use crate::error::{AuditError, Place, Why, broken};
use crate::fault::{Fault, seeded};
use crate::heads::{Head, Heads, Misfit};
use crate::hex::Hex;
use crate::leaf::{Leaf, leaf_hash};
use crate::record::Record;

/// What leaves read so far have come to.
pub(crate) struct Chain {
    /// All tenants' last leaves.
    pub(crate) heads: Heads,
    /// The last seal's number.
    pub(crate) epoch: u64,
    /// Leaves.
    pub(crate) size: u64,
    /// Whether the last leaf is a seal; of an empty log too.
    pub(crate) is_sealed: bool,
}

impl Default for Chain {
    fn default() -> Self {
        Self { heads: Heads::default(), epoch: 0, size: 0, is_sealed: true }
    }
}

impl Chain {
    /// Takes a leaf as the next; the leaf, and its hash.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(Leaf, Hash), AuditError> {
        let wrong = |why| broken(Place::Leaf(self.size), why);
        let leaf = Leaf::decode(bytes).map_err(|error| wrong(Why::Leaf(error)))?;
        let hash = leaf_hash(bytes);
        if leaf.event.concerns_a_tenant() != leaf.link.is_some() {
            return Err(wrong(Why::Tenantless));
        }
        if let Some(link) = &leaf.link {
            if seeded(Fault::ChainUnchecked) {
                self.heads.put(Head { tenant: link.tenant, seq: link.seq, hash });
            } else {
                self.heads.follow(link, hash).map_err(|misfit| wrong(misfit.into()))?;
            }
        }
        self.is_sealed = false;
        if let Record::Seal(seal) = leaf.event {
            let is_next = Some(seal.epoch) == self.epoch.checked_add(1);
            let is_whole = u64::try_from(self.heads.len()).ok() == Some(seal.tenants);
            let is_true = is_next && is_whole && seal.heads == self.heads.root();
            if !is_true && !seeded(Fault::SealUnchecked) {
                return Err(wrong(Why::Seal));
            }
            self.epoch = seal.epoch;
            self.is_sealed = true;
        }
        self.size = self.size.saturating_add(1);
        let Hex(hash) = hash;
        Ok((leaf, Hash(hash)))
    }
}

impl From<Misfit> for Why {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Seq { expected } => Self::TenantSeq { expected },
            Misfit::Prev => Self::TenantPrev,
            Misfit::TooMany => Self::Tenants,
        }
    }
}
