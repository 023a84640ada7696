//! An append-only, hash-chained record of each request, and of each alarm of an engine.
//!
//! The public interface is:
//! - [`AuditLog`], to which [`Record`]s are appended; a [`Ticket`] resolves when its record is on disk;
//! - [`verify`], which reads a whole log and says what is wrong with it, if anything.
//!
//! ```text
//! audit/lock                               held by the one process that writes
//! audit/head                               the last record that was acknowledged: its number and its hash
//! audit/segment-00000000000000000001.jsonl one record a line; a segment is named by its first
//! audit/segment-00000000000000004711.jsonl
//!
//! {"seq":2,"prev":"<sha-256 of line 1>","time_ms":1796000000000,"event":{"ended":{…}},"crc":"<crc-32>"}
//! ```
//!
//! What is caught: a line changed, removed, added, moved or copied, a segment missing, renamed or cut, and,
//! by the head file, whole lines missing at the end. What is not: whoever can write the folder can write a
//! new log with a head that fits it, or put an older copy of both back. Signed checkpoints, kept elsewhere,
//! are the answer to that, and not part of this form yet.
//!
//! A crash leaves at most one torn line at the end, of a record that nobody was told is safe: it is cut when
//! the log is opened. A failed write or sync ends the log: what the disk then holds is not known, so nothing
//! is appended after it, and whoever needs a record to proceed must refuse (fail closed). The head is written
//! after each commit and not synced with it: after a power cut it may be older than the log, never newer.
//!
//! Architecture invariant: a record has no place for text. Numbers, digests, ids and closed enums only, so
//! that no prompt, no output, no secret and no tenant's name can get in.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod alarm;
mod chain;
mod disk;
mod error;
mod head;
mod hex;
mod line;
mod log;
mod record;

pub use alarm::{AlarmCause, EngineAlarm, Unsound};
pub use chain::{Progress, Verified, verify};
pub use error::{AuditError, Tampered, Why};
pub use hex::{Hex, Word};
pub use line::LINE_BYTES_MAX;
pub use log::{AuditLog, BATCH_MAX, Committed, QUEUE_MAX, Recovered, SEGMENT_BYTES_MAX, Ticket};
pub use record::{
    Admitted, Boot, Bound, Ended, Endpoint, EngineSeen, Failure, Finish, KeyId, Outcome, PolicySource, Proof,
    Reason, Record,
};
