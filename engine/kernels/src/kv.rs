//! Memory for keys and values, in pages of 16 positions. Knows no owner: which page may be read is its caller's to prove.
//!
//! A page holds all layers, so that wiping it is one run of bytes:
//! `[layer][kv head][keys: dim x 16 positions, then values: 16 positions x dim]`, in f16. Keys lie transposed, so that one register
//! scores 16 positions; values lie in rows, so that a read stops at the last written position.

use crate::{KernelError, expect_len};
use half::{f16, slice::HalfFloatSliceExt};

/// Positions of a page.
pub const PAGE: usize = 16;
/// What memory holds at birth: a finite number that no model writes everywhere, so that an unscrubbed read shows.
const POISON: f16 = f16::from_bits(0x5bad);

/// The sizes of a model's keys and values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KvShape {
    /// Layers.
    pub layers: usize,
    /// Heads of keys and of values in a layer.
    pub heads: usize,
    /// Elements of a head; a multiple of 16.
    pub dim: usize,
}

impl KvShape {
    /// Elements of one page.
    #[must_use]
    pub const fn page_elements(self) -> usize {
        self.layers * self.heads * 2 * PAGE * self.dim
    }

    /// Bytes of one page.
    #[must_use]
    pub const fn page_bytes(self) -> usize {
        self.page_elements() * size_of::<f16>()
    }

    /// Elements of one layer's keys (and of its values) at one position.
    #[must_use]
    pub const fn row(self) -> usize {
        self.heads * self.dim
    }
}

/// All pages.
pub struct Kv {
    shape: KvShape,
    pages: usize,
    data: Vec<f16>,
}

impl Kv {
    /// Memory for `pages` pages: allocated and touched, so that what it says it holds it does hold. Every page is born poisoned.
    ///
    /// # Errors
    /// When the head size is no multiple of 16, or memory is short.
    pub fn new(shape: KvShape, pages: usize) -> Result<Self, KernelError> {
        expect_len("head size", shape.dim, shape.dim.next_multiple_of(16).max(16))?;
        let too_large = KernelError::NoMemory { bytes: usize::MAX };
        let elements = pages.checked_mul(shape.page_elements()).ok_or(too_large)?;
        let bytes = elements.checked_mul(size_of::<f16>()).ok_or(too_large)?;
        let mut data = Vec::new();
        data.try_reserve_exact(elements).map_err(|_| KernelError::NoMemory { bytes })?;
        data.resize(elements, POISON);
        Ok(Self { shape, pages, data })
    }

    /// The model's sizes.
    #[must_use]
    pub const fn shape(&self) -> KvShape {
        self.shape
    }

    /// Pages held.
    #[must_use]
    pub const fn pages(&self) -> usize {
        self.pages
    }

    /// Sets each bit of a page to 0.
    ///
    /// # Errors
    /// When there is no such page.
    pub fn erase(&mut self, page: usize) -> Result<(), KernelError> {
        let range = self.page_range(page)?;
        self.data[range].fill(f16::ZERO);
        Ok(())
    }

    /// Whether each bit of a page is 0.
    ///
    /// # Errors
    /// When there is no such page.
    pub fn is_blank(&self, page: usize) -> Result<bool, KernelError> {
        let range = self.page_range(page)?;
        Ok(self.data[range].iter().all(|element| element.to_bits() == 0))
    }

    /// Writes one position's keys and values of one layer, all heads one after another.
    ///
    /// # Errors
    /// When page, slot or layer lie outside, or a row has another size.
    pub fn write(
        &mut self,
        layer: usize,
        (page, slot): (usize, usize),
        keys: &[f32],
        values: &[f32],
    ) -> Result<(), KernelError> {
        let KvShape { layers, dim, .. } = self.shape;
        expect_len("keys of a position", keys.len(), self.shape.row())?;
        expect_len("values of a position", values.len(), self.shape.row())?;
        if layer >= layers || slot >= PAGE {
            return Err(KernelError::Shape { what: "layer or slot", found: layer.max(slot), wanted: layers });
        }
        self.page_range(page)?;
        for (head, (keys, values)) in keys.chunks_exact(dim).zip(values.chunks_exact(dim)).enumerate() {
            let at = self.head_start(layer, page, head);
            let (k, v) = self.data[at..at + 2 * PAGE * dim].split_at_mut(PAGE * dim);
            for (&key, column) in keys.iter().zip(k.chunks_exact_mut(PAGE)) {
                column[slot] = f16::from_f32(key);
            }
            v[slot * dim..(slot + 1) * dim].convert_from_f32_slice(values);
        }
        Ok(())
    }

