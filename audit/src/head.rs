//! The head file: the last record that was acknowledged. It catches what a chain cannot, whole lines missing
//! at the end.
//!
//! Two slots are written in turn, so that a write that is torn leaves the other one; the valid one with the
//! higher number counts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::error::Why;
use crate::hex::Hex;
use crate::line::Link;

const NAME: &str = "head";
/// Each slot has a disk sector to itself.
const SLOT_BYTES: u64 = 512;
/// 20 digits, a space, 64 hex digits, a space, 8 hex digits, a line's end.
const TEXT_BYTES: usize = 95;

/// The head file, open for writing.
pub(crate) struct Head {
    file: File,
    slot: u64,
}

impl Head {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        Ok(Self { file: options.open(folder.join(NAME))?, slot: 0 })
    }

    /// Makes `last` the head. It is not synced: after a power cut the head may be older than the log, never
    /// newer.
    pub(crate) fn write(&mut self, last: Link) -> io::Result<()> {
        let text = render(last);
        self.file.write_all_at(text.as_bytes(), self.slot.saturating_mul(SLOT_BYTES))?;
        self.slot ^= 1;
        Ok(())
    }

    /// Puts `last` into both slots, on disk.
    pub(crate) fn settle(&mut self, last: Link) -> io::Result<()> {
        self.write(last)?;
        self.write(last)?;
        self.file.sync_all()
    }
}

/// The head as it stands; none when no slot is valid.
pub(crate) fn read(folder: &Path) -> io::Result<Option<Link>> {
    let file = match File::open(folder.join(NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(SLOT_BYTES.saturating_mul(2)).read_to_end(&mut bytes)?;
    let second = usize::try_from(SLOT_BYTES).unwrap_or(usize::MAX);
    let slots = [bytes.get(..TEXT_BYTES), bytes.get(second..second.saturating_add(TEXT_BYTES))];
    Ok(slots.into_iter().flatten().filter_map(parse).max_by_key(|link| link.seq))
}

/// Compares the head with what the log holds: `last`, and the line that the head names, if it was met.
pub(crate) fn judge(head: Link, named: Option<Link>, last: Link) -> Result<(), Why> {
    if last.seq < head.seq {
        return Err(Why::Shorter { acknowledged: head.seq, holds: last.seq });
    }
    if head == Link::START || named == Some(head) { Ok(()) } else { Err(Why::OtherRecord { seq: head.seq }) }
}

fn render(link: Link) -> String {
    let body = format!("{:020} {}", link.seq, link.hash);
    let sum = crc32fast::hash(body.as_bytes());
    format!("{body} {sum:08x}\n")
}

fn parse(slot: &[u8]) -> Option<Link> {
    let text = core::str::from_utf8(slot).ok()?;
    let (seq, rest) = text.split_once(' ')?;
    let (hash, _) = rest.split_once(' ')?;
    let link = Link { seq: seq.parse().ok()?, hash: Hex::parse(hash)? };
    (render(link) == text).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(seq: u64) -> Link {
        Link { seq, hash: Hex([seq.to_le_bytes()[0]; 32]) }
    }

    #[test]
    fn a_torn_write_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), None);
        let mut head = Head::open(folder.path()).unwrap();
        assert_eq!(render(link(1)).len(), TEXT_BYTES);
        head.settle(link(0)).unwrap();
        for seq in 1..4 {
            let before = std::fs::read(folder.path().join(NAME)).unwrap();
            head.write(link(seq)).unwrap();
            assert_eq!(read(folder.path()).unwrap(), Some(link(seq)));
            let after = std::fs::read(folder.path().join(NAME)).unwrap();
            for torn in 0..after.len() {
                let mixed = [&after[..torn], &before[torn..]].concat();
                std::fs::write(folder.path().join(NAME), mixed).unwrap();
                let found = read(folder.path()).unwrap().unwrap().seq;
                assert!(found == seq || found == seq - 1, "torn at {torn}: {found}");
            }
            std::fs::write(folder.path().join(NAME), after).unwrap();
        }
    }
}
