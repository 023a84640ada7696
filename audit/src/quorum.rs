//! Whether enough witnesses have cosigned a log's checkpoint.

use std::io;
use std::path::Path;

use signed_note::{Note, NoteError, Verifier as _, VerifierList};

use crate::checkpoint::{self, CHECKPOINT_BYTES_MAX, TreeHead};
use crate::error::{AuditError, Place, Why, broken};
use crate::layout::{COSIGNED, read_bounded};
use crate::sign::NoteKey;
use crate::verify::Trust;
use crate::witness::fault::{Fault, seeded};

/// What enough witnesses have cosigned.
#[derive(Clone, Copy)]
pub(crate) struct Cosigned {
    pub(crate) head: TreeHead,
    /// How many different ones have.
    pub(crate) witnesses: usize,
}

/// The checkpoint that the witnesses have cosigned; none where nobody's cosignature is asked for. Whether `head` begins with it is for
/// whoever reads the leaves to see.
pub(crate) fn read(folder: &Path, trust: &Trust, head: TreeHead) -> Result<Option<Cosigned>, AuditError> {
    if trust.witnesses.is_empty() && trust.quorum == 0 {
        return Ok(None);
    }
    let wrong = |why| broken(Place::Cosigned, why);
    let bytes = match &trust.cosigned {
        Some(bytes) => bytes.clone(),
        None => in_folder(folder)?,
    };
    let cosigned = checkpoint::open(&bytes, &trust.log).map_err(wrong)?;
    let witnesses = count(&bytes, &trust.witnesses).map_err(wrong)?;
    if witnesses < trust.quorum {
        return Err(wrong(Why::Quorum { has: witnesses, needs: trust.quorum }));
    }
    if cosigned.size > head.size {
        return Err(wrong(Why::RolledBack { holds: head.size }));
    }
    Ok(Some(Cosigned { head: cosigned, witnesses }))
}

/// Different keys that have cosigned: a cosignature does not say the name of its witness, so one key under two names is one witness.
fn count(bytes: &[u8], trusted: &[NoteKey]) -> Result<usize, Why> {
    let note = Note::from_bytes(bytes).map_err(|_| Why::Form)?;
    let mut have: Vec<&[u8; 32]> = Vec::new();
    for witness in trusted {
        if !witness.is_witness() {
            continue;
        }
        match note.verify(&VerifierList::new(vec![Box::new(witness.clone())])) {
            Ok(_) if !have.contains(&witness.bytes()) || seeded(Fault::WitnessTwice) => {
                have.push(witness.bytes());
            }
            Ok(_) | Err(NoteError::UnverifiedNote) => {}
            Err(_) if seeded(Fault::CosignatureUnchecked) => have.push(witness.bytes()),
            Err(_) => return Err(Why::Cosignature(witness.name().to_owned())),
        }
    }
    Ok(have.len())
}

fn in_folder(folder: &Path) -> Result<Vec<u8>, AuditError> {
    match read_bounded(&folder.join(COSIGNED), CHECKPOINT_BYTES_MAX) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(broken(Place::Cosigned, Why::Form)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(broken(Place::Cosigned, Why::Missing)),
        Err(error) => Err(AuditError::Disk(error)),
    }
}
