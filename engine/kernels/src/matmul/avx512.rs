//! The integer forms on AVX-512, with and without VNNI.
//!
//! A register holds 4 columns of 16 rows. Without VNNI, `maddubs` adds pairs of products in 16 bits: a nibble times an
//! activation is at most 15 * 127, so four such pairs reach 15,240 and cannot saturate. Bytes are taken as two nibbles.

use super::{Acts, PASS, Weights};
use crate::{
    Cpu, Isa,
    matrix::{Form, TILE},
    rows::BLOCK,
};
use std::arch::x86_64::*;

/// Sums of one tile for the rows of one pass, 16 a row.
pub(super) fn tile(cpu: Cpu, weights: &Weights<'_>, acts: &Acts<'_>, out: &mut [f32; TILE * PASS]) {
    let (elements, scales, mins) = weights.form.block_bytes();
    let blocks = weights.blocks;
    // What the loads below rely on.
    assert!(weights.elements.len() == blocks * elements && weights.scales.len() == blocks * scales);
    assert!(weights.mins.len() == blocks * mins && acts.blocks == blocks && acts.count <= PASS);
    assert!(acts.q.len() == acts.count * blocks * BLOCK && acts.scale.len() == acts.count * blocks);
    assert!(acts.sums.len() == acts.scale.len() * 2 && acts.scaled_sum.len() == acts.scale.len());
    // JUSTIFICATION: instructions that plain Rust does not reach.
    // SAFETY: `cpu` proves the instruction set; the asserts above are the lengths that the loads need.
    unsafe {
        if cpu.isa() == Isa::Avx512Vnni {
            vnni::any(weights, acts, out)
        } else {
            plain::any(weights, acts, out)
        }
    }
}

/// Scales of one block, as f32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn halves(bytes: &[u8], index: usize) -> __m512 {
    // JUSTIFICATION: a load of 16 f16.
    // SAFETY: the caller's `index` is below the block count that `tile` checked against the length.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bytes.as_ptr().add(index * TILE * 2).cast())) }
}

/// As [`halves`], for scales kept as f32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn floats(bytes: &[u8], index: usize) -> __m512 {
    // JUSTIFICATION: a load of 16 f32.
    // SAFETY: as in `halves`.
    unsafe { _mm512_loadu_ps(bytes.as_ptr().add(index * TILE * 4).cast()) }
}

