//! The integer forms on AVX2: a tile as two halves of 8 rows. The bounds on 16-bit sums are those of the AVX-512 path.

use super::{Acts, PASS, Weights};
use crate::{
    Cpu, Isa,
    matrix::{Form, TILE},
    rows::BLOCK,
};
use std::arch::x86_64::*;

/// Rows of half a tile.
const LANES: usize = TILE / 2;

/// Sums of one tile for the rows of one pass, 16 a row.
pub(super) fn tile(cpu: Cpu, weights: &Weights<'_>, acts: &Acts<'_>, out: &mut [f32; TILE * PASS]) {
    let (elements, scales, mins) = weights.form.block_bytes();
    let blocks = weights.blocks;
    // What the loads below rely on.
    assert!(weights.elements.len() == blocks * elements && weights.scales.len() == blocks * scales);
    assert!(weights.mins.len() == blocks * mins && acts.blocks == blocks && acts.count <= PASS);
    assert!(acts.q.len() == acts.count * blocks * BLOCK && acts.scale.len() == acts.count * blocks);
    assert!(acts.sums.len() == acts.scale.len() * 2 && acts.scaled_sum.len() == acts.scale.len());
    debug_assert_ne!(cpu.isa(), Isa::Portable);
    for part in 0..2 {
        for row in 0..acts.count {
            // JUSTIFICATION: instructions that plain Rust does not reach.
            // SAFETY: `cpu` proves AVX2; the asserts above are the lengths that the loads need; `part < 2`, `row < count`.
            let sums = unsafe {
                match weights.form {
                    Form::Nibbles => nibbles::<false>(weights, acts, row, part),
                    Form::WideNibbles => nibbles::<true>(weights, acts, row, part),
                    Form::Bytes => bytes::<false>(weights, acts, row, part),
                    Form::HalfBytes => bytes::<true>(weights, acts, row, part),
                    Form::Floats => [f32::NAN; LANES],
                }
            };
            let at = row * TILE + part * LANES;
            out[at..at + LANES].copy_from_slice(&sums);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn halves(bytes: &[u8], index: usize, part: usize) -> __m256 {
    // JUSTIFICATION: a load of 8 f16.
    // SAFETY: the caller's `index` is below the block count that `tile` checked against the length.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(bytes.as_ptr().add((index * TILE + part * LANES) * 2).cast())) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn floats(bytes: &[u8], index: usize, part: usize) -> __m256 {
    // JUSTIFICATION: a load of 8 f32.
    // SAFETY: as in `halves`.
    unsafe { _mm256_loadu_ps(bytes.as_ptr().add((index * TILE + part * LANES) * 4).cast()) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dot_nibbles(u: &[__m256i; 8], x: *const i8) -> [__m256i; 2] {
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); 2];
    for (half, sum) in sums.iter_mut().enumerate() {
        let mut pairs = _mm256_setzero_si256();
        for z in 0..4 {
            let group = half * 4 + z;
            // JUSTIFICATION: a broadcast of 4 activations.
            // SAFETY: the caller's `x` points to 32 activations; unaligned read.
            let x = unsafe { x.cast::<i32>().add(group).read_unaligned() };
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(u[group], _mm256_set1_epi32(x)));
        }
        *sum = _mm256_madd_epi16(pairs, ones);
    }
    sums
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn nibbles<const WIDE: bool>(w: &Weights<'_>, a: &Acts<'_>, row: usize, part: usize) -> [f32; LANES] {
    // JUSTIFICATION: the inner loop of decoding and prefill.
    // SAFETY: `block < blocks`, `row < count`, `part < 2`: within the lengths that `tile` checked; unaligned loads.
    unsafe {
        let low = _mm256_set1_epi8(15);
        let mut acc = _mm256_setzero_ps();
        for block in 0..w.blocks {
            let from = w.elements.as_ptr().add(block * TILE * BLOCK / 2 + part * 32);
            let mut u = [_mm256_setzero_si256(); 8];
            for z in 0..4 {
                let v = _mm256_loadu_si256(from.add(z * 64).cast());
                u[z * 2] = _mm256_and_si256(v, low);
                u[z * 2 + 1] = _mm256_and_si256(_mm256_srli_epi16::<4>(v), low);
            }
            let scale = if WIDE { floats(w.scales, block, part) } else { halves(w.scales, block, part) };
            let min = if WIDE { floats(w.mins, block, part) } else { halves(w.mins, block, part) };
            let at = row * w.blocks + block;
            let [first, second] = dot_nibbles(&u, a.q.as_ptr().add(at * BLOCK));
            let sum = _mm256_cvtepi32_ps(_mm256_add_epi32(first, second));
            let unit = _mm256_set1_ps(*a.scale.as_ptr().add(at));
            acc = _mm256_fmadd_ps(_mm256_mul_ps(scale, unit), sum, acc);
            acc = _mm256_fmadd_ps(min, _mm256_set1_ps(*a.scaled_sum.as_ptr().add(at)), acc);
        }
        let mut out = [0f32; LANES];
        _mm256_storeu_ps(out.as_mut_ptr(), acc);
        out
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes<const SPLIT: bool>(w: &Weights<'_>, a: &Acts<'_>, row: usize, part: usize) -> [f32; LANES] {
    // JUSTIFICATION: the inner loop of the output head.
    // SAFETY: as in `nibbles`.
    unsafe {
        let low = _mm256_set1_epi8(15);
        let mut acc = _mm256_setzero_ps();
        for block in 0..w.blocks {
            let from = w.elements.as_ptr().add(block * TILE * BLOCK + part * 32);
            let mut lows = [_mm256_setzero_si256(); 8];
            let mut highs = lows;
            for z in 0..8 {
                let v = _mm256_loadu_si256(from.add(z * 64).cast());
                lows[z] = _mm256_and_si256(v, low);
                highs[z] = _mm256_and_si256(_mm256_srli_epi16::<4>(v), low);
            }
            let at = row * w.blocks + block;
            let x = a.q.as_ptr().add(at * BLOCK);
            let (l, h) = (dot_nibbles(&lows, x), dot_nibbles(&highs, x));
            let sum = |half: usize| {
                let over = _mm256_set1_epi32(*a.sums.as_ptr().add(at * 2 + half) << 7);
                _mm256_sub_epi32(_mm256_add_epi32(l[half], _mm256_slli_epi32::<4>(h[half])), over)
            };
            let unit = _mm256_set1_ps(*a.scale.as_ptr().add(at));
            if SPLIT {
                let scale = _mm256_mul_ps(floats(w.scales, block * 2, part), unit);
                acc = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum(0)), acc);
                let scale = _mm256_mul_ps(floats(w.scales, block * 2 + 1, part), unit);
                acc = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sum(1)), acc);
            } else {
                let scale = _mm256_mul_ps(halves(w.scales, block, part), unit);
                acc = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(_mm256_add_epi32(sum(0), sum(1))), acc);
            }
        }
        let mut out = [0f32; LANES];
        _mm256_storeu_ps(out.as_mut_ptr(), acc);
        out
    }
}
