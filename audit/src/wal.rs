//! Leaves on disk before they are in tiles: segments of batches, each batch made durable by one sync.
//!
//! ```text
//! wal/00000000000000004711      a segment is named by its first leaf
//!     magic  first  count  bytes  crc of the body  crc of what is before   (32 bytes, little-endian)
//!     entries, each after its length                                        (the body)
//! ```
//! A batch is begun only after the one before it is durable. So a batch that is not whole is one that nobody was told is safe, if
//! nothing stands after it; and if another one does, then the disk or a hand has changed what was safe.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{AuditError, Place, Why, broken};
use crate::fault::{Fault, seeded};
use crate::layout::{WAL, push_entry, read_bounded, split_entry};

/// Records that one sync may carry.
pub const BATCH_MAX: usize = 256;
/// Bytes of a segment, beyond which the next begins.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 4 << 20;

const MAGIC: &[u8; 8] = b"bulkwal\x01";
const HEADER_BYTES: usize = 32;
/// A segment ends after the batch that crosses its bound; no batch comes near this.
const FILE_BYTES_MAX: usize = 8 << 20;

/// A batch, while it is put together.
#[derive(Default)]
pub(crate) struct Batch {
    first: u64,
    count: u32,
    bytes: Vec<u8>,
}

impl Batch {
    /// Begins one whose first leaf has this index.
    pub(crate) fn begin(&mut self, first: u64) {
        self.first = first;
        self.count = 0;
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
    }

    pub(crate) fn push(&mut self, leaf: &[u8]) {
        self.count = self.count.saturating_add(1);
        push_entry(&mut self.bytes, leaf);
    }

    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Its bytes, whole.
    pub(crate) fn seal(&mut self) -> &[u8] {
        if let Some((header, body)) = self.bytes.split_first_chunk_mut::<HEADER_BYTES>() {
            let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
            *header =
                Header { first: self.first, count: self.count, length, sum: crc32fast::hash(body) }.bytes();
        }
        &self.bytes
    }
}

struct Header {
    first: u64,
    count: u32,
    length: u32,
    sum: u32,
}

impl Header {
    fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let fields = [
            &MAGIC[..],
            &self.first.to_le_bytes(),
            &self.count.to_le_bytes(),
            &self.length.to_le_bytes(),
            &self.sum.to_le_bytes(),
        ]
        .concat();
        let sum = crc32fast::hash(&fields).to_le_bytes();
        for (byte, from) in bytes.iter_mut().zip(fields.iter().chain(&sum)) {
            *byte = *from;
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (_, rest) = bytes.get(..HEADER_BYTES)?.split_at_checked(MAGIC.len())?;
        let (first, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (sum, _) = rest.split_first_chunk()?;
        let header = Self {
            first: u64::from_le_bytes(*first),
            count: u32::from_le_bytes(*count),
            length: u32::from_le_bytes(*length),
            sum: u32::from_le_bytes(*sum),
        };
        bytes.starts_with(&header.bytes()).then_some(header)
    }
}

/// A segment, as it was found.
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// The leaves of its whole batches.
    pub(crate) leaves: Vec<Vec<u8>>,
    /// Bytes of them.
    pub(crate) whole_bytes: u64,
    /// Bytes of a batch that is being written, or that a crash tore.
    pub(crate) torn_bytes: u64,
}

/// The name of the segment whose first leaf is `first`.
pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:020}")
}

/// First leaf and path of each segment, in their order.
pub(crate) fn list(folder: &Path) -> Result<Vec<(u64, PathBuf)>, AuditError> {
    let mut segments = Vec::new();
    let entries = match fs::read_dir(folder.join(WAL)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(segments),
        Err(error) => return Err(AuditError::Disk(error)),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let first = name.to_str().and_then(|text| Some((text, text.parse::<u64>().ok()?)));
        let first = first.filter(|(text, first)| segment_name(*first) == *text);
        let (_, first) =
            first.ok_or_else(|| broken(Place::File(format!("wal/{}", name.display())), Why::Form))?;
        segments.push((first, entry.path()));
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Reads a segment. Only the last one may end in a torn batch.
pub(crate) fn read(first: u64, path: PathBuf, is_last: bool) -> Result<Segment, AuditError> {
    let wrong = |byte: usize, why| {
        let byte = u64::try_from(byte).unwrap_or(u64::MAX);
        broken(Place::Wal { segment: first, byte }, why)
    };
    let bytes = read_bounded(&path, FILE_BYTES_MAX)?.ok_or_else(|| wrong(FILE_BYTES_MAX, Why::Form))?;
    let mut leaves = Vec::new();
    let mut at = 0_usize;
    let mut expected = first;
    while let Some((header, batch)) = bytes.get(at..).and_then(whole_batch) {
        if header.first != expected {
            return Err(wrong(at, Why::Gap { expected }));
        }
        expected = expected.saturating_add(u64::from(header.count));
        at = at
            .saturating_add(HEADER_BYTES)
            .saturating_add(usize::try_from(header.length).unwrap_or(usize::MAX));
        leaves.extend(batch);
    }
    let torn = bytes.get(at..).unwrap_or_default();
    if !torn.is_empty() && (!is_last || has_later_batch(torn, expected)) {
        return Err(wrong(at, Why::Form));
    }
    let length = |bytes| u64::try_from(bytes).unwrap_or(u64::MAX);
    Ok(Segment { path, leaves, whole_bytes: length(at), torn_bytes: length(torn.len()) })
}

/// The batch that `bytes` begin with, if it is whole.
fn whole_batch(bytes: &[u8]) -> Option<(Header, Vec<Vec<u8>>)> {
    let header = Header::read(bytes)?;
    let length = usize::try_from(header.length).ok()?;
    let body = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(length)?)?;
    if crc32fast::hash(body) != header.sum {
        return None;
    }
    let mut leaves = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (leaf, after) = split_entry(rest)?;
        leaves.push(leaf.to_vec());
        rest = after;
    }
    (u32::try_from(leaves.len()).ok() == Some(header.count) && header.count > 0).then_some((header, leaves))
}

/// Whether the header of a batch of leaves after `expected` stands anywhere in `bytes`: it was begun after what is before it was safe.
fn has_later_batch(bytes: &[u8], expected: u64) -> bool {
    if seeded(Fault::TornBelieved) {
        return false;
    }
    let mut windows = bytes.windows(HEADER_BYTES);
    windows.any(|window| {
        window.starts_with(MAGIC) && Header::read(window).is_some_and(|header| header.first > expected)
    })
}

#[cfg(test)]
mod tests;
