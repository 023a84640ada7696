//! What lies between matrices: normalisation, rotation, activation, addition. One row at a time.

#[cfg(test)]
use crate::Cpu;
use crate::{KernelError, attention::sum_lanes, cpu::versions, exp::exp, expect_len, kv::PAGE};

/// Sums have this many lanes, whatever the registers.
const LANES: usize = PAGE;

versions! {
    /// `out = x / sqrt(mean(x^2) + eps) * weight`; all three of one length.
    pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = rms_norm_body
}

#[inline(always)]
fn rms_norm_body(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let mut lanes = [0f32; LANES];
    for x in x.chunks(LANES) {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = x.mul_add(*x, *lane);
        }
    }
    let scale = 1.0 / (sum_lanes(lanes) / x.len() as f32 + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

versions! {
    /// `out = silu(gate) * up`; all three of one length.
    pub fn silu_mul(gate: &[f32], up: &[f32], out: &mut [f32]) = silu_mul_body
}

#[inline(always)]
fn silu_mul_body(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

versions! {
    /// `x += y`; both of one length.
    pub fn add(x: &mut [f32], y: &[f32]) = add_body
}

#[inline(always)]
fn add_body(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Sines and cosines of a rotary embedding, for each position and pair of elements. Computed in f64 at load, so that no step
/// depends on a platform's sine.
pub struct Rope {
    /// Pairs of a head.
    pairs: usize,
    /// `(cos, sin)`, `[position][pair]`.
    table: Vec<(f32, f32)>,
}

impl Rope {
    /// For heads of `dim` elements and positions below `positions`: pair `i` turns by `base^(-2i/dim)` a position.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(dim: usize, base: f32, positions: usize) -> Result<Self, KernelError> {
        let pairs = dim / 2;
        let mut table = Vec::new();
        let len = pairs * positions;
        let bytes = len * size_of::<(f32, f32)>();
        table.try_reserve_exact(len).map_err(|_| KernelError::NoMemory { bytes })?;
        let rates: Vec<f64> =
            (0..pairs).map(|i| f64::from(base).powf(-2.0 * i as f64 / dim as f64)).collect();
        for position in 0..positions {
            table.extend(rates.iter().map(|rate| {
                let (sin, cos) = (position as f64 * rate).sin_cos();
                (cos as f32, sin as f32)
            }));
        }
        Ok(Self { pairs, table })
    }

    /// Turns each head of `x`; neighbours form a pair, as in Llama models of GGUF files.
    ///
    /// # Errors
    /// When `x` is no whole number of heads, or the position has no entry.
    pub fn turn(&self, position: usize, x: &mut [f32]) -> Result<(), KernelError> {
        let dim = self.pairs * 2;
        expect_len("elements of heads", x.len(), x.len() / dim * dim)?;
        let entry = position * self.pairs..(position + 1) * self.pairs;
        let positions = self.table.len() / self.pairs.max(1);
        let Some(angles) = self.table.get(entry) else {
            return Err(KernelError::Shape { what: "position", found: position, wanted: positions });
        };
        for head in x.chunks_exact_mut(dim) {
            let (pairs, _) = head.as_chunks_mut::<2>();
            for ([a, b], (cos, sin)) in pairs.iter_mut().zip(angles) {
                // Plain products and sums: fusing them differs by platform unless it is said everywhere.
                (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
            }
        }
        Ok(())
    }
}

/// The fastest instruction set gives the same bits as the slowest: used by this crate's tests.
#[cfg(test)]
pub(crate) fn each_cpu_agrees<T: PartialEq + std::fmt::Debug>(run: impl Fn(Cpu) -> T) -> T {
    let mut all = Cpu::all().map(|cpu| (cpu, run(cpu)));
    let (_, first) = all.next().unwrap();
    for (cpu, other) in all {
        assert!(first == other, "{cpu:?} differs from the portable path");
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: u32) -> Vec<f32> {
        crate::matmul::tests::numbers(len, seed)
    }

    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn rms_norm_is_close_to_the_truth_on_every_path() {
        for len in [16, 31, 576] {
            let (x, w) = (numbers(len, 1), numbers(len, 2));
            let got = each_cpu_agrees(|cpu| {
                let mut out = vec![0.0; len];
                rms_norm(cpu, &x, &w, 1e-5, &mut out);
                bits(&out)
            });
            let mean = x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / len as f64;
            for i in 0..len {
                let truth = f64::from(x[i]) / (mean + 1e-5).sqrt() * f64::from(w[i]);
                assert!((f64::from(f32::from_bits(got[i])) - truth).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn silu_is_close_to_the_truth_on_every_path() {
        let (gate, up) = (numbers(333, 3), numbers(333, 4));
        let got = each_cpu_agrees(|cpu| {
            let mut out = vec![0.0; 333];
            silu_mul(cpu, &gate, &up, &mut out);
            bits(&out)
        });
        for i in 0..333 {
            let g = f64::from(gate[i]);
            let truth = g / (1.0 + (-g).exp()) * f64::from(up[i]);
            assert!((f64::from(f32::from_bits(got[i])) - truth).abs() < 1e-5);
        }
    }

    #[test]
    fn a_rotation_keeps_lengths_and_refuses_what_lies_outside() {
        let rope = Rope::new(16, 10_000.0, 4).unwrap();
        let mut x = numbers(32, 5);
        let before: Vec<f32> = x.clone();
        rope.turn(3, &mut x).unwrap();
        for (a, b) in before.chunks(2).zip(x.chunks(2)) {
            assert!((a[0].hypot(a[1]) - b[0].hypot(b[1])).abs() < 1e-5);
        }
        assert!(rope.turn(4, &mut x).is_err());
        assert!(rope.turn(0, &mut x[..15]).is_err());
        rope.turn(0, &mut x).unwrap();
    }
}
