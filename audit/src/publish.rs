//! The publisher: a thread that puts durable leaves into tiles, and signs what is on the medium.
//!
//! The order is the promise: tiles on the medium, then the checkpoint signed and on the medium, then the segments removed. A crash in
//! between leaves what the next opening makes again, byte for byte.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tlog_tiles::Hash;

use crate::checkpoint::{self, TreeHead};
use crate::disk::{Shelf, replace};
use crate::fault::{Fault, seeded};
use crate::layout::{entries_path, push_entry, split_entry, tile_path};
use crate::sign::LogKey;
use crate::snapshot::{self, Snapshot};
use crate::tree::{Edge, Full, TILE_WIDTH, width};

/// Durable leaves that follow what has been published.
#[derive(Default)]
pub(crate) struct Chapter {
    /// Each after its length.
    pub(crate) entries: Vec<u8>,
    /// Their hashes.
    pub(crate) hashes: Vec<Hash>,
    /// All tenants' heads after one of them, when it is time to keep them.
    pub(crate) heads: Option<Snapshot>,
}

impl Chapter {
    pub(crate) fn push(&mut self, leaf: &[u8], hash: Hash) {
        push_entry(&mut self.entries, leaf);
        self.hashes.push(hash);
    }
}

/// What a publisher goes on with.
pub(crate) struct Publisher<S> {
    pub(crate) shelf: S,
    pub(crate) key: Arc<LogKey>,
    pub(crate) edge: Edge,
    /// The last bundle that is not full.
    pub(crate) bundle: Vec<u8>,
}

impl<S: Shelf> Publisher<S> {
    /// Publishes until the other end is dropped, or until the disk fails.
    pub(crate) fn run(
        &mut self,
        chapters: &Receiver<Chapter>,
        folder: &Path,
        told: &dyn Fn(TreeHead),
    ) -> io::Result<()> {
        while let Ok(chapter) = chapters.recv() {
            told(self.publish(&chapter)?);
            if let Some(heads) = chapter.heads {
                replace(&folder.join(snapshot::NAME), &heads.bytes())?;
            }
        }
        Ok(())
    }

    fn publish(&mut self, chapter: &Chapter) -> io::Result<TreeHead> {
        let before = self.edge.size();
        if chapter.hashes.is_empty() {
            return Ok(TreeHead { size: before, root: self.edge.root() });
        }
        let mut full = Vec::new();
        let mut rest = chapter.entries.as_slice();
        for hash in &chapter.hashes {
            let (entry, after) = split_entry(rest).ok_or(io::ErrorKind::InvalidData)?;
            rest = after;
            push_entry(&mut self.bundle, entry);
            let shelf = &mut self.shelf;
            self.edge.push(*hash, &mut |tile: Full<'_>| {
                full.push(format!("{}.p", tile_path(tile.level, tile.number, TILE_WIDTH)));
                shelf.put(&tile_path(tile.level, tile.number, TILE_WIDTH), &tile_bytes(tile.hashes))
            })?;
            if self.edge.size().is_multiple_of(256) {
                let path = entries_path((self.edge.size() / 256).saturating_sub(1), TILE_WIDTH);
                self.shelf.put(&path, &self.bundle)?;
                full.push(format!("{path}.p"));
                self.bundle.clear();
            }
        }
        self.put_partial(before)?;
        if !seeded(Fault::SignedUnsettled) {
            self.shelf.settle()?;
        }
        let head = TreeHead { size: self.edge.size(), root: self.edge.root() };
        self.shelf.publish(&checkpoint::sign(&self.key, head)?)?;
        self.shelf.tidy(&full, head.size)?;
        Ok(head)
    }

    /// The tiles that are not full, which this size needs and the published one did not: a file that was published is never written
    /// again, or a crash could tear it.
    fn put_partial(&mut self, published: u64) -> io::Result<()> {
        let mut number = self.edge.size() / 256;
        let mut published_number = published / 256;
        for (level, hashes) in (0_u8..).zip(self.edge.levels()) {
            let is_there = number == published_number && hashes.len() == width(published, level);
            published_number /= 256;
            let is_there = is_there && !seeded(Fault::PublishedRewritten);
            if !hashes.is_empty() && !is_there {
                self.shelf.put(&tile_path(level, number, hashes.len()), &tile_bytes(hashes))?;
                if level == 0 {
                    self.shelf.put(&entries_path(number, hashes.len()), &self.bundle)?;
                }
            }
            number /= 256;
        }
        Ok(())
    }
}

fn tile_bytes(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|Hash(hash)| *hash).collect()
}
