//! A batch of rows, as they are and quantised to 8 bits, for the matrices to read.

use crate::{Cpu, KernelError, Pool, cpu::versions, expect_len, matmul::Shared};
use std::ops::RangeBounds;

/// Elements that share one scale; that of the weights' blocks too.
pub const BLOCK: usize = 32;
/// Elements that share one sum: half a block, since some formats scale halves apart.
pub(crate) const HALF: usize = BLOCK / 2;

/// Rows of equal width. Each block of 32 elements is quantised by its own largest element, so a row's bits depend on that row
/// alone.
#[derive(Clone)]
pub struct Rows {
    cols: usize,
    len: usize,
    pub(crate) x: Vec<f32>,
    /// In -127..=127.
    pub(crate) q: Vec<i8>,
    /// What one unit of `q` is worth, one a block; NaN where an element of the block is not finite.
    pub(crate) scale: Vec<f32>,
    /// Sums of `q` over each half block.
    pub(crate) sums: Vec<i32>,
    /// `scale` times the sum of `q` over the block.
    pub(crate) scaled_sum: Vec<f32>,
}

impl Rows {
    /// An empty batch of rows of `cols` elements.
    ///
    /// # Errors
    /// When `cols` is no multiple of [`BLOCK`].
    pub fn new(cols: usize) -> Result<Self, KernelError> {
        let wanted = cols.next_multiple_of(BLOCK).max(BLOCK);
        expect_len("columns", cols, wanted)?;
        let (x, q, scale, sums, scaled_sum) = (vec![], vec![], vec![], vec![], vec![]);
        Ok(Self { cols, len: 0, x, q, scale, sums, scaled_sum })
    }

    /// Elements of a row.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Rows held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Row `index` as it was filled; empty when there is none.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        self.x.get(index * self.cols..(index + 1) * self.cols).unwrap_or_default()
    }

    /// A copy in which the named blocks of each row are zeros; what a seeded fault reduces apart.
    pub(crate) fn without_blocks(&self, blocks: impl RangeBounds<usize>) -> Self {
        let mut copy = self.clone();
        let each = self.cols / BLOCK;
        for at in (0..self.len * each).filter(|at| blocks.contains(&(at % each))) {
            copy.x[at * BLOCK..(at + 1) * BLOCK].fill(0.0);
            (copy.scale[at], copy.scaled_sum[at]) = (0.0, 0.0);
        }
        copy
    }

    /// A copy in which each row is the one before it; what a seeded fault reads.
    pub(crate) fn moved_by_one(&self) -> Self {
        let mut copy = self.clone();
        copy.x.rotate_right(self.cols);
        copy.q.rotate_right(self.cols);
        copy.scale.rotate_right(self.cols / BLOCK);
        copy.sums.rotate_right(self.cols / HALF);
        copy.scaled_sum.rotate_right(self.cols / BLOCK);
        copy
    }

    /// Makes `len` rows: calls `fill` with each index and a row to write whole, then quantises it.
    ///
    /// # Errors
    /// When a worker panicked.
    pub fn fill(
        &mut self,
        cpu: Cpu,
        pool: &mut Pool,
        len: usize,
        fill: &(dyn Fn(usize, &mut [f32]) + Sync),
    ) -> Result<(), KernelError> {
        let cols = self.cols;
        let blocks = cols / BLOCK;
        self.len = len;
        self.x.resize(len * cols, 0.0);
        self.q.resize(len * cols, 0);
        self.scale.resize(len * blocks, 0.0);
        self.sums.resize(len * blocks * 2, 0);
        self.scaled_sum.resize(len * blocks, 0.0);
        let x = Shared::new(&mut self.x);
        let q = Shared::new(&mut self.q);
        let scale = Shared::new(&mut self.scale);
        let sums = Shared::new(&mut self.sums);
        let scaled_sum = Shared::new(&mut self.scaled_sum);
        let grain = len.div_ceil(pool.threads() * 4).max(1);
        pool.run(len, grain, &|range| {
            for i in range {
                // JUSTIFICATION: rows are filled by several threads at once.
                // SAFETY: each index is given to one task only, and each row's parts lie within the buffers sized above.
                let (x, q, scale, sums, scaled_sum) = unsafe {
                    (
                        x.part(i * cols, cols),
                        q.part(i * cols, cols),
                        scale.part(i * blocks, blocks),
                        sums.part(i * blocks * 2, blocks * 2),
                        scaled_sum.part(i * blocks, blocks),
                    )
                };
                fill(i, x);
                quantise(cpu, x, q, scale, sums, scaled_sum);
            }
        })
    }
}

