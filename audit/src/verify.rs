//! Reads a whole log, and says what is wrong with it, if anything. Needs no server and no lock: it may be read while it is written.

use std::path::Path;

use tlog_tiles::Hash;

use crate::chain::Chain;
use crate::checkpoint::{self, TreeHead};
use crate::error::{AuditError, Place, Why, broken};
use crate::fault::{Fault, seeded};
use crate::hex::Hex;
use crate::layout::{read_entries, read_tile};
use crate::log::Progress;
use crate::meaning::Meaning;
use crate::quorum;
use crate::sign::NoteKey;
use crate::tree::{Edge, Full, TILE_WIDTH};

/// What an auditor trusts.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The log's key.
    pub log: NoteKey,
    /// A checkpoint of it that was kept from before: what the log holds now must begin with what it held then.
    pub seen: Option<Vec<u8>>,
    /// Whose cosignatures count. With none, nobody's are looked at.
    pub witnesses: Vec<NoteKey>,
    /// How many different ones of them must have cosigned.
    pub quorum: usize,
    /// The checkpoint that they have cosigned; without, it is the file `cosigned` in the log's folder.
    pub cosigned: Option<Vec<u8>>,
}

impl Trust {
    /// Trust in a log's key alone.
    pub const fn in_log(log: NoteKey) -> Self {
        Self { log, seen: None, witnesses: Vec::new(), quorum: 0, cosigned: None }
    }
}

/// A log that is what was signed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified {
    /// Leaves that the checkpoint covers; each was read.
    pub leaves: u64,
    /// The root over them.
    pub root: Hex<32>,
    /// Seals among them.
    pub epochs: u64,
    /// Tenants that have leaves among them.
    pub tenants: usize,
    /// Sequences that were let in and did not end: under way, or cut off by a crash.
    pub open: usize,
    /// Whether a checkpoint from before was given, and is the beginning of this log.
    pub is_continued: bool,
    /// Different witnesses that have cosigned, of those that are trusted.
    pub witnesses: usize,
    /// Leaves that they have cosigned.
    pub cosigned: u64,
}

/// Reads the log in `folder` from its first leaf to the last that its checkpoint covers. `progress` is called after every 256 leaves.
///
/// # Errors
/// [`AuditError::Broken`] at the first thing that is wrong; [`AuditError::Disk`] when it cannot be told.
pub fn verify(
    folder: &Path,
    trust: &Trust,
    progress: &mut dyn FnMut(Progress),
) -> Result<Verified, AuditError> {
    let wrong = |why| broken(Place::Checkpoint, why);
    let bytes = checkpoint::read(folder)?.ok_or_else(|| wrong(Why::Missing))?;
    let head = checkpoint::open(&bytes, &trust.log).map_err(wrong)?;
    let seen = trust.seen.as_ref().map(|bytes| checkpoint::open(bytes, &trust.log));
    let seen = seen.transpose().map_err(|why| broken(Place::Seen, why))?;
    if seen.is_some_and(|seen| seen.size > head.size) {
        return Err(broken(Place::Seen, Why::RolledBack { holds: head.size }));
    }
    let cosigned = quorum::read(folder, trust, head)?;
    let earlier =
        [seen.map(|seen| (Place::Seen, seen)), cosigned.map(|cosigned| (Place::Cosigned, cosigned.head))];
    let (edge, chain, meaning) = (Edge::default(), Chain::default(), Meaning::default());
    let mut reading = Reading { folder, earlier, edge, chain, meaning };
    reading.check_earlier()?;
    let mut number = 0_u64;
    while reading.edge.size() < head.size {
        let left = usize::try_from(head.size.saturating_sub(reading.edge.size())).unwrap_or(TILE_WIDTH);
        reading.bundle(number, left.min(TILE_WIDTH))?;
        progress(Progress { leaves: reading.edge.size(), from: 0, until: head.size });
        number = number.saturating_add(1);
    }
    reading.partial()?;
    if reading.edge.root() != head.root && !seeded(Fault::RootUnchecked) {
        return Err(wrong(Why::Root));
    }
    let Hash(root) = head.root;
    let Reading { chain, meaning, .. } = reading;
    Ok(Verified {
        leaves: head.size,
        root: Hex(root),
        epochs: chain.epoch,
        tenants: chain.heads.len(),
        open: meaning.open(),
        is_continued: seen.is_some(),
        witnesses: cosigned.map_or(0, |cosigned| cosigned.witnesses),
        cosigned: cosigned.map_or(0, |cosigned| cosigned.head.size),
    })
}

struct Reading<'a> {
    folder: &'a Path,
    /// What was signed of this log at other times.
    earlier: [Option<(Place, TreeHead)>; 2],
    edge: Edge,
    chain: Chain,
    meaning: Meaning,
}

impl Reading<'_> {
    fn bundle(&mut self, number: u64, width: usize) -> Result<(), AuditError> {
        for entry in read_entries(self.folder, number, width)? {
            let index = self.edge.size();
            let (leaf, hash) = self.chain.take(&entry)?;
            let meant = self.meaning.take(index, &leaf);
            if !seeded(Fault::MeaningUnchecked) {
                meant.map_err(|nonsense| broken(Place::Leaf(index), nonsense))?;
            }
            let folder = self.folder;
            self.edge
                .push(hash, &mut |tile: Full<'_>| check_tile(folder, tile.level, tile.number, tile.hashes))?;
            self.check_earlier()?;
        }
        Ok(())
    }

    /// The tiles that are not full are there too, and say what the leaves say.
    fn partial(&self) -> Result<(), AuditError> {
        let mut number = self.edge.size() / 256;
        for (level, hashes) in (0_u8..).zip(self.edge.levels()) {
            if !hashes.is_empty() {
                check_tile(self.folder, level, number, hashes)?;
            }
            number /= 256;
        }
        Ok(())
    }

    /// At the size of a checkpoint of another time, the root is that one's.
    fn check_earlier(&self) -> Result<(), AuditError> {
        for (place, head) in self.earlier.iter().flatten() {
            let is_forked = head.size == self.edge.size() && head.root != self.edge.root();
            if is_forked && !seeded(Fault::SeenUnchecked) {
                return Err(broken(place.clone(), Why::Forked));
            }
        }
        Ok(())
    }
}

fn check_tile(folder: &Path, level: u8, number: u64, hashes: &[Hash]) -> Result<(), AuditError> {
    if read_tile(folder, level, number, hashes.len())? == hashes {
        return Ok(());
    }
    let path = crate::layout::tile_path(level, number, hashes.len());
    Err(broken(Place::File(path), Why::Hash))
}

#[cfg(test)]
mod tests;
