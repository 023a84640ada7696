//! Reads a whole log, link by link.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{AuditError, Tampered, Why};
use crate::head;
use crate::hex::Hex;
use crate::line::{self, LINE_BYTES_MAX, Link};

/// How far a reading has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Records read and found good.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes that there were when the reading began.
    pub bytes_total: u64,
}

/// A log that is what was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified {
    /// Records that it holds.
    pub records: u64,
    /// SHA-256 of the last one's line, which all before it are chained to; zeros when there is none.
    pub hash: Hex<32>,
    /// Segments that it has.
    pub segments: u64,
    /// Bytes of a last record that is being written, or that a crash tore; nobody was told that it is safe.
    pub torn_bytes: u64,
}

/// Reads the log in `folder` from its first record to its last. It may be read while it is written.
/// `progress` is called once a segment and once every 10,000 records.
///
/// # Errors
/// [`AuditError::Tampered`] at the first thing that is wrong; [`AuditError::Disk`].
pub fn verify(folder: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Verified, AuditError> {
    let chain = Chain::read(folder, progress)?;
    Ok(Verified {
        records: chain.last.seq,
        hash: chain.last.hash,
        segments: chain.segments,
        torn_bytes: chain.tail.map_or(0, |tail| tail.torn_bytes),
    })
}

/// A log that was read and found good.
pub(crate) struct Chain {
    pub(crate) last: Link,
    pub(crate) segments: u64,
    /// The last segment; none while there is none.
    pub(crate) tail: Option<Tail>,
}

/// The last segment.
pub(crate) struct Tail {
    pub(crate) path: PathBuf,
    /// Bytes of whole lines.
    pub(crate) whole_bytes: u64,
    /// Bytes after them.
    pub(crate) torn_bytes: u64,
}

impl Chain {
    pub(crate) fn read(folder: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Self, AuditError> {
        // Before the log: the log may grow meanwhile, the head must not run ahead of what is read.
        let head = head::read(folder).map_err(AuditError::Disk)?;
        let segments = list(folder)?;
        let head = match head {
            Some(head) => head,
            None if segments.is_empty() => Link::START,
            None => return Err(tampered(0, 0, Why::NoHead)),
        };
        let bytes_total = segments.iter().map(|segment| segment.bytes).sum();
        let mut reader = Reader {
            last: Link::START,
            head,
            named: None,
            progress: Progress { records: 0, bytes: 0, bytes_total },
            report: progress,
        };
        let mut tail = None;
        for (index, segment) in segments.iter().enumerate() {
            let is_last = index.saturating_add(1) == segments.len();
            tail = Some(reader.segment(segment, is_last)?);
        }
        head::judge(head, reader.named, reader.last).map_err(|why| tampered(0, 0, why))?;
        Ok(Self { last: reader.last, segments: u64::try_from(segments.len()).unwrap_or(u64::MAX), tail })
    }
}

struct Segment {
    first: u64,
    path: PathBuf,
    bytes: u64,
}

/// The name of the segment that begins with record `first`.
pub(crate) fn segment_name(first: u64) -> String {
    format!("segment-{first:020}.jsonl")
}

fn list(folder: &Path) -> Result<Vec<Segment>, AuditError> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder).map_err(AuditError::Disk)? {
        let entry = entry.map_err(AuditError::Disk)?;
        let name = entry.file_name();
        let Some(text) = name.to_str().filter(|text| text.starts_with("segment-")) else { continue };
        let first = text.get(8..28).and_then(|digits| digits.parse().ok());
        let first = first.filter(|first| segment_name(*first) == text);
        let first = first.ok_or(tampered(0, 0, Why::Name))?;
        let bytes = entry.metadata().map_err(AuditError::Disk)?.len();
        segments.push(Segment { first, path: entry.path(), bytes });
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

struct Reader<'a> {
    last: Link,
    head: Link,
    /// The line that has the head's number, once it was met.
    named: Option<Link>,
    progress: Progress,
    report: &'a mut dyn FnMut(Progress),
}

impl Reader<'_> {
    fn segment(&mut self, segment: &Segment, is_last: bool) -> Result<Tail, AuditError> {
        let wrong = |line, why| tampered(segment.first, line, why);
        let expected = self.last.seq.saturating_add(1);
        if segment.first != expected {
            return Err(wrong(0, Why::Gap { expected }));
        }
        let mut file = BufReader::new(File::open(&segment.path).map_err(AuditError::Disk)?);
        let mut line = Vec::with_capacity(LINE_BYTES_MAX);
        let mut tail = Tail { path: segment.path.clone(), whole_bytes: 0, torn_bytes: 0 };
        for number in 1_u64.. {
            match next_line(&mut file, &mut line).map_err(AuditError::Disk)? {
                Next::Whole => {
                    self.last = line::read(&line, self.last).map_err(|why| wrong(number, why))?;
                    let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX).saturating_add(1);
                    tail.whole_bytes = tail.whole_bytes.saturating_add(bytes);
                    self.met(bytes);
                }
                Next::Torn { bytes } if is_last => {
                    tail.torn_bytes = bytes;
                    break;
                }
                Next::TooLong => return Err(wrong(number, Why::TooLong)),
                // Each but the last was whole before the next was begun.
                Next::Torn { .. } => return Err(wrong(number, Why::Cut)),
                // One that was emptied leaves a gap before the next, or an end before the head.
                Next::End => break,
            }
        }
        (self.report)(self.progress);
        Ok(tail)
    }

    fn met(&mut self, bytes: u64) {
        if self.last.seq == self.head.seq {
            self.named = Some(self.last);
        }
        self.progress.records = self.last.seq;
        self.progress.bytes = self.progress.bytes.saturating_add(bytes);
        if self.last.seq.is_multiple_of(10_000) {
            (self.report)(self.progress);
        }
    }
}

enum Next {
    /// A line, its end taken off.
    Whole,
    /// Bytes up to the file's end, and no line's end among them. After a power cut they may be many, and
    /// zeros.
    Torn { bytes: u64 },
    /// More bytes than a line may have, and then a line's end.
    TooLong,
    /// Nothing more.
    End,
}

fn next_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Next> {
    line.clear();
    let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    file.by_ref().take(limit).read_until(b'\n', line)?;
    match line.pop() {
        None => Ok(Next::End),
        Some(b'\n') => Ok(Next::Whole),
        // The file ends here, for now: asked again, a log that is being written might have more.
        Some(_) if line.len() < LINE_BYTES_MAX.saturating_sub(1) => {
            Ok(Next::Torn { bytes: u64::try_from(line.len()).unwrap_or(u64::MAX).saturating_add(1) })
        }
        Some(_) => without_end(file),
    }
}

/// After as many bytes as a line may have, and no end among them: is there one at all?
fn without_end(file: &mut impl BufRead) -> io::Result<Next> {
    let mut bytes = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    loop {
        let rest = file.fill_buf()?;
        if rest.is_empty() {
            return Ok(Next::Torn { bytes });
        }
        if rest.contains(&b'\n') {
            return Ok(Next::TooLong);
        }
        let read = rest.len();
        bytes = bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        file.consume(read);
    }
}

const fn tampered(segment: u64, line: u64, why: Why) -> AuditError {
    AuditError::Tampered(Tampered { segment, line, why })
}

#[cfg(test)]
mod tests;
