//! A tamper-evident record of each request, and of what engines find wrong with themselves: an RFC 6962 Merkle log in the form of
//! [C2SP's tlog-tiles](https://c2sp.org/tlog-tiles), signed by the gateway that writes it.
//!
//! The public interface is:
//! - [`AuditLog`], to which [`Record`]s are appended; a [`Ticket`] resolves when its record is on disk;
//! - [`LogKey`], which signs its checkpoints, and [`NoteKey`], by which anybody verifies them;
//! - [`verify()`], which reads a whole log and says what is wrong with it, if anything;
//! - [`Witness`], which cosigns checkpoints of others' logs that only ever grow, and [`Submission`], which asks one to.
//!
//! ```text
//! audit/lock                     held by the one process that writes
//! audit/checkpoint               the last signed checkpoint: size and root
//! audit/tile/L/N                 256 hashes of level 8L; N.p/W has W of them
//! audit/tile/entries/N           256 leaves, each after its length in two bytes
//! audit/wal/…                    leaves that are durable and not in tiles yet
//! audit/heads                    a cache, so that an opening need not read the whole log
//! audit/cosigned                 the last checkpoint that witnesses cosigned, if one was asked
//! ```
//!
//! A record counts when its batch is on the medium: batches go to `wal/`, with a checksum, and one sync carries as many records as came
//! during the one before. Each epoch ends with a seal, a leaf that commits to every tenant's last leaf; then its leaves go into tiles,
//! and what is on the medium is signed. Nothing is signed that is not there, and a log that is shorter than was signed is not opened.
//!
//! A crash leaves at most one torn batch at the end, of records that nobody was told are safe: it is cut when the log is opened. A failed
//! write or sync ends the log: what the disk then holds is not known, so nothing is appended after it, and whoever needs a record to
//! proceed must refuse (fail closed).
//!
//! What is caught: any change of what was signed, and leaves missing of a tenant. What is not: whoever has the key can sign another log
//! in the place of this one. Whoever kept a checkpoint then has both: give checkpoints away. Witnesses are those who keep them: see
//! [`Witness`].
//!
//! Architecture invariant: a record has no place for text. Numbers, digests, ids and closed enums only, so that no prompt, no output, no
//! secret and no tenant's name can get in.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

mod alarm;
mod chain;
mod checkpoint;
mod cosign;
mod disk;
mod error;
pub mod fault;
mod heads;
mod hex;
mod layout;
mod leaf;
mod log;
mod meaning;
mod open;
mod outcome;
mod publish;
mod quorum;
mod reader;
mod record;
mod request;
mod sign;
mod snapshot;
mod submission;
mod tree;
mod verify;
mod wal;
mod witness;
mod writer;

pub use alarm::{AlarmCause, EngineAlarm, Unsound};
pub use checkpoint::{CHECKPOINT_BYTES_MAX, LEAVES_MAX, TreeHead};
pub use error::{AuditError, Broken, Place, Why};
pub use heads::TENANTS_MAX;
pub use hex::{Hex, Word};
pub use leaf::{LEAF_BYTES_MAX, Leaf, LeafError, TenantLink, leaf_hash};
pub use log::{AuditLog, Committed, EPOCH, Progress, QUEUE_MAX, Recovered, Ticket};
pub use meaning::Nonsense;
pub use outcome::{Bound, Failure, Finish, Outcome, Reason};
pub use reader::read_leaves;
pub use record::{Boot, EngineSeen, PolicySource, Record, Seal};
pub use request::{Admitted, Ended, Endpoint, KeyId, Proof, Refused};
pub use sign::{KeyError, LogKey, NoteKey};
pub use submission::{ANSWER_BYTES_MAX, NotCosigned, Submission};
pub use verify::{Trust, Verified, verify};
pub use wal::BATCH_MAX;
pub use witness::{Answer, LOGS_MAX, PROOF_LINES_MAX, REQUEST_BYTES_MAX, Refusal, Witness, WitnessError};
