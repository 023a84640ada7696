//! Where a log's files are: C2SP's tlog-tiles.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use tlog_tiles::Hash;

use crate::error::{AuditError, Place, Why, broken};
use crate::leaf::LEAF_BYTES_MAX;
use crate::tree::TILE_WIDTH;

/// The signed checkpoint.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// The last checkpoint that witnesses cosigned.
pub(crate) const COSIGNED: &str = "cosigned";
/// Leaves that may not be in tiles yet.
pub(crate) const WAL: &str = "wal";
/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// `tile/L/N`, or `tile/L/N.p/W` for one that is not full.
pub(crate) fn tile_path(level: u8, number: u64, width: usize) -> String {
    format!("tile/{level}/{}{}", number_path(number), part(width))
}

/// `tile/entries/N`, or `tile/entries/N.p/W` for one that is not full.
pub(crate) fn entries_path(number: u64, width: usize) -> String {
    format!("tile/entries/{}{}", number_path(number), part(width))
}

/// Three digits a folder, each but the last after an `x`: no folder has more than a thousand of them.
fn number_path(number: u64) -> String {
    let mut path = format!("{:03}", number % 1_000);
    let mut rest = number / 1_000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1_000);
        rest /= 1_000;
    }
    path
}

fn part(width: usize) -> String {
    if width == TILE_WIDTH { String::new() } else { format!(".p/{width}") }
}

/// A tile's hashes, at least `width` of them being there: from the tile of that width, or from the full one.
pub(crate) fn read_tile(
    folder: &Path,
    level: u8,
    number: u64,
    width: usize,
) -> Result<Vec<Hash>, AuditError> {
    let most = TILE_WIDTH.saturating_mul(HASH_BYTES);
    let (bytes, path) = read_part(folder, width, most, &|width| tile_path(level, number, width))?;
    let hashes: Vec<Hash> =
        bytes.chunks_exact(HASH_BYTES).filter_map(|hash| hash.try_into().ok().map(Hash)).collect();
    let is_whole = hashes.len().checked_mul(HASH_BYTES) == Some(bytes.len());
    if is_whole && hashes.len() >= width {
        Ok(hashes.into_iter().take(width).collect())
    } else {
        Err(broken(Place::File(path), Why::Form))
    }
}

/// The entries of a bundle, at least `width` of them being there.
pub(crate) fn read_entries(folder: &Path, number: u64, width: usize) -> Result<Vec<Vec<u8>>, AuditError> {
    let most = TILE_WIDTH.saturating_mul(LEAF_BYTES_MAX.saturating_add(2));
    let (bytes, path) = read_part(folder, width, most, &|width| entries_path(number, width))?;
    let mut entries = Vec::with_capacity(width);
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (entry, after) = split_entry(rest).ok_or_else(|| broken(Place::File(path.clone()), Why::Form))?;
        entries.push(entry.to_vec());
        rest = after;
    }
    if entries.len() < width {
        return Err(broken(Place::File(path), Why::Form));
    }
    entries.truncate(width);
    Ok(entries)
}

/// Appends an entry as a bundle has it: two bytes of length, the higher first, and the bytes.
pub(crate) fn push_entry(bundle: &mut Vec<u8>, entry: &[u8]) {
    let length = u16::try_from(entry.len()).unwrap_or(u16::MAX);
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
}

/// The first entry of a bundle, and what is after it.
pub(crate) fn split_entry(bundle: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bundle.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// A tile or bundle of `width`; where it has been replaced by the full one, that.
fn read_part(
    folder: &Path,
    width: usize,
    bytes_max: usize,
    path: &dyn Fn(usize) -> String,
) -> Result<(Vec<u8>, String), AuditError> {
    for width in [width, TILE_WIDTH] {
        let path = path(width);
        match read_bounded(&folder.join(&path), bytes_max) {
            Ok(Some(bytes)) => return Ok((bytes, path)),
            Ok(None) => return Err(broken(Place::File(path), Why::Form)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(AuditError::Disk(error)),
        }
    }
    Err(broken(Place::File(path(width)), Why::Missing))
}

/// A file's bytes; none if there are more than `bytes_max`.
pub(crate) fn read_bounded(path: &Path, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= bytes_max).then_some(bytes))
}

#[cfg(test)]
mod tests;
