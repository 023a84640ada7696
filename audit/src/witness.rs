//! A witness of others' logs: C2SP's tlog-witness, without the HTTP around it.
//!
//! It cosigns a log's checkpoint only where that begins with all that it cosigned before. So of one log no two histories get its
//! cosignature, whoever has the log's key. It remembers before it cosigns: after a crash it may know of more than it told, never of less.
//!
//! Architecture invariant: between the comparison with what is known and the end of the write, nothing else is decided of that log.

mod answer;
pub(crate) mod fault;
pub(crate) mod request;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use signed_note::{Note, Verifier as _};
use tlog_tiles::{Checkpoint, check_tree};

pub use self::answer::{Answer, Refusal};
use self::fault::{Fault, seeded};
use self::request::Request;
pub use self::request::{PROOF_LINES_MAX, REQUEST_BYTES_MAX};
use self::state::States;
use crate::checkpoint::{self, TreeHead};
use crate::error::Why;
use crate::sign::{LogKey, NoteKey};

/// Logs of one witness at most.
pub const LOGS_MAX: usize = 1_024;

/// Why a witness does not begin.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Another process has its state.
    #[error("another process is this witness: its state is in use")]
    Locked,
    /// The state cannot be read or written.
    #[error("the witness's state cannot be used: {0}")]
    Disk(#[source] io::Error),
    /// What was cosigned is not known any more.
    #[error(
        "the witness's state in file {file} cannot be read, or is not signed by the log's key: restore the file; to forget what was cosigned, begin with another key and another folder"
    )]
    State {
        /// The file.
        file: String,
    },
    /// What was cosigned of a log is not known any more.
    #[error(
        "file {file} of the witness's state is missing, and {log} was watched: restore the file; to forget what was cosigned, begin with another key and another folder"
    )]
    Missing {
        /// The log's name.
        log: String,
        /// The file.
        file: String,
    },
    /// Too many logs.
    #[error("{asked} logs are or were watched, and {LOGS_MAX} is the most that one witness may")]
    Logs {
        /// How many.
        asked: usize,
    },
    /// Two keys of one name.
    #[error("two keys are given for the log {0}: a log has one")]
    TwoKeys(String),
    /// A key of the wrong kind.
    #[error("a witness cosigns with a witness's key, and watches logs by logs' keys")]
    Kind,
}

/// A witness. One at a time has its state.
pub struct Witness {
    key: LogKey,
    logs: BTreeMap<String, Watched>,
    states: States,
}

struct Watched {
    key: NoteKey,
    /// What is on the medium; none after a write that failed, since then nobody knows.
    known: Mutex<Option<TreeHead>>,
}

impl Witness {
    /// Begins to watch `logs`, with what `folder` says of them. `key` is a witness's.
    ///
    /// # Errors
    /// [`WitnessError`]: also where what was cosigned is not known any more.
    pub fn open(folder: &Path, key: LogKey, logs: Vec<NoteKey>) -> Result<Self, WitnessError> {
        if logs.len() > LOGS_MAX {
            return Err(WitnessError::Logs { asked: logs.len() });
        }
        if !key.public().is_witness() || !logs.iter().all(NoteKey::is_log) {
            return Err(WitnessError::Kind);
        }
        let states = States::claim(folder)?;
        let heads = states.read(&logs)?;
        let mut watched = BTreeMap::new();
        for (key, head) in logs.into_iter().zip(heads) {
            let (name, known) = (key.name().to_owned(), Mutex::new(Some(head)));
            if watched.insert(name.clone(), Watched { key, known }).is_some() {
                return Err(WitnessError::TwoKeys(name));
            }
        }
        Ok(Self { key, logs: watched, states })
    }

    /// Answers `add-checkpoint`. What it cosigns is on the medium when this returns.
    pub fn add_checkpoint(&self, body: &[u8], now: SystemTime) -> Answer {
        self.cosign(body, now).into()
    }

    fn cosign(&self, body: &[u8], now: SystemTime) -> Result<Vec<u8>, Refusal> {
        let request = request::parse(body)?;
        let note = Note::from_bytes(request.checkpoint).map_err(|_| Refusal::Malformed("checkpoint"))?;
        let text =
            Checkpoint::from_bytes(note.text()).map_err(|_| Refusal::Malformed("text of the checkpoint"))?;
        let log = self.logs.get(text.origin()).ok_or(Refusal::UnknownLog)?;
        let head = match checkpoint::open(request.checkpoint, &log.key) {
            Ok(head) => head,
            Err(Why::Signature) if seeded(Fault::SignatureUnchecked) => {
                TreeHead { size: text.size(), root: *text.hash() }
            }
            Err(Why::Signature) => return Err(Refusal::Unsigned),
            Err(_) => return Err(Refusal::Malformed("size of the checkpoint: no log is that large")),
        };
        let mut known = log.known.lock().map_err(|_| Refusal::Disk)?;
        let last = known.ok_or(Refusal::Disk)?;
        decide(last, &request, head)?;
        if head != last && !seeded(Fault::ToldEarly) {
            // Unknown until it is written: what a failed write leaves on the medium may be either.
            *known = None;
            let written = self.states.write(&log.key, &note);
            if seeded(Fault::FailureForgotten) {
                *known = Some(last);
            }
            written.map_err(|_| Refusal::Disk)?;
        }
        *known = Some(head);
        let time = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let line = self.key.cosign(note.text(), time).ok_or(Refusal::Disk)?;
        Ok(line.to_bytes())
    }
}

/// Whether a checkpoint that the log has signed may follow what is known.
fn decide(known: TreeHead, request: &Request<'_>, head: TreeHead) -> Result<(), Refusal> {
    let Request { old, proof, .. } = request;
    if *old > head.size {
        return Err(Refusal::OldAboveSize { old: *old, size: head.size });
    }
    if *old != known.size && !seeded(Fault::OldUnchecked) {
        return Err(Refusal::Known { known: known.size });
    }
    if *old == head.size {
        let is_same = head.root == known.root || seeded(Fault::RootUnchecked);
        return match (is_same, proof.is_empty()) {
            (false, _) => Err(Refusal::Forked { size: head.size }),
            (true, false) => Err(Refusal::Proof),
            (true, true) => Ok(()),
        };
    }
    let is_proven = if *old == 0 {
        proof.is_empty()
    } else {
        // Within these sizes and this length the library does not panic: `checkpoint::open` and `request::parse` bound them.
        check_tree(proof, head.size, head.root, *old, known.root).is_ok()
    };
    if is_proven || seeded(Fault::ProofUnchecked) { Ok(()) } else { Err(Refusal::Proof) }
}

#[cfg(test)]
mod tests;
