//! Rows times a packed matrix. Each output is one chain over the blocks of its row, in order: `acc = fma(scale * unit, dot, acc)`
//! with an exact integer dot product, then, where the form has minimums, `acc = fma(min, scaled_sum, acc)`.

use crate::{
    Cpu, KernelError, Pool, Rows, expect_len,
    fault::{self, Fault},
    matrix::{Form, Matrix, TILE},
    rows::BLOCK,
};
use std::marker::PhantomData;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod floats;
mod portable;

/// Rows that one pass over a tile serves at most: what the registers of AVX-512 hold beside the weights.
pub(crate) const PASS: usize = 8;

/// `out = rows * matrix^T`: `rows.len()` rows of `matrix.rows()` outputs.
///
/// # Errors
/// When the shapes do not fit or a worker panicked.
pub fn matmul(
    cpu: Cpu,
    pool: &mut Pool,
    matrix: &Matrix,
    rows: &Rows,
    out: &mut [f32],
) -> Result<(), KernelError> {
    expect_len("columns of rows", rows.cols(), matrix.cols())?;
    expect_len("outputs", out.len(), rows.len() * matrix.rows())?;
    match fault::seeded() {
        Some(Fault::SplitByBatch) if rows.len() > 1 => {
            let half = rows.cols() / BLOCK / 2;
            run_tiles(cpu, pool, matrix, &rows.without_blocks(half..), out)?;
            let mut second = vec![0.0; out.len()];
            run_tiles(cpu, pool, matrix, &rows.without_blocks(..half), &mut second)?;
            out.iter_mut().zip(second).for_each(|(out, second)| *out += second);
            Ok(())
        }
        Some(Fault::RowsMeet) if rows.len() > 1 => run_tiles(cpu, pool, matrix, &rows.moved_by_one(), out),
        Some(_) | None => run_tiles(cpu, pool, matrix, rows, out),
    }
}

fn run_tiles(
    cpu: Cpu,
    pool: &mut Pool,
    matrix: &Matrix,
    rows: &Rows,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let tiles = matrix.rows().div_ceil(TILE);
    let grain = tiles.div_ceil(pool.threads() * 4).max(1);
    let out = Shared::new(out);
    pool.run(tiles, grain, &|range| {
        for tile in range {
            run_tile(cpu, matrix, rows, tile, &out);
        }
    })
}

fn run_tile(cpu: Cpu, matrix: &Matrix, rows: &Rows, tile: usize, out: &Shared<'_, f32>) {
    let lanes = TILE.min(matrix.rows() - tile * TILE);
    let weights = Weights::of(matrix, tile);
    let mut from = 0;
    while from < rows.len() {
        let count = pass(rows.len() - from);
        let mut sums = [0f32; TILE * PASS];
        if matrix.form == Form::Floats {
            floats::tile(cpu, weights.elements, &rows.x[from * rows.cols()..], rows.cols(), count, &mut sums);
        } else {
            let acts = Acts::of(rows, from, count);
            match cpu.isa() {
                crate::Isa::Portable => portable::tile(&weights, &acts, &mut sums),
                #[cfg(target_arch = "x86_64")]
                crate::Isa::Avx2 => avx2::tile(cpu, &weights, &acts, &mut sums),
                #[cfg(target_arch = "x86_64")]
                crate::Isa::Avx512 | crate::Isa::Avx512Vnni => avx512::tile(cpu, &weights, &acts, &mut sums),
                #[cfg(not(target_arch = "x86_64"))]
                crate::Isa::Avx2 | crate::Isa::Avx512 | crate::Isa::Avx512Vnni => {
                    portable::tile(&weights, &acts, &mut sums);
                }
            }
        }
        for (row, sums) in sums.chunks_exact(TILE).take(count).enumerate() {
            // JUSTIFICATION: tiles write columns of one output, interleaved in memory.
            // SAFETY: tile `tile` alone writes columns `tile * TILE ..+ lanes`, which lie within a row of the output, and
            // `from + row < rows.len()`; `matmul` checked the output's size.
            let place = unsafe { out.part((from + row) * matrix.rows() + tile * TILE, lanes) };
            place.copy_from_slice(&sums[..lanes]);
        }
        from += count;
    }
}

/// How many of `left` rows the next pass takes. It has no effect on any value: rows do not meet.
const fn pass(left: usize) -> usize {
    match left {
        0..=1 => 1,
        2..=3 => 2,
        4..=7 => 4,
        _ => PASS,
    }
}

/// One tile's weights.
pub(crate) struct Weights<'a> {
    pub(crate) form: Form,
    pub(crate) blocks: usize,
    pub(crate) elements: &'a [u8],
    pub(crate) scales: &'a [u8],
    pub(crate) mins: &'a [u8],
}

impl<'a> Weights<'a> {
    fn of(matrix: &'a Matrix, tile: usize) -> Self {
        let blocks = matrix.cols() / BLOCK;
        let (elements, scales, mins) = matrix.form.block_bytes();
        let part = |bytes: &'a [u8], each: usize| {
            let size = each * blocks;
            &bytes[tile * size..(tile + 1) * size]
        };
        Self {
            form: matrix.form,
            blocks,
            elements: part(matrix.elements.bytes(), elements),
            scales: part(matrix.scales.bytes(), scales),
            mins: part(matrix.mins.bytes(), mins),
        }
    }
}

/// The quantised rows of one pass.
pub(crate) struct Acts<'a> {
    pub(crate) count: usize,
    pub(crate) blocks: usize,
    pub(crate) q: &'a [i8],
    pub(crate) scale: &'a [f32],
    pub(crate) sums: &'a [i32],
    pub(crate) scaled_sum: &'a [f32],
}

impl<'a> Acts<'a> {
    fn of(rows: &'a Rows, from: usize, count: usize) -> Self {
        let (cols, blocks) = (rows.cols(), rows.cols() / BLOCK);
        let to = from + count;
        Self {
            count,
            blocks,
            q: &rows.q[from * cols..to * cols],
            scale: &rows.scale[from * blocks..to * blocks],
            sums: &rows.sums[from * blocks * 2..to * blocks * 2],
            scaled_sum: &rows.scaled_sum[from * blocks..to * blocks],
        }
    }
}

/// A mutable slice that several tasks write disjoint parts of.
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// JUSTIFICATION: one output is written by all threads of a pool.
// SAFETY: parts are handed out by an unsafe method whose callers vouch that they do not overlap; `T: Send` may be written from
// any thread.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// The part of `len` elements from `from` on.
    ///
    /// # Safety
    /// No other part that is alive may overlap it.
    #[allow(clippy::mut_from_ref, reason = "disjoint parts of one borrow; the caller vouches")]
    pub(crate) unsafe fn part(&self, from: usize, len: usize) -> &mut [T] {
        // Checked in release too: one comparison a part, against writes out of bounds.
        assert!(from <= self.len && len <= self.len - from, "a part lies outside its slice");
        // JUSTIFICATION: several threads write one output.
        // SAFETY: within the slice, by the check above; disjoint, by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
