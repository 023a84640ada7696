//! Frames: what one write puts into the journal, whole or not at all.
//!
//! ```text
//! magic: 4   seq: 8   length: 4   crc: 4   records, each its length (2) and its bytes
//! ```
//! Numbers are little-endian; the CRC-32 covers seq, length and records. A frame is written only when the one
//! before is on the medium, so that a crash tears the last one and no other: what is no frame is a torn end if
//! no frame follows it, and damage if one does.

use crate::fault::{Fault, seeded};
use crate::ledger::record::{RECORD_BYTES_MAX, Record};

/// Records that one frame carries, and so one sync.
pub(crate) const FRAME_RECORDS_MAX: usize = 256;
/// Bytes of a frame before its records.
pub(crate) const HEADER_BYTES: usize = 20;
/// Bytes of a frame.
pub(crate) const FRAME_BYTES_MAX: usize = HEADER_BYTES + FRAME_RECORDS_MAX * (2 + RECORD_BYTES_MAX);

const MAGIC: [u8; 4] = *b"bhLJ";

/// Puts a frame together.
#[derive(Default)]
pub(crate) struct Builder {
    body: Vec<u8>,
    record: Vec<u8>,
    records: usize,
}

impl Builder {
    /// Adds a record; the caller sees to it that there are no more than [`FRAME_RECORDS_MAX`].
    pub(crate) fn add(&mut self, record: &Record) {
        self.record.clear();
        record.write(&mut self.record);
        let length = u16::try_from(self.record.len()).unwrap_or(u16::MAX);
        self.body.extend_from_slice(&length.to_le_bytes());
        self.body.extend_from_slice(&self.record);
        self.records = self.records.saturating_add(1);
    }

    /// Records added since the last frame.
    pub(crate) const fn records(&self) -> usize {
        self.records
    }

    /// Writes the frame of number `seq` to the end of `to`, and begins the next.
    pub(crate) fn seal(&mut self, seq: u64, to: &mut Vec<u8>) {
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        to.extend_from_slice(&MAGIC);
        to.extend_from_slice(&seq.to_le_bytes());
        to.extend_from_slice(&length.to_le_bytes());
        to.extend_from_slice(&checksum(seq, length, &self.body).to_le_bytes());
        to.extend_from_slice(&self.body);
        self.body.clear();
        self.records = 0;
    }
}

fn checksum(seq: u64, length: u32, body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&seq.to_le_bytes());
    sum.update(&length.to_le_bytes());
    sum.update(body);
    sum.finalize()
}

/// Reads a file frame by frame.
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
    seq: Expected,
}

enum Expected {
    /// The first frame of a file may have any number.
    Any,
    /// Then each has the one after.
    This(u64),
}

/// What comes next in a file.
pub(crate) enum Next<'a> {
    /// A frame's records.
    Frame { body: &'a [u8], seq: u64 },
    /// The file's end.
    End,
    /// Bytes up to the end that are no frame: a crash tore them, and nobody was told that they are safe.
    Torn { bytes: usize },
    /// No frame, and one follows; or a frame out of turn.
    Damaged,
}

impl<'a> Frames<'a> {
    /// From the file's first byte.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, seq: Expected::Any }
    }

    /// Where the next frame begins.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Reads on.
    pub(crate) fn next(&mut self) -> Next<'a> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Next::End;
        }
        let Some((seq, body)) = frame(rest) else {
            let follows = (1..rest.len()).any(|at| rest.get(at..).and_then(frame).is_some());
            if follows && !seeded(Fault::DamageCut) {
                return Next::Damaged;
            }
            return Next::Torn { bytes: rest.len() };
        };
        match self.seq {
            Expected::This(expected) if seq != expected => return Next::Damaged,
            Expected::This(_) | Expected::Any => {}
        }
        self.seq = Expected::This(seq.saturating_add(1));
        self.at = self.at.saturating_add(HEADER_BYTES).saturating_add(body.len());
        Next::Frame { body, seq }
    }
}

/// The frame that `bytes` begin with.
fn frame(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (seq, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (seq, length) = (u64::from_le_bytes(*seq), u32::from_le_bytes(*length));
    let body = rest.get(..usize::try_from(length).ok()?)?;
    let is_sound = body.len() <= FRAME_BYTES_MAX && checksum(seq, length, body) == u32::from_le_bytes(*sum);
    is_sound.then_some((seq, body))
}

/// The first record of a frame's body, and the rest; none for what is no record.
pub(crate) fn first_record(body: &[u8]) -> Option<(Record, &[u8])> {
    let (length, rest) = body.split_first_chunk()?;
    let (record, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((Record::read(record)?, rest))
}
