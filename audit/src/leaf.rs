//! A leaf: one record, when, and its place among the records of its tenant. Its bytes are what the tree hashes.
//!
//! The form is [postcard](https://postcard.jamesmunns.com)'s, after one byte that names the version. Each leaf has one form only:
//! bytes that decode to a leaf which encodes to other bytes are refused.

use serde::{Deserialize, Serialize};
use tlog_tiles::{Hash, record_hash};

use crate::hex::Hex;
use crate::record::Record;

/// Bytes of a leaf at most. C2SP's bundles could hold 65,535.
pub const LEAF_BYTES_MAX: usize = 1_024;

/// The version of the form.
const FORM: u8 = 1;

/// One entry of the log.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Leaf {
    /// Milliseconds since 1970, by the gateway's clock.
    pub time_ms: u64,
    /// Whose it is; none for what concerns no tenant.
    pub link: Option<TenantLink>,
    /// What happened.
    pub event: Record,
}

/// A leaf's place among those of its tenant in this log: none can be left out, added or reordered without breaking the next.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TenantLink {
    /// The tenant, outside the engine.
    pub tenant: Hex<16>,
    /// 1 for its first, and one more for each; no number is left out.
    pub seq: u64,
    /// Hash of its leaf before this one; zeros for its first.
    pub prev: Hex<32>,
}

/// Bytes that are no leaf.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LeafError {
    /// Too long, or of another version.
    #[error("its form is not version 1, or it has more than {LEAF_BYTES_MAX} bytes")]
    Form,
    /// Not a leaf in its one form.
    #[error("it does not decode to a record, or is not in its one form")]
    Content,
}

impl Leaf {
    /// Its bytes.
    ///
    /// # Errors
    /// [`LeafError::Form`] for more than [`LEAF_BYTES_MAX`]; no record of ours has as many.
    pub fn encode(&self) -> Result<Vec<u8>, LeafError> {
        let bytes = postcard::to_extend(self, vec![FORM]).map_err(|_| LeafError::Content)?;
        if bytes.len() > LEAF_BYTES_MAX { Err(LeafError::Form) } else { Ok(bytes) }
    }

    /// The leaf that has exactly these bytes.
    ///
    /// # Errors
    /// [`LeafError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, LeafError> {
        let (form, rest) = bytes.split_first().ok_or(LeafError::Form)?;
        if *form != FORM || bytes.len() > LEAF_BYTES_MAX {
            return Err(LeafError::Form);
        }
        let leaf: Self = postcard::from_bytes(rest).map_err(|_| LeafError::Content)?;
        if leaf.encode()? == bytes { Ok(leaf) } else { Err(LeafError::Content) }
    }
}

/// What the tree, the tenant's next leaf and a receipt name a leaf by: RFC 6962's hash of a leaf.
pub fn leaf_hash(bytes: &[u8]) -> Hex<32> {
    let Hash(hash) = record_hash(bytes);
    Hex(hash)
}

#[cfg(test)]
mod tests;