    /// The keys of the first `filled` positions of a page, transposed, into `out` of `dim x 16`; the other columns become 0 and
    /// are not read (P3).
    pub(crate) fn keys(&self, layer: usize, page: usize, head: usize, filled: usize, out: &mut [f32]) {
        let at = self.head_start(layer, page, head);
        let keys = &self.data[at..at + PAGE * self.shape.dim];
        if filled >= PAGE {
            keys.convert_to_f32_slice(out);
            return;
        }
        for (column, out) in keys.chunks_exact(PAGE).zip(out.chunks_exact_mut(PAGE)) {
            column[..filled].convert_to_f32_slice(&mut out[..filled]);
            out[filled..].fill(0.0);
        }
    }

    /// The values of the first `filled` positions of a page, into `out` of `filled x dim`; no other is read (P3).
    pub(crate) fn values(&self, layer: usize, page: usize, head: usize, filled: usize, out: &mut [f32]) {
        let dim = self.shape.dim;
        let at = self.head_start(layer, page, head) + PAGE * dim;
        let filled = filled.min(PAGE) * dim;
        self.data[at..at + filled].convert_to_f32_slice(&mut out[..filled]);
    }

    fn head_start(&self, layer: usize, page: usize, head: usize) -> usize {
        let KvShape { heads, dim, .. } = self.shape;
        page * self.shape.page_elements() + (layer * heads + head) * 2 * PAGE * dim
    }

    fn page_range(&self, page: usize) -> Result<std::ops::Range<usize>, KernelError> {
        if page >= self.pages {
            return Err(KernelError::Shape { what: "page", found: page, wanted: self.pages });
        }
        let size = self.shape.page_elements();
        Ok(page * size..(page + 1) * size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: KvShape = KvShape { layers: 2, heads: 2, dim: 16 };

    #[test]
    fn a_page_is_born_poisoned_and_blank_after_a_wipe() {
        let mut kv = Kv::new(SHAPE, 2).unwrap();
        assert_eq!(kv.is_blank(1), Ok(false));
        kv.erase(1).unwrap();
        assert_eq!(kv.is_blank(1), Ok(true));
        assert_eq!(kv.is_blank(0), Ok(false));
        assert!(kv.erase(2).is_err() && kv.is_blank(2).is_err());
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let mut kv = Kv::new(SHAPE, 2).unwrap();
        let row = |by: usize| -> Vec<f32> { (0..32).map(|i| (i * 3 + by) as f32).collect() };
        for slot in 0..3 {
            kv.write(1, (1, slot), &row(slot), &row(slot + 100)).unwrap();
        }
        let (mut keys, mut values) = ([f32::NAN; 16 * PAGE], [f32::NAN; 16 * PAGE]);
        kv.keys(1, 1, 1, 3, &mut keys);
        kv.values(1, 1, 1, 3, &mut values);
        for slot in 0..PAGE {
            for d in 0..16 {
                let key = keys[d * PAGE + slot];
                let value = values[slot * 16 + d];
                if slot < 3 {
                    assert_eq!((key, value), (row(slot)[16 + d], row(slot + 100)[16 + d]));
                } else {
                    assert!(key == 0.0 && value.is_nan(), "position {slot} was read");
                }
            }
        }
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(matches!(Kv::new(SHAPE, usize::MAX / 64), Err(KernelError::NoMemory { .. })));
    }

    #[test]
    fn writes_outside_are_refused() {
        let mut kv = Kv::new(SHAPE, 1).unwrap();
        let row = [0f32; 32];
        assert!(kv.write(2, (0, 0), &row, &row).is_err());
        assert!(kv.write(0, (1, 0), &row, &row).is_err());
        assert!(kv.write(0, (0, PAGE), &row, &row).is_err());
        assert!(kv.write(0, (0, 0), &row[1..], &row).is_err());
    }
}
