//! The integer forms in plain Rust: what the other paths must equal, bit for bit.

use super::{Acts, Weights};
use crate::{
    matrix::{Form, TILE, byte_place, float_at, half_at, nibble_place},
    rows::{BLOCK, HALF},
};

/// Sums of one tile for the rows of one pass, 16 a row.
pub(super) fn tile(weights: &Weights<'_>, acts: &Acts<'_>, out: &mut [f32]) {
    for (row, out) in out.chunks_exact_mut(TILE).take(acts.count).enumerate() {
        for (lane, out) in out.iter_mut().enumerate() {
            *out =
                (0..weights.blocks).fold(0.0, |acc, block| add_block(weights, acts, row, lane, block, acc));
        }
    }
}

fn add_block(weights: &Weights<'_>, acts: &Acts<'_>, row: usize, lane: usize, block: usize, acc: f32) -> f32 {
    let at = row * acts.blocks + block;
    let q = &acts.q[at * BLOCK..][..BLOCK];
    let (unit, scaled_sum) = (acts.scale[at], acts.scaled_sum[at]);
    let place = block * TILE + lane;
    let nibbles = |from: usize| {
        dot(q, from, |col| {
            let (byte, shift) = nibble_place(lane, col);
            i32::from((weights.elements[block * TILE * BLOCK / 2 + byte] >> shift) & 15)
        })
    };
    let bytes = |from: usize| {
        dot(q, from, |col| i32::from(weights.elements[block * TILE * BLOCK + byte_place(lane, col)]) - 128)
    };
    match weights.form {
        Form::Nibbles => {
            let sum = (nibbles(0) + nibbles(HALF)) as f32;
            let acc = (half_at(weights.scales, place) * unit).mul_add(sum, acc);
            half_at(weights.mins, place).mul_add(scaled_sum, acc)
        }
        Form::WideNibbles => {
            let sum = (nibbles(0) + nibbles(HALF)) as f32;
            let acc = (float_at(weights.scales, place) * unit).mul_add(sum, acc);
            float_at(weights.mins, place).mul_add(scaled_sum, acc)
        }
        Form::Bytes => {
            let sum = (bytes(0) + bytes(HALF)) as f32;
            (half_at(weights.scales, place) * unit).mul_add(sum, acc)
        }
        Form::HalfBytes => {
            let scale = |half: usize| float_at(weights.scales, (block * 2 + half) * TILE + lane);
            let acc = (scale(0) * unit).mul_add(bytes(0) as f32, acc);
            (scale(1) * unit).mul_add(bytes(HALF) as f32, acc)
        }
        // Handled by `floats`, which reads the rows themselves.
        Form::Floats => f32::NAN,
    }
}

fn dot(q: &[i8], from: usize, weight: impl Fn(usize) -> i32) -> i32 {
    q[from..from + HALF].iter().enumerate().map(|(i, &q)| i32::from(q) * weight(from + i)).sum()
}
