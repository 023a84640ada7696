//! Little-endian numbers and strings from a reader of known length, with two budgets: the file's bytes and our memory.

use std::io::Read;

use super::GgufError;

/// A reader that knows where it is, how long the file is, and how much may still be held.
///
/// # Invariants
/// `at <= length`; nothing is allocated before it was charged against both budgets.
pub(super) struct Source<'r, R: Read> {
    reader: &'r mut R,
    at: u64,
    length: u64,
    holdable: u64,
    hold_bound: u64,
}

impl<'r, R: Read> Source<'r, R> {
    pub(super) fn new(reader: &'r mut R, length: u64, hold_bound: u64) -> Self {
        Source { reader, at: 0, length, holdable: hold_bound, hold_bound }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Length of the whole file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Refuses when fewer than `wanted` bytes of the file are left.
    pub(super) fn expect_left(&self, wanted: u64) -> Result<(), GgufError> {
        if wanted > self.length.saturating_sub(self.at) {
            return Err(GgufError::Truncated { at: self.at, wanted, length: self.length });
        }
        Ok(())
    }

    /// Charges `items * each` bytes of our memory, before they are allocated.
    pub(super) fn hold(&mut self, items: u64, each: u64) -> Result<(), GgufError> {
        let bytes = items.saturating_mul(each);
        self.holdable = self.holdable.checked_sub(bytes).ok_or(GgufError::TooMany {
            what: "bytes held for the header",
            claimed: self.hold_bound.saturating_sub(self.holdable).saturating_add(bytes),
            bound: self.hold_bound,
        })?;
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), GgufError> {
        let wanted = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.expect_left(wanted)?;
        self.reader.read_exact(bytes).map_err(GgufError::Read)?;
        self.at = self.at.saturating_add(wanted);
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A 64-bit count of at most `bound`.
    pub(super) fn count(&mut self, what: &'static str, bound: u64) -> Result<u64, GgufError> {
        let claimed = self.u64()?;
        if claimed > bound {
            return Err(GgufError::TooMany { what, claimed, bound });
        }
        Ok(claimed)
    }

    /// A length-prefixed UTF-8 string of at most `bound` bytes.
    pub(super) fn string(&mut self, what: &'static str, bound: u64) -> Result<String, GgufError> {
        let len = self.count(what, bound)?;
        let at = self.at;
        self.expect_left(len)?;
        self.hold(1, len)?;
        let len = usize::try_from(len).map_err(|_| GgufError::TooMany { what, claimed: len, bound })?;
        let mut bytes = vec![0; len];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 { at })
    }
}
