//! Opens a log: checks that what is there is what was signed, takes up what is not in tiles yet, and cuts what a crash tore.

use std::fs::{self, OpenOptions};
use std::path::Path;

use tlog_tiles::{EMPTY_HASH, Hash};

use crate::chain::Chain;
use crate::checkpoint::{self, TreeHead};
use crate::disk::{Folder, Shelf as _, sync_folder};
use crate::error::{AuditError, Place, Why, broken};
use crate::fault::{Fault, seeded};
use crate::heads::Heads;
use crate::hex::Hex;
use crate::layout::{WAL, push_entry, read_entries, read_tile};
use crate::leaf::{Leaf, leaf_hash};
use crate::log::Progress;
use crate::publish::Chapter;
use crate::record::Record;
use crate::sign::LogKey;
use crate::snapshot::Snapshot;
use crate::tree::{Edge, TILE_WIDTH, depth, width};
use crate::wal;

/// A log that was found good.
pub(crate) struct Opened {
    /// The tiles' right edge, up to the checkpoint.
    pub(crate) edge: Edge,
    /// The last bundle that is not full.
    pub(crate) bundle: Vec<u8>,
    /// All tenants' heads, also of what is not in tiles yet.
    pub(crate) heads: Heads,
    /// The last seal's number.
    pub(crate) epoch: u64,
    /// Leaves in all.
    pub(crate) size: u64,
    /// Leaves that are not in tiles yet.
    pub(crate) chapter: Chapter,
    /// Whether the last leaf is a seal; of an empty log too.
    pub(crate) is_sealed: bool,
    /// Bytes of a torn batch that were cut; nobody had been told that it is safe.
    pub(crate) cut_bytes: u64,
}

