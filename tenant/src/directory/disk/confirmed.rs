//! When the store last confirmed a copy: at its end, twice, since a confirmation is written into a file that is in use.
//!
//! ```text
//! CRC-32 of the copy  (milliseconds  CRC-32 of the sum before and of them)  (the same)
//! ```
//! The newer one counts. The older is written over, so that one that is cut off by a crash leaves the other.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::time::UnixMillis;

const SUM: usize = 4;
const MILLIS: usize = 8;
const ONE: usize = MILLIS + SUM;
const END: usize = SUM + 2 * ONE;
/// Bytes to read of an end: one more than it has, so that what is longer shows.
pub(super) const END_BYTES_MAX: u64 = 1 + 4 + 2 * (8 + 4);

/// Says that the store confirmed the copy at `confirmed`.
pub(in crate::directory) fn confirm(path: &Path, confirmed: UnixMillis) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let width = u64::try_from(END).unwrap_or(u64::MAX);
    let start = file.metadata()?.len().checked_sub(width).ok_or_else(cut)?;
    let mut end = [0; END];
    file.read_exact_at(&mut end, start)?;
    let (sum, ones) = parts(&end).ok_or_else(cut)?;
    // One that is still to come is that of a clock that was set back.
    let [first, second] = ones.map(|one| time_of(one, sum).filter(|time| *time <= confirmed));
    let skipped = if first <= second { SUM } else { SUM.saturating_add(ONE) };
    let place = start.saturating_add(u64::try_from(skipped).unwrap_or_default());
    file.write_all_at(&one(sum, confirmed), place)?;
    file.sync_data()
}

/// What follows a copy's sum when it is new.
pub(super) fn both(sum: [u8; SUM], confirmed: UnixMillis) -> Vec<u8> {
    one(sum, confirmed).repeat(2)
}

/// The newest confirmation in the end of a copy whose sum is `sum`; none where the end is another's, or says nothing.
pub(super) fn newest(end: &[u8], sum: [u8; SUM]) -> Option<UnixMillis> {
    let (noted, ones) = parts(end)?;
    let times = ones.map(|one| time_of(one, sum));
    times.into_iter().max().flatten().filter(|_| noted == sum)
}

fn parts(end: &[u8]) -> Option<([u8; SUM], [&[u8; ONE]; 2])> {
    let (sum, rest) = end.split_first_chunk()?;
    let (first, rest) = rest.split_first_chunk()?;
    Some((*sum, [first, rest.try_into().ok()?]))
}

fn one(sum: [u8; SUM], confirmed: UnixMillis) -> Vec<u8> {
    let millis = confirmed.get().to_le_bytes();
    let check = crc32fast::hash(&[sum.as_slice(), millis.as_slice()].concat());
    [millis.as_slice(), check.to_le_bytes().as_slice()].concat()
}

fn time_of(noted: &[u8; ONE], sum: [u8; SUM]) -> Option<UnixMillis> {
    let millis = noted.first_chunk().map(|millis| i64::from_le_bytes(*millis))?;
    UnixMillis::new(millis).filter(|time| one(sum, *time) == noted)
}
