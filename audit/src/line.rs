//! One record as one line, and back. A line has one form: what is read must be what would be written.
//!
//! Architecture invariant: no I/O.

use ring::digest;
use serde::Deserialize;

use crate::error::{AuditError, Why};
use crate::hex::Hex;
use crate::record::Record;

/// Bytes of the longest line, its end included. The longest record today takes under 950.
pub const LINE_BYTES_MAX: usize = 4_096;

/// Where the chain stands: the last line's number and hash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Link {
    pub(crate) seq: u64,
    pub(crate) hash: Hex<32>,
}

impl Link {
    /// Before the first record.
    pub(crate) const START: Self = Self { seq: 0, hash: Hex([0; 32]) };
}

/// The event of a record, ready to be put into a line: written by whoever appends, so that the writer has
/// less to do.
pub(crate) struct Event(Vec<u8>);

impl Event {
    pub(crate) fn new(record: &Record) -> Result<Self, AuditError> {
        let bytes = serde_json::to_vec(record).map_err(|_| AuditError::Unwritable)?;
        // The rest of a line takes under 200 bytes.
        if bytes.len() > LINE_BYTES_MAX.saturating_sub(200) {
            return Err(AuditError::Unwritable);
        }
        Ok(Self(bytes))
    }
}

/// Appends the line that follows `last` to `out`, and says where the chain stands then.
pub(crate) fn write(out: &mut Vec<u8>, last: Link, time_ms: u64, event: &Event) -> Link {
    let seq = last.seq.saturating_add(1);
    let mut line = Vec::with_capacity(event.0.len().saturating_add(200));
    let head = format!("{{\"seq\":{seq},\"prev\":\"{}\",\"time_ms\":{time_ms},\"event\":", last.hash);
    line.extend_from_slice(head.as_bytes());
    line.extend_from_slice(&event.0);
    let sum = format!("{CRC_START}{:08x}{CRC_END}", crc32fast::hash(&line));
    line.extend_from_slice(sum.as_bytes());
    let hash = hash(&line);
    out.append(&mut line);
    out.push(b'\n');
    Link { seq, hash }
}

const CRC_START: &str = ",\"crc\":\"";
const CRC_END: &str = "\"}";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    seq: u64,
    prev: Hex<32>,
    time_ms: u64,
    event: Record,
}

/// Reads the line that must follow `last`, without its end, and says where the chain stands then.
pub(crate) fn read(line: &[u8], last: Link) -> Result<Link, Why> {
    let (rest, sum) = line
        .strip_suffix(CRC_END.as_bytes())
        .and_then(|line| line.split_last_chunk::<8>())
        .and_then(|(rest, sum)| Some((rest.strip_suffix(CRC_START.as_bytes())?, sum)))
        .ok_or(Why::Form)?;
    if format!("{:08x}", crc32fast::hash(rest)).as_bytes() != sum {
        return Err(Why::Checksum);
    }
    let mut whole = rest.to_vec();
    whole.push(b'}');
    let body: Body = serde_json::from_slice(&whole).map_err(|_| Why::Form)?;
    let expected = last.seq.saturating_add(1);
    if body.seq != expected {
        return Err(Why::Sequence { expected, found: body.seq });
    }
    if body.prev != last.hash {
        return Err(Why::Chain);
    }
    let mut again = Vec::with_capacity(line.len().saturating_add(1));
    let event = Event::new(&body.event).map_err(|_| Why::Form)?;
    let link = write(&mut again, last, body.time_ms, &event);
    // A space, another order of fields, a number with a leading zero: not as we write.
    if again.strip_suffix(b"\n") == Some(line) { Ok(link) } else { Err(Why::Form) }
}

fn hash(line: &[u8]) -> Hex<32> {
    let mut bytes = [0; 32];
    // Both have 32 bytes.
    for (to, from) in bytes.iter_mut().zip(digest::digest(&digest::SHA256, line).as_ref()) {
        *to = *from;
    }
    Hex(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::record;

    #[test]
    fn a_line_is_the_documented_one_and_reads_back() {
        let mut out = Vec::new();
        let last = Link { seq: 41, hash: Hex([0xab; 32]) };
        let link = write(&mut out, last, 1_796_000_000_000, &Event::new(&record(5)).unwrap());
        let text = String::from_utf8(out).unwrap();
        let prev = "ab".repeat(32);
        assert!(text.starts_with(&format!(
            "{{\"seq\":42,\"prev\":\"{prev}\",\"time_ms\":1796000000000,\"event\":{{\"ended\":{{"
        )));
        assert!(text.ends_with("\"}\n") && text.matches('\n').count() == 1);
        assert_eq!(read(text.trim_end().as_bytes(), last), Ok(link));
        assert_eq!(link.seq, 42);
        let other = Link { hash: Hex([0xac; 32]), ..last };
        assert_eq!(read(text.trim_end().as_bytes(), other), Err(Why::Chain));
        let later = Link { seq: 42, ..last };
        assert_eq!(read(text.trim_end().as_bytes(), later), Err(Why::Sequence { expected: 43, found: 42 }));
    }

    #[test]
    fn any_flipped_bit_is_caught() {
        let mut line = Vec::new();
        write(&mut line, Link::START, 7, &Event::new(&record(5)).unwrap());
        line.pop();
        assert!(read(&line, Link::START).is_ok());
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut flipped = line.clone();
                flipped[at] ^= 1 << bit;
                assert!(read(&flipped, Link::START).is_err(), "byte {at}, bit {bit}");
            }
            assert!(read(&line[..at], Link::START).is_err(), "cut at {at}");
        }
    }
}