pub(crate) fn open(
    path: &Path,
    folder: &Folder,
    key: &LogKey,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, AuditError> {
    let head = signed_head(path, folder, key)?;
    let edge = read_edge(path, head)?;
    let mut reading = Reading::default();
    let bundle = reading.published(path, head, progress)?;
    if !edge_fits(&edge, &bundle) {
        return Err(broken(Place::Leaf(head.size.saturating_sub(1)), Why::Hash));
    }
    let mut chapter = Chapter::default();
    let cut_bytes = reading.unpublished(path, head.size, &mut chapter)?;
    let Chain { heads, epoch, size, is_sealed } = reading.chain;
    let bundle = bundle.iter().fold(Vec::new(), |mut bytes, entry| {
        push_entry(&mut bytes, entry);
        bytes
    });
    Ok(Opened { edge, bundle, heads, epoch, size, chapter, is_sealed, cut_bytes })
}

/// What the checkpoint says; of a folder without anything, an empty log, whose checkpoint is made.
fn signed_head(path: &Path, folder: &Folder, key: &LogKey) -> Result<TreeHead, AuditError> {
    if let Some(bytes) = checkpoint::read(path)? {
        return checkpoint::open(&bytes, &key.public()).map_err(|why| broken(Place::Checkpoint, why));
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let is_old = name == "head" || name.to_string_lossy().starts_with("segment-");
        if is_old {
            return Err(broken(Place::File(name.to_string_lossy().into_owned()), Why::Unreleased));
        }
    }
    // A checkpoint is there before anything else is: without one, leaves were signed once and no longer are.
    if path.join("tile").exists() || !wal::list(path)?.is_empty() {
        return Err(broken(Place::Checkpoint, Why::Missing));
    }
    let head = TreeHead { size: 0, root: EMPTY_HASH };
    folder.shelf().publish(&checkpoint::sign(key, head)?)?;
    Ok(head)
}

/// The tiles' right edge, whose root is the one that was signed.
fn read_edge(path: &Path, head: TreeHead) -> Result<Edge, AuditError> {
    let mut levels = Vec::new();
    let mut number = head.size / 256;
    for level in 0..u8::try_from(depth(head.size)).unwrap_or(u8::MAX) {
        let width = width(head.size, level);
        levels.push(if width == 0 { Vec::new() } else { read_tile(path, level, number, width)? });
        number /= 256;
    }
    let edge = Edge::restore(head.size, levels).filter(|edge| edge.root() == head.root);
    edge.ok_or_else(|| broken(Place::Checkpoint, Why::Root))
}

/// Whether the entries of the last bundle are those whose hashes the last tile has.
fn edge_fits(edge: &Edge, bundle: &[Vec<u8>]) -> bool {
    let hashes = edge.levels().first().map_or(&[][..], Vec::as_slice);
    hashes.len() == bundle.len()
        && hashes.iter().zip(bundle).all(|(Hash(hash), entry)| leaf_hash(entry) == Hex(*hash))
}

#[derive(Default)]
struct Reading {
    chain: Chain,
}

impl Reading {
    /// Reads what is in tiles, from the last snapshot on; the entries of the last bundle that is not full.
    fn published(
        &mut self,
        path: &Path,
        head: TreeHead,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Vec<u8>>, AuditError> {
        self.resume(path, head)?;
        let from = self.chain.size;
        let mut entries = Vec::new();
        let mut number = self.chain.size / 256;
        while number.saturating_mul(256) < head.size {
            let first = number.saturating_mul(256);
            let width =
                usize::try_from(head.size.saturating_sub(first)).unwrap_or(TILE_WIDTH).min(TILE_WIDTH);
            entries = read_entries(path, number, width)?;
            let skip = usize::try_from(self.chain.size.saturating_sub(first)).unwrap_or(TILE_WIDTH);
            for entry in entries.iter().skip(skip) {
                self.chain.take(entry)?;
            }
            progress(Progress { leaves: self.chain.size, from, until: head.size });
            number = number.saturating_add(1);
        }
        // Where it starts within the last bundle, all of that is read; where that is full, nothing is open.
        if head.size.is_multiple_of(256) { Ok(Vec::new()) } else { Ok(entries) }
    }

    /// Starts at the last snapshot, if the seal before it says that it is true.
    fn resume(&mut self, path: &Path, head: TreeHead) -> Result<(), AuditError> {
        let Some(snapshot) = Snapshot::read(path)? else { return Ok(()) };
        let Some(seal) = snapshot.size.checked_sub(1).filter(|_| snapshot.size <= head.size) else {
            return Ok(());
        };
        let (number, within) = (seal / 256, usize::try_from(seal % 256).unwrap_or(0));
        let Ok(entries) = read_entries(path, number, within.saturating_add(1)) else { return Ok(()) };
        let entry = entries.get(within).and_then(|entry| Leaf::decode(entry).ok());
        let Some(Leaf { event: Record::Seal(seal), .. }) = entry else { return Ok(()) };
        let mut heads = Heads::default();
        snapshot.heads.iter().for_each(|head| heads.put(*head));
        if u64::try_from(heads.len()).ok() == Some(seal.tenants)
            && (seal.heads == heads.root() || seeded(Fault::SnapshotBelieved))
            && seal.epoch == snapshot.epoch
        {
            self.chain = Chain { heads, epoch: seal.epoch, size: snapshot.size, is_sealed: true };
        }
        Ok(())
    }

    /// Reads what is not in tiles yet, and makes it durable; the bytes that were cut.
    fn unpublished(&mut self, path: &Path, published: u64, chapter: &mut Chapter) -> Result<u64, AuditError> {
        let segments = wal::list(path)?;
        let last = segments.last().map(|(first, _)| *first);
        let mut next = None;
        let mut cut_bytes = 0;
        for (first, file) in segments {
            let segment = wal::read(first, file, Some(first) == last)?;
            // Segments follow each other, and the first begins within what is in tiles, or right after it.
            let expected = next.unwrap_or(published);
            if first > expected || (next.is_some() && first != expected) {
                return Err(broken(Place::Wal { segment: first, byte: 0 }, Why::Gap { expected }));
            }
            let mut index = first;
            for leaf in &segment.leaves {
                if index >= published {
                    let (_, hash) = self.chain.take(leaf)?;
                    chapter.push(leaf, hash);
                }
                index = index.saturating_add(1);
            }
            next = Some(index);
            cut_bytes = segment.torn_bytes;
            cut(&segment)?;
        }
        if path.join(WAL).exists() {
            sync_folder(&path.join(WAL))?;
        }
        Ok(cut_bytes)
    }
}

/// Cuts a torn batch, removes a segment without any, and brings what is kept to the medium: a killed process may have written it and
/// not synced it.
fn cut(segment: &wal::Segment) -> Result<(), AuditError> {
    if segment.leaves.is_empty() {
        return fs::remove_file(&segment.path).map_err(AuditError::Disk);
    }
    let file = OpenOptions::new().write(true).open(&segment.path)?;
    if segment.torn_bytes > 0 {
        file.set_len(segment.whole_bytes)?;
    }
    file.sync_all().map_err(AuditError::Disk)
}
