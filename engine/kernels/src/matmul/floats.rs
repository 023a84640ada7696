//! Unquantised matrices: one chain of fused multiply-adds over the columns, in order.

use crate::{cpu::versions, matrix::TILE};

versions! {
    /// Sums of one tile for `count` rows of `cols` elements, 16 a row.
    pub(super) fn tile(elements: &[u8], x: &[f32], cols: usize, count: usize, out: &mut [f32]) = add_columns
}

#[inline(always)]
fn add_columns(elements: &[u8], x: &[f32], cols: usize, count: usize, out: &mut [f32]) {
    let (columns, _) = elements.as_chunks::<{ TILE * 4 }>();
    for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(TILE)).take(count) {
        let mut acc = [0f32; TILE];
        for (column, &x) in columns.iter().zip(x) {
            let (weights, _) = column.as_chunks::<4>();
            for (acc, weight) in acc.iter_mut().zip(weights) {
                *acc = f32::from_le_bytes(*weight).mul_add(x, *acc);
            }
        }
        out.copy_from_slice(&acc);
    }
}