macro_rules! paths {
    ($module:ident, $features:literal, $dot_nibbles:item, $dot_bytes:item) => {
        mod $module {
            use super::*;

            $dot_nibbles
            $dot_bytes

            #[target_feature(enable = $features)]
            pub(super) unsafe fn any(w: &Weights<'_>, a: &Acts<'_>, out: &mut [f32; TILE * PASS]) {
                // JUSTIFICATION: the features of this module's functions are those of this one.
                // SAFETY: the caller vouches for the CPU and, through `tile`, for the lengths.
                unsafe {
                    match a.count {
                        1 => form::<1>(w, a, out),
                        2 => form::<2>(w, a, out),
                        4 => form::<4>(w, a, out),
                        _ => form::<PASS>(w, a, out),
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn form<const M: usize>(w: &Weights<'_>, a: &Acts<'_>, out: &mut [f32; TILE * PASS]) {
                // JUSTIFICATION: as in `any`.
                // SAFETY: as in `any`; each form is read as it was packed.
                unsafe {
                    match w.form {
                        Form::Nibbles => nibbles::<M, false>(w, a, out),
                        Form::WideNibbles => nibbles::<M, true>(w, a, out),
                        Form::Bytes => bytes::<M, false>(w, a, out),
                        Form::HalfBytes => bytes::<M, true>(w, a, out),
                        Form::Floats => {}
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn nibbles<const M: usize, const WIDE: bool>(
                w: &Weights<'_>,
                a: &Acts<'_>,
                out: &mut [f32; TILE * PASS],
            ) {
                // JUSTIFICATION: the inner loop of decoding and prefill.
                // SAFETY: `block < blocks`, `row < M <= count`: within the lengths that `tile` checked; unaligned loads.
                unsafe {
                    let low = _mm512_set1_epi8(15);
                    let mut acc = [_mm512_setzero_ps(); M];
                    for block in 0..w.blocks {
                        let from = w.elements.as_ptr().add(block * TILE * BLOCK / 2);
                        let mut u = [_mm512_setzero_si512(); 8];
                        for z in 0..4 {
                            let v = _mm512_loadu_si512(from.add(z * 64).cast());
                            u[z * 2] = _mm512_and_si512(v, low);
                            u[z * 2 + 1] = _mm512_and_si512(_mm512_srli_epi16::<4>(v), low);
                        }
                        let scale = if WIDE { floats(w.scales, block) } else { halves(w.scales, block) };
                        let min = if WIDE { floats(w.mins, block) } else { halves(w.mins, block) };
                        for (row, acc) in acc.iter_mut().enumerate() {
                            let at = row * w.blocks + block;
                            let [first, second] = dot_nibbles(&u, a.q.as_ptr().add(at * BLOCK));
                            let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(first, second));
                            let unit = _mm512_set1_ps(*a.scale.as_ptr().add(at));
                            *acc = _mm512_fmadd_ps(_mm512_mul_ps(scale, unit), sum, *acc);
                            let scaled = _mm512_set1_ps(*a.scaled_sum.as_ptr().add(at));
                            *acc = _mm512_fmadd_ps(min, scaled, *acc);
                        }
                    }
                    for (row, acc) in acc.into_iter().enumerate() {
                        _mm512_storeu_ps(out.as_mut_ptr().add(row * TILE), acc);
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn bytes<const M: usize, const SPLIT: bool>(
                w: &Weights<'_>,
                a: &Acts<'_>,
                out: &mut [f32; TILE * PASS],
            ) {
                // JUSTIFICATION: the inner loop of the output head.
                // SAFETY: as in `nibbles`.
                unsafe {
                    let mut acc = [_mm512_setzero_ps(); M];
                    for block in 0..w.blocks {
                        let from = w.elements.as_ptr().add(block * TILE * BLOCK);
                        let mut u = [_mm512_setzero_si512(); 8];
                        for (z, u) in u.iter_mut().enumerate() {
                            *u = _mm512_loadu_si512(from.add(z * 64).cast());
                        }
                        for (row, acc) in acc.iter_mut().enumerate() {
                            let at = row * w.blocks + block;
                            let sums = a.sums.as_ptr().add(at * 2);
                            let over = |half: usize| _mm512_set1_epi32(*sums.add(half) << 7);
                            let [first, second] = dot_bytes(&u, a.q.as_ptr().add(at * BLOCK));
                            let first = _mm512_sub_epi32(first, over(0));
                            let second = _mm512_sub_epi32(second, over(1));
                            let unit = _mm512_set1_ps(*a.scale.as_ptr().add(at));
                            if SPLIT {
                                let scale = _mm512_mul_ps(floats(w.scales, block * 2), unit);
                                *acc = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(first), *acc);
                                let scale = _mm512_mul_ps(floats(w.scales, block * 2 + 1), unit);
                                *acc = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(second), *acc);
                            } else {
                                let scale = _mm512_mul_ps(halves(w.scales, block), unit);
                                let sum = _mm512_cvtepi32_ps(_mm512_add_epi32(first, second));
                                *acc = _mm512_fmadd_ps(scale, sum, *acc);
                            }
                        }
                    }
                    for (row, acc) in acc.into_iter().enumerate() {
                        _mm512_storeu_ps(out.as_mut_ptr().add(row * TILE), acc);
                    }
                }
            }
        }
    };
}

paths!(
    plain,
    "avx512f,avx512bw,avx512dq,avx512vl",
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn dot_nibbles(u: &[__m512i; 8], x: *const i8) -> [__m512i; 2] {
        let ones = _mm512_set1_epi16(1);
        let mut sums = [_mm512_setzero_si512(); 2];
        for (half, sum) in sums.iter_mut().enumerate() {
            let mut pairs = _mm512_setzero_si512();
            for z in 0..4 {
                let group = half * 4 + z;
                // JUSTIFICATION: a broadcast of 4 activations.
                // SAFETY: the caller's `x` points to 32 activations; unaligned read.
                let x = unsafe { x.cast::<i32>().add(group).read_unaligned() };
                pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16(u[group], _mm512_set1_epi32(x)));
            }
            *sum = _mm512_madd_epi16(pairs, ones);
        }
        sums
    },
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn dot_bytes(u: &[__m512i; 8], x: *const i8) -> [__m512i; 2] {
        let low = _mm512_set1_epi8(15);
        let lows = u.map(|v| _mm512_and_si512(v, low));
        let highs = u.map(|v| _mm512_and_si512(_mm512_srli_epi16::<4>(v), low));
        // JUSTIFICATION: as in `dot_nibbles`.
        // SAFETY: as in `dot_nibbles`.
        let (a, b) = unsafe { (dot_nibbles(&lows, x), dot_nibbles(&highs, x)) };
        [
            _mm512_add_epi32(a[0], _mm512_slli_epi32::<4>(b[0])),
            _mm512_add_epi32(a[1], _mm512_slli_epi32::<4>(b[1])),
        ]
    }
);

paths!(
    vnni,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni",
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn dot_nibbles(u: &[__m512i; 8], x: *const i8) -> [__m512i; 2] {
        let mut sums = [_mm512_setzero_si512(); 2];
        for (half, sum) in sums.iter_mut().enumerate() {
            for z in 0..4 {
                let group = half * 4 + z;
                // JUSTIFICATION: a broadcast of 4 activations.
                // SAFETY: the caller's `x` points to 32 activations; unaligned read.
                let x = unsafe { x.cast::<i32>().add(group).read_unaligned() };
                *sum = _mm512_dpbusd_epi32(*sum, u[group], _mm512_set1_epi32(x));
            }
        }
        sums
    },
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn dot_bytes(u: &[__m512i; 8], x: *const i8) -> [__m512i; 2] {
        // JUSTIFICATION: with VNNI a byte is as good as a nibble.
        // SAFETY: as in `dot_nibbles`.
        unsafe { dot_nibbles(u, x) }
    }
);
