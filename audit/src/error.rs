//! What can go wrong: another writer, the disk, a hand in the log.

use std::io;

use crate::heads::TENANTS_MAX;
use crate::leaf::LeafError;
use crate::meaning::Nonsense;

/// Why a record is not, or may not be, on disk.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Another process writes this log.
    #[error("another process writes this audit log")]
    Locked,
    /// The folder or a file in it cannot be used.
    #[error("the audit log cannot be used: {0}")]
    Disk(#[source] io::Error),
    /// The log is not what was written.
    #[error(transparent)]
    Broken(Broken),
    /// More records wait than may.
    #[error("{limit} audit records wait for the disk, and that is the most that may")]
    Full {
        /// Records that may wait.
        limit: usize,
    },
    /// The log has records of as many tenants as it may, and this one is another's.
    #[error("the audit log has records of {TENANTS_MAX} tenants, and that is the most that it may")]
    TooManyTenants,
    /// A write or a sync failed before; nothing is appended after it.
    #[error("the audit log has ended: a write failed")]
    Ended,
    /// The record cannot be a leaf. A fault of ours.
    #[error("the audit record cannot be written")]
    Unwritable,
}

/// A log that is not what was written: nothing is appended to it, and nothing more is signed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the audit log is damaged or was changed: {place}: {why}")]
pub struct Broken {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub why: Why,
}

/// A place in a log.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Place {
    /// The signed checkpoint.
    #[error("file checkpoint")]
    Checkpoint,
    /// A checkpoint that was kept from before.
    #[error("the checkpoint from before")]
    Seen,
    /// A checkpoint that witnesses have cosigned.
    #[error("the cosigned checkpoint")]
    Cosigned,
    /// A file of tiles or of entries, by its path in the log's folder.
    #[error("file {0}")]
    File(String),
    /// A leaf, counted from 0.
    #[error("leaf {0}")]
    Leaf(u64),
    /// What is not in tiles yet: the segment that begins with this leaf, and the byte in it.
    #[error("file wal/{segment:020}, byte {byte}")]
    Wal {
        /// The segment's first leaf.
        segment: u64,
        /// Where in it.
        byte: u64,
    },
}

/// What is wrong with a log.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Why {
    /// A witness whose key is trusted is said to have cosigned, and has not.
    #[error("the cosignature of {0} is not that witness's")]
    Cosignature(String),
    /// Fewer witnesses have cosigned than must have.
    #[error("{has} of the witnesses have cosigned it, and {needs} must have")]
    Quorum {
        /// Different witnesses that have.
        has: usize,
        /// How many must have.
        needs: usize,
    },
    /// A file is not there.
    #[error("it is missing")]
    Missing,
    /// A form of before the first release.
    #[error("it is of a form that no release has had: move the folder aside, and a new log is begun")]
    Unreleased,
    /// The bytes are not in the form that they must have.
    #[error("it is not in its form")]
    Form,
    /// The checkpoint is not by this log's key.
    #[error("it is not signed by the log's key")]
    Signature,
    /// The checkpoint is of another log.
    #[error("it is of another log")]
    Origin,
    /// The tree over what is there has another root than was signed.
    #[error("the tree over what is there is not the one that was signed")]
    Root,
    /// The log is shorter than it was.
    #[error("the log holds {holds} leaves now, and held more")]
    RolledBack {
        /// Leaves.
        holds: u64,
    },
    /// The log does not begin with what it held.
    #[error("the log does not begin with what it held then: it was written anew")]
    Forked,
    /// A leaf has another hash than its tile says.
    #[error("its hash is not the one in its tile")]
    Hash,
    /// A leaf that is none.
    #[error("{0}")]
    Leaf(#[from] LeafError),
    /// A tenant's record without its place among the tenant's, or the other way round.
    #[error("it has a tenant's number and is of no tenant, or is a tenant's and has none")]
    Tenantless,
    /// Leaves are missing before this place.
    #[error("leaf {expected} must be next")]
    Gap {
        /// The index that was due.
        expected: u64,
    },
    /// A tenant's leaf has another number than its next.
    #[error("its tenant's next number is {expected}")]
    TenantSeq {
        /// The number that was due.
        expected: u64,
    },
    /// A tenant's leaf does not name the one before it.
    #[error("it does not name its tenant's leaf before it")]
    TenantPrev,
    /// A seal does not say what the tenants' heads are.
    #[error("the seal does not say what the tenants' last leaves are")]
    Seal,
    /// What it says cannot have happened.
    #[error("{0}")]
    Meaning(#[from] Nonsense),
    /// More tenants than a log may have.
    #[error("it is of more than {TENANTS_MAX} tenants")]
    Tenants,
}

impl From<io::Error> for AuditError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

pub(crate) fn broken(place: Place, why: impl Into<Why>) -> AuditError {
    AuditError::Broken(Broken { place, why: why.into() })
}
