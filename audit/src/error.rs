//! What can go wrong: another writer, the disk, a hand in the log.

use std::io;

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
    Tampered(Tampered),
    /// More records wait than may.
    #[error("{limit} audit records wait for the disk, and that is the most that may")]
    Full {
        /// Records that may wait.
        limit: usize,
    },
    /// A write or a sync failed before; nothing is appended after it.
    #[error("the audit log has ended: a write failed")]
    Ended,
    /// The record could not be written as a line. A fault of ours.
    #[error("the audit record cannot be written as a line")]
    Unwritable,
}

/// Where a log is not what was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the audit log is damaged or was changed: segment {segment}, line {line}: {why}")]
pub struct Tampered {
    /// The first record's number of the segment, as its file is named; 0 for the head file.
    pub segment: u64,
    /// The line in it, counted from 1; 0 for the whole segment.
    pub line: u64,
    /// What is wrong.
    pub why: Why,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Why {
    /// The file's name is not one that this program gives.
    #[error("its name is not one of ours")]
    Name,
    /// The segment does not begin where the one before it ends.
    #[error("it must begin with record {expected}")]
    Gap {
        /// The number that was due.
        expected: u64,
    },
    /// A segment that is not the last ends within a line.
    #[error("it is cut short")]
    Cut,
    /// Longer than any line may be.
    #[error("the line is longer than {} bytes", crate::LINE_BYTES_MAX)]
    TooLong,
    /// The checksum does not fit.
    #[error("the checksum does not fit")]
    Checksum,
    /// Not written as this program writes.
    #[error("the line is not as this program writes it")]
    Form,
    /// A record is missing, double, or moved.
    #[error("record {found} stands where record {expected} must")]
    Sequence {
        /// The number that was due.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The line before is not the one that this was chained to.
    #[error("the chain breaks")]
    Chain,
    /// There are records, and no head file.
    #[error("the head file is missing or damaged")]
    NoHead,
    /// Records are missing at the end.
    #[error("the log ends with record {holds}, but record {acknowledged} was acknowledged")]
    Shorter {
        /// The last record that was acknowledged.
        acknowledged: u64,
        /// The last record found.
        holds: u64,
    },
    /// The record that the head names is not the one that was acknowledged.
    #[error("record {seq} is not the one that was acknowledged")]
    OtherRecord {
        /// Its number.
        seq: u64,
    },
}
