//! The log's side of a witness: what is sent to it, and what its answer is worth. Sends nothing itself.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use signed_note::{Note, Signature, Verifier as _};
use tlog_tiles::{Error, Hash, Tile, TileHashReader, TileReader, check_tree, prove_tree, tree_hash};

use crate::checkpoint::{self, CHECKPOINT_BYTES_MAX, TreeHead};
use crate::cosign;
use crate::error::{AuditError, Place, Why, broken};
use crate::layout::read_tile;
use crate::sign::NoteKey;
use crate::tree::TILE_WIDTH;
use crate::witness::request;

/// Bytes of a witness's answer at most.
pub const ANSWER_BYTES_MAX: usize = 16 * 1_024;
/// Lines of a witness's answer at most.
const ANSWER_LINES_MAX: usize = 32;

/// A log's checkpoint on its way to witnesses.
pub struct Submission {
    folder: PathBuf,
    head: TreeHead,
    note: Note,
    cosignatures: Vec<Signature>,
}

/// Why a witness's answer is no cosignature.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotCosigned {
    /// Not lines of signatures.
    #[error(
        "the answer is not what a witness says: lines of signatures, {ANSWER_LINES_MAX} and {ANSWER_BYTES_MAX} bytes at most"
    )]
    Form,
    /// No signature by that witness.
    #[error("the answer has no cosignature by the witness's key: is it another witness's key?")]
    Missing,
    /// A signature that says it is that witness's, and is not.
    #[error("the answer's cosignature is not by the witness's key, or not of this checkpoint")]
    Wrong,
    /// With it, the checkpoint would be larger than anybody reads.
    #[error(
        "with this cosignature the checkpoint would have {bytes} bytes, and {CHECKPOINT_BYTES_MAX} is the most that it may"
    )]
    TooLarge {
        /// Bytes of it.
        bytes: usize,
    },
}

impl Submission {
    /// The last checkpoint of the log in `folder`, which may be written meanwhile.
    ///
    /// # Errors
    /// [`AuditError::Broken`] where there is no checkpoint by this key; [`AuditError::Disk`].
    pub fn read(folder: &Path, log: &NoteKey) -> Result<Self, AuditError> {
        let wrong = |why| broken(Place::Checkpoint, why);
        let bytes = checkpoint::read(folder)?.ok_or_else(|| wrong(Why::Missing))?;
        let head = checkpoint::open(&bytes, log).map_err(wrong)?;
        let note = Note::from_bytes(&bytes).map_err(|_| wrong(Why::Form))?;
        Ok(Self { folder: folder.to_owned(), head, note, cosignatures: Vec::new() })
    }

    /// Leaves that the checkpoint covers.
    pub const fn size(&self) -> u64 {
        self.head.size
    }

    /// The body of a request to a witness that knows the log's first `old` leaves.
    ///
    /// # Errors
    /// [`AuditError::Broken`] where the log has fewer leaves, or its tiles are not those of its checkpoint; [`AuditError::Disk`].
    pub fn request(&self, old: u64) -> Result<Vec<u8>, AuditError> {
        Ok(request::write(old, &self.proof(old)?, &self.note.to_bytes()))
    }

    fn proof(&self, old: u64) -> Result<Vec<Hash>, AuditError> {
        let TreeHead { size, root } = self.head;
        if old > size {
            return Err(broken(Place::Checkpoint, Why::RolledBack { holds: size }));
        }
        if old == 0 || old == size {
            return Ok(Vec::new());
        }
        let tiles = Tiles { folder: &self.folder, failed: RefCell::new(None) };
        let reader = TileHashReader::new(size, root, &tiles);
        // The reader does not check each tile that it reads: what it made of them is checked here, before a witness has to refuse it.
        let proof = prove_tree(size, old, &reader).and_then(|proof| {
            check_tree(&proof, size, root, old, tree_hash(old, &reader)?)?;
            Ok(proof)
        });
        proof.map_err(|_| tiles.failed.take().unwrap_or_else(|| broken(Place::Checkpoint, Why::Root)))
    }

    /// Takes what a witness answered; the second of Unix at which it says that it cosigned.
    ///
    /// # Errors
    /// [`NotCosigned`]; nothing was taken then.
    pub fn take(&mut self, answer: &[u8], witness: &NoteKey) -> Result<u64, NotCosigned> {
        if answer.len() > ANSWER_BYTES_MAX || !witness.is_witness() {
            return Err(NotCosigned::Form);
        }
        let lines = answer.strip_suffix(b"\n").ok_or(NotCosigned::Form)?;
        let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
        if lines.len() > ANSWER_LINES_MAX {
            return Err(NotCosigned::Form);
        }
        let mut taken = None;
        for line in lines {
            let signature = Signature::from_bytes(line).map_err(|_| NotCosigned::Form)?;
            if signature.name() == witness.name() && signature.id() == witness.key_id() {
                let time = cosign::time(witness, self.note.text(), signature.signature());
                taken = Some((time.ok_or(NotCosigned::Wrong)?, signature));
            }
        }
        let (time, signature) = taken.ok_or(NotCosigned::Missing)?;
        self.cosignatures.retain(|other| (other.name(), other.id()) != (signature.name(), signature.id()));
        self.cosignatures.push(signature);
        let bytes = self.cosigned().len();
        if bytes > CHECKPOINT_BYTES_MAX {
            self.cosignatures.pop();
            return Err(NotCosigned::TooLarge { bytes });
        }
        Ok(time)
    }

    /// The checkpoint with the cosignatures that were taken after the log's own signature.
    pub fn cosigned(&self) -> Vec<u8> {
        let lines = self.cosignatures.iter().flat_map(Signature::to_bytes);
        self.note.to_bytes().into_iter().chain(lines).collect()
    }
}

/// The tiles on disk, as the library that makes proofs asks for them.
struct Tiles<'a> {
    folder: &'a Path,
    /// What it has no place for in its own errors.
    failed: RefCell<Option<AuditError>>,
}

impl TileReader for Tiles<'_> {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[Tile]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |tile: &Tile| {
            let width = usize::try_from(tile.width()).unwrap_or(TILE_WIDTH);
            let hashes =
                read_tile(self.folder, tile.level(), tile.level_index(), width).map_err(|error| {
                    self.failed.replace(Some(error));
                    Error::InvalidTile
                })?;
            Ok(hashes.into_iter().flat_map(|Hash(bytes)| bytes).collect())
        };
        tiles.iter().map(read).collect()
    }

    fn save_tiles(&self, _: &[Tile], _: &[Vec<u8>]) {}
}
