//! The kernels' own memory and attention, for rows about what a kernel reads. The only file of the corpus that calls them.

use isolation::page::{Erase, PageId};
use kernels::{
    Cpu, KernelError, Pool,
    attention::{Queries, Span, attend},
    kv::{Kv, KvShape, PAGE},
};
use std::ops::Range;

const SHAPE: KvShape = KvShape { layers: 1, heads: 2, dim: 16 };
const HEADS: usize = 4;
const ROW: usize = 32;
const WIDTH: usize = HEADS * 16;

/// What poison is made of: a number that spreads through any sum, and one that only shifts it.
pub(crate) const POISONS: [f32; 2] = [f32::NAN, 6.0e4];

/// Keys and values of all pages.
pub(crate) struct Cache(Kv);

impl Cache {
    /// All pages wiped.
    pub(crate) fn new(pages: usize) -> Self {
        let mut kv = Kv::new(SHAPE, pages).unwrap();
        (0..pages).for_each(|page| kv.erase(page).unwrap());
        Self(kv)
    }

    /// Writes these positions of a sequence on `pages`.
    pub(crate) fn write(&mut self, pages: &[u32], positions: Range<usize>, seed: usize) {
        for position in positions {
            let row: Vec<f32> = (0..ROW).map(|i| number(seed, position * ROW + i)).collect();
            let slot = (pages[position / PAGE] as usize, position % PAGE);
            self.0.write(0, slot, &row, &row).unwrap();
        }
    }

    /// Writes poison into slots of a page.
    pub(crate) fn poison(&mut self, page: u32, slots: Range<usize>, poison: f32) {
        slots.for_each(|slot| self.put(page as usize, slot, poison).unwrap());
    }

    /// Writes one place by its plain numbers, as an index of a padding row would be used.
    pub(crate) fn put(&mut self, page: usize, slot: usize, value: f32) -> Result<(), KernelError> {
        self.0.write(0, (page, slot), &[value; ROW], &[value; ROW])
    }

    /// The bits of one row of attention for each of `(pages, position)`, all in one batch.
    pub(crate) fn read(&self, rows: &[(&[u32], usize)]) -> Result<Vec<Vec<u32>>, KernelError> {
        let spans: Vec<Span<'_>> = rows
            .iter()
            .enumerate()
            .map(|(row, (pages, start))| Span { row, len: 1, start: *start, pages })
            .collect();
        // A row's query depends on its position alone, so that a row is the same in any batch.
        let data: Vec<f32> =
            rows.iter().flat_map(|(_, at)| (0..WIDTH).map(move |i| number(7, at + i))).collect();
        let queries = Queries { data: &data, stride: WIDTH, heads: HEADS };
        let mut out = vec![f32::NAN; data.len()];
        attend(Cpu::best(), &mut Pool::new(1)?, (&self.0, 0), &spans, queries, &mut out)?;
        Ok(out.chunks(WIDTH).map(|row| row.iter().map(|x| x.to_bits()).collect()).collect())
    }

    /// One row alone.
    pub(crate) fn one(&self, pages: &[u32], position: usize) -> Vec<u32> {
        self.read(&[(pages, position)]).unwrap().remove(0)
    }
}

impl Erase for Cache {
    type Error = KernelError;

    fn erase(&mut self, page: PageId) -> Result<(), KernelError> {
        self.0.erase(page.index())
    }

    fn is_blank(&mut self, page: PageId) -> Result<bool, KernelError> {
        self.0.is_blank(page.index())
    }
}

fn number(seed: usize, at: usize) -> f32 {
    ((seed * 131 + at * 37) % 64) as f32 / 16.0 - 2.0
}
