//! Memory for keys and values, in pages of 16 positions. Each page bears a label, and opens for a matching capability alone.
//!
//! A page holds all layers, so that wiping it is one run of bytes:
//! `[layer][kv head][keys: dim x 16 positions, then values: 16 positions x dim]`, in f16. Keys lie transposed, so that one register
//! scores 16 positions; values lie in rows, so that a read stops at the last written position.

use crate::{
    KernelError, expect_len,
    fault::{self, Fault},
    label::{Capability, Denied, Labels},
};
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
    labels: Labels,
}

/// One layer of one page, opened: the proof that its first positions may be read.
#[derive(Clone, Copy)]
pub struct Opened<'a> {
    shape: KvShape,
    /// All heads of the layer.
    data: &'a [f16],
    /// Positions that may be read; at most [`PAGE`].
    filled: usize,
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
        let labels = Labels::new(pages, shape.layers)?;
        Ok(Self { shape, pages, data, labels })
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

    /// Sets each bit of a page to 0, and takes its label off.
    ///
    /// # Errors
    /// When there is no such page.
    pub fn erase(&mut self, page: usize) -> Result<(), KernelError> {
        let range = self.page_range(page)?;
        self.data[range].fill(f16::ZERO);
        self.labels.wipe(page);
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

    /// Writes one position's keys and values of one layer, all heads one after another. The first write to a wiped page
    /// labels it; the positions of a layer are written in order.
    ///
    /// # Errors
    /// When page, slot or layer lie outside, a row has another size, or the page is another's, of another life, not wiped, or
    /// not filled up to the slot.
    pub fn write(
        &mut self,
        layer: usize,
        (capability, slot): (Capability, usize),
        keys: &[f32],
        values: &[f32],
    ) -> Result<(), KernelError> {
        let KvShape { layers, dim, .. } = self.shape;
        expect_len("keys of a position", keys.len(), self.shape.row())?;
        expect_len("values of a position", values.len(), self.shape.row())?;
        if layer >= layers || slot >= PAGE {
            return Err(KernelError::Shape { what: "layer or slot", found: layer.max(slot), wanted: layers });
        }
        let page = capability.page;
        self.page_range(page)?;
        self.labels.write(capability, layer, slot)?;
        for (head, (keys, values)) in keys.chunks_exact(dim).zip(values.chunks_exact(dim)).enumerate() {
            let at = self.layer_start(layer, page) + head * 2 * PAGE * dim;
            let (k, v) = self.data[at..at + 2 * PAGE * dim].split_at_mut(PAGE * dim);
            for (&key, column) in keys.iter().zip(k.chunks_exact_mut(PAGE)) {
                column[slot] = f16::from_f32(key);
            }
            v[slot * dim..(slot + 1) * dim].convert_from_f32_slice(values);
        }
        Ok(())
    }

    /// Opens the first `filled` positions of a page's layer: the only way to its keys and values (P3).
    ///
    /// # Errors
    /// When the page is another owner's, in another life, or not written so far. Nothing of it is read then.
    #[inline]
    pub fn open(&self, layer: usize, capability: Capability, filled: usize) -> Result<Opened<'_>, Denied> {
        self.open_with(layer, capability, filled, fault::seeded())
    }

    /// As [`Kv::open`], lacking the guard that `fault` names: workers do not know what their caller's thread seeded.
    #[inline(always)]
    pub(crate) fn open_with(
        &self,
        layer: usize,
        capability: Capability,
        filled: usize,
        fault: Option<Fault>,
    ) -> Result<Opened<'_>, Denied> {
        let filled = filled.min(PAGE);
        self.labels.read(capability, layer, filled, fault)?;
        let at = self.layer_start(layer, capability.page);
        let data = self.data.get(at..at + self.shape.row() * 2 * PAGE);
        let data = data.ok_or(Denied::NoPage { page: capability.page })?;
        Ok(Opened { shape: self.shape, data, filled })
    }

    fn layer_start(&self, layer: usize, page: usize) -> usize {
        page * self.shape.page_elements() + layer * self.shape.row() * 2 * PAGE
    }
    fn page_range(&self, page: usize) -> Result<std::ops::Range<usize>, KernelError> {
        if page >= self.pages {
            return Err(KernelError::Shape { what: "page", found: page, wanted: self.pages });
        }
        let size = self.shape.page_elements();
        Ok(page * size..(page + 1) * size)
    }
}

impl Opened<'_> {
    /// One head's keys, transposed, into `out` of `dim x 16`; columns that are not open become 0 and are not read.
    #[inline(always)]
    pub(crate) fn keys(self, head: usize, out: &mut [f32]) {
        let at = self.head_start(head);
        let keys = &self.data[at..at + PAGE * self.shape.dim];
        if self.filled >= PAGE {
            keys.convert_to_f32_slice(out);
            return;
        }
        for (column, out) in keys.chunks_exact(PAGE).zip(out.chunks_exact_mut(PAGE)) {
            column[..self.filled].convert_to_f32_slice(&mut out[..self.filled]);
            out[self.filled..].fill(0.0);
        }
    }

    /// One head's values of the positions that are open, into `out` of `filled x dim`; no other is read.
    #[inline(always)]
    pub(crate) fn values(self, head: usize, out: &mut [f32]) {
        let at = self.head_start(head) + PAGE * self.shape.dim;
        let filled = self.filled * self.shape.dim;
        self.data[at..at + filled].convert_to_f32_slice(&mut out[..filled]);
    }

    fn head_start(self, head: usize) -> usize {
        head * 2 * PAGE * self.shape.dim
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
        kv.erase(1).unwrap();
        let mine = Capability { page: 1, owner: 4, generation: 9 };
        let row = |by: usize| -> Vec<f32> { (0..32).map(|i| (i * 3 + by) as f32).collect() };
        for slot in 0..3 {
            kv.write(1, (mine, slot), &row(slot), &row(slot + 100)).unwrap();
        }
        let (mut keys, mut values) = ([f32::NAN; 16 * PAGE], [f32::NAN; 16 * PAGE]);
        let opened = kv.open(1, mine, 3).unwrap();
        opened.keys(1, &mut keys);
        opened.values(1, &mut values);
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
        kv.erase(0).unwrap();
        let row = [0f32; 32];
        let [mine, outside] = [0, 1].map(|page| Capability { page, owner: 4, generation: 9 });
        assert!(kv.write(2, (mine, 0), &row, &row).is_err());
        assert!(kv.write(0, (outside, 0), &row, &row).is_err());
        assert!(kv.write(0, (mine, PAGE), &row, &row).is_err());
        assert!(kv.write(0, (mine, 0), &row[1..], &row).is_err());
        assert_eq!(kv.write(0, (mine, 0), &row, &row), Ok(()));
    }
}