versions! {
    /// Quantises one row.
    fn quantise(x: &[f32], q: &mut [i8], scale: &mut [f32], sums: &mut [i32], scaled_sum: &mut [f32]) = quantise_row
}

#[inline(always)]
fn quantise_row(x: &[f32], q: &mut [i8], scale: &mut [f32], sums: &mut [i32], scaled_sum: &mut [f32]) {
    let (blocks, _) = x.as_chunks::<BLOCK>();
    let (quantised, _) = q.as_chunks_mut::<BLOCK>();
    let (halves, _) = sums.as_chunks_mut::<2>();
    for (((x, q), halves), (scale, scaled_sum)) in
        blocks.iter().zip(quantised).zip(halves).zip(scale.iter_mut().zip(scaled_sum))
    {
        let mut largest = 0f32;
        // 0 for finite elements, NaN otherwise: `max` would lose a NaN, and a lost NaN is a wrong answer.
        let mut poison = 0f32;
        for &element in x {
            largest = largest.max(element.abs());
            poison += element * 0.0;
        }
        let unit = largest / 127.0;
        let per_unit = if unit > 0.0 { 127.0 / largest } else { 0.0 };
        let mut whole = [0i32; BLOCK];
        for (whole, &element) in whole.iter_mut().zip(x) {
            *whole = (element * per_unit).round_ties_even().clamp(-127.0, 127.0) as i32;
        }
        for (q, whole) in q.iter_mut().zip(whole) {
            *q = whole as i8;
        }
        let (first, second) = whole.split_at(HALF);
        *halves = [first.iter().sum(), second.iter().sum()];
        *scale = unit + poison;
        *scaled_sum = *scale * (halves[0] + halves[1]) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(cpu: Cpu, row: &[f32]) -> Rows {
        let mut rows = Rows::new(row.len()).unwrap();
        rows.fill(cpu, &mut Pool::new(1).unwrap(), 1, &|_, out| out.copy_from_slice(row)).unwrap();
        rows
    }

    #[test]
    fn each_element_is_within_half_a_unit() {
        let row: Vec<f32> = (0..64).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect();
        let rows = filled(Cpu::best(), &row);
        for (i, &x) in row.iter().enumerate() {
            let unit = rows.scale[i / BLOCK];
            assert!((f32::from(rows.q[i]) * unit - x).abs() <= unit * 0.5001);
        }
        assert_eq!(rows.sums[0] + rows.sums[1], rows.q[..32].iter().map(|&q| i32::from(q)).sum::<i32>());
    }

    #[test]
    fn what_is_not_finite_poisons_its_block_and_no_other() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut row = [1f32; 64];
            row[3] = bad;
            let rows = filled(Cpu::best(), &row);
            assert!(rows.scale[0].is_nan() && rows.scaled_sum[0].is_nan());
            assert!(rows.scale[1].is_finite());
        }
    }

    #[test]
    fn a_row_of_zeros_stays_zero() {
        let rows = filled(Cpu::best(), &[0.0; 32]);
        assert_eq!((rows.scale[0], rows.scaled_sum[0]), (0.0, 0.0));
    }

    #[test]
    fn widths_that_are_no_multiple_of_a_block_are_refused() {
        assert!(Rows::new(33).is_err());
        assert!(Rows::new(0).is_err());
    }
}
