//! Reads leaves without judging them: for listings and exports of a log that may be written meanwhile.

use std::io;
use std::path::Path;

use signed_note::Note;
use tlog_tiles::Checkpoint;

use crate::checkpoint;
use crate::error::{AuditError, Place, Why, broken};
use crate::layout::read_entries;
use crate::leaf::Leaf;
use crate::tree::TILE_WIDTH;
use crate::wal;

/// Times that leaves may move from segments into tiles while they are looked for. It happens once in an epoch.
const TRIES_MAX: u32 = 16;

/// Gives `take` each leaf from index `from` on, those too that are durable and not signed yet; the index after the last.
///
/// # Errors
/// [`AuditError::Broken`] for what is not in its form; [`AuditError::Disk`].
pub fn read_leaves(folder: &Path, from: u64, take: &mut dyn FnMut(u64, Leaf)) -> Result<u64, AuditError> {
    let mut reading = Reading { folder, next: from, take };
    for _ in 0..TRIES_MAX {
        reading.published()?;
        if reading.unpublished()? {
            return Ok(reading.next);
        }
    }
    Err(broken(Place::Leaf(reading.next), Why::Missing))
}

struct Reading<'a> {
    folder: &'a Path,
    next: u64,
    take: &'a mut dyn FnMut(u64, Leaf),
}

impl Reading<'_> {
    fn published(&mut self) -> Result<(), AuditError> {
        let size = match checkpoint::read(self.folder)? {
            Some(bytes) => size(&bytes).ok_or_else(|| broken(Place::Checkpoint, Why::Form))?,
            None => 0,
        };
        while self.next < size {
            let number = self.next / 256;
            let first = number.saturating_mul(256);
            let width = usize::try_from(size.saturating_sub(first)).unwrap_or(TILE_WIDTH).min(TILE_WIDTH);
            let skip = usize::try_from(self.next.saturating_sub(first)).unwrap_or(TILE_WIDTH);
            for entry in read_entries(self.folder, number, width)?.iter().skip(skip) {
                self.give(entry)?;
            }
        }
        Ok(())
    }

    /// Whether all that is not in tiles was found: not where it moved there meanwhile.
    fn unpublished(&mut self) -> Result<bool, AuditError> {
        let segments = wal::list(self.folder)?;
        let last = segments.last().map(|(first, _)| *first);
        for (first, path) in segments {
            if first > self.next {
                return Ok(false);
            }
            let segment = match wal::read(first, path, Some(first) == last) {
                Err(AuditError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                segment => segment?,
            };
            let skip = usize::try_from(self.next.saturating_sub(first)).unwrap_or(usize::MAX);
            for entry in segment.leaves.iter().skip(skip) {
                self.give(entry)?;
            }
        }
        Ok(true)
    }

    fn give(&mut self, entry: &[u8]) -> Result<(), AuditError> {
        let leaf = Leaf::decode(entry).map_err(|error| broken(Place::Leaf(self.next), error))?;
        (self.take)(self.next, leaf);
        self.next = self.next.saturating_add(1);
        Ok(())
    }
}

/// What a checkpoint says that nobody has to trust.
fn size(bytes: &[u8]) -> Option<u64> {
    let note = Note::from_bytes(bytes).ok()?;
    Checkpoint::from_bytes(note.text()).ok().map(|checkpoint| checkpoint.size())
}
