//! Signed checkpoints: a log's name, its size and its root, as C2SP's tlog-checkpoint.

use std::io;
use std::path::Path;

use signed_note::{Note, NoteError, VerifierList};
use tlog_tiles::{Checkpoint, Hash};

use crate::error::{AuditError, Place, Why, broken};
use crate::fault::{Fault, seeded};
use crate::layout::{CHECKPOINT, read_bounded};
use crate::sign::{LogKey, NoteKey};

/// Bytes of a checkpoint with its signatures, at most.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1_024;
/// Leaves of a log at most: what no log reaches, and far from where numbers end.
pub const LEAVES_MAX: u64 = 1 << 48;

/// A log's size and root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeHead {
    /// Leaves.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
}

/// Signs `head` under the log's key; the bytes of the note.
pub(crate) fn sign(key: &LogKey, head: TreeHead) -> io::Result<Vec<u8>> {
    let unsignable = || io::Error::from(io::ErrorKind::InvalidData);
    let text = Checkpoint::new(key.name(), head.size, head.root, "").map_err(|_| unsignable())?.to_bytes();
    let signature = key.note(&text).ok_or_else(unsignable)?;
    Ok(Note::new(&text, &[signature]).map_err(|_| unsignable())?.to_bytes())
}

/// The head that a checkpoint's bytes say, if `key` has signed it.
pub(crate) fn open(bytes: &[u8], key: &NoteKey) -> Result<TreeHead, Why> {
    let note = Note::from_bytes(bytes).map_err(|_| Why::Form)?;
    // What a witness says of a log is not what the log says.
    if !key.is_log() {
        return Err(Why::Signature);
    }
    let known = VerifierList::new(vec![Box::new(key.clone())]);
    let verified = note
        .verify(&known)
        .map_err(|error| if matches!(error, NoteError::MalformedNote) { Why::Form } else { Why::Signature });
    if !seeded(Fault::OpenedUnsigned) {
        verified?;
    }
    let checkpoint = Checkpoint::from_bytes(note.text()).map_err(|_| Why::Form)?;
    if checkpoint.origin() != signed_note::Verifier::name(key) {
        return Err(Why::Origin);
    }
    if checkpoint.size() > LEAVES_MAX {
        return Err(Why::Form);
    }
    Ok(TreeHead { size: checkpoint.size(), root: *checkpoint.hash() })
}

/// The checkpoint in a log's folder; none if there is none.
pub(crate) fn read(folder: &Path) -> Result<Option<Vec<u8>>, AuditError> {
    match read_bounded(&folder.join(CHECKPOINT), CHECKPOINT_BYTES_MAX) {
        Ok(Some(bytes)) => Ok(Some(bytes)),
        Ok(None) => Err(broken(Place::Checkpoint, Why::Form)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AuditError::Disk(error)),
    }
}

#[cfg(test)]
mod tests;
