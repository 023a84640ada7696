//! Bytes that begin on a cache line.

use crate::KernelError;

/// Bytes of a cache line, and of the widest register.
pub(crate) const LINE: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// A byte buffer of fixed length whose first byte lies on a cache line.
pub(crate) struct Aligned {
    lines: Vec<Line>,
    len: usize,
}

impl Aligned {
    /// `len` zero bytes.
    pub(crate) fn zeroed(len: usize) -> Result<Self, KernelError> {
        let count = len.div_ceil(LINE);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| KernelError::NoMemory { bytes: len })?;
        lines.resize(count, Line([0; LINE]));
        Ok(Self { lines, len })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // JUSTIFICATION: a `Vec<u8>` cannot promise its alignment.
        // SAFETY: `Line` is `repr(C)` over 64 bytes without padding, all initialised, and `len <= lines.len() * 64`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // JUSTIFICATION: as in `bytes`.
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
