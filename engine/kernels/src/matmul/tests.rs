use super::*;
use crate::{Quant, vector::each_cpu_agrees};
use half::f16;

/// Numbers in -1..1 from a seed.
pub(crate) fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Bytes of random blocks of a kind, with scales that keep outputs near 1.
fn blocks(quant: Quant, count: usize, seed: u32) -> Vec<u8> {
    let noise = numbers(count * quant.block_bytes(), seed);
    let mut bytes: Vec<u8> = noise.iter().map(|x| ((x + 1.0) * 127.9) as u8).collect();
    let half = |x: f32| f16::from_f32(x * 0.05).to_le_bytes();
    for (i, block) in bytes.chunks_exact_mut(quant.block_bytes()).enumerate() {
        let x = noise[i];
        match quant {
            Quant::F32 => block.copy_from_slice(&x.to_le_bytes()),
            Quant::F16 => block.copy_from_slice(&f16::from_f32(x).to_le_bytes()),
            Quant::Q4_0 | Quant::Q8_0 => block[..2].copy_from_slice(&half(x)),
            Quant::Q4_1 | Quant::Q4K => {
                block[..2].copy_from_slice(&half(x));
                block[2..4].copy_from_slice(&half(-x));
            }
            Quant::Q6K => block[208..].copy_from_slice(&half(x * 0.1)),
        }
    }
    bytes
}

const KINDS: [Quant; 7] =
    [Quant::F32, Quant::F16, Quant::Q4_0, Quant::Q4_1, Quant::Q8_0, Quant::Q4K, Quant::Q6K];

fn matrix(quant: Quant, rows: usize, cols: usize) -> Matrix {
    let bytes = blocks(quant, rows * cols / quant.block_len(), 7);
    Matrix::pack(rows, cols, quant, &bytes).unwrap()
}

fn batch(cpu: Cpu, x: &[f32], cols: usize, pool: &mut Pool) -> Rows {
    let mut rows = Rows::new(cols).unwrap();
    rows.fill(cpu, pool, x.len() / cols, &|i, row| row.copy_from_slice(&x[i * cols..(i + 1) * cols]))
        .unwrap();
    rows
}

fn product(cpu: Cpu, threads: usize, matrix: &Matrix, x: &[f32]) -> Vec<u32> {
    let mut pool = Pool::new(threads).unwrap();
    let rows = batch(cpu, x, matrix.cols(), &mut pool);
    let mut out = vec![f32::NAN; rows.len() * matrix.rows()];
    matmul(cpu, &mut pool, matrix, &rows, &mut out).unwrap();
    out.iter().map(|x| x.to_bits()).collect()
}

/// The oracle: f64, over the weights as numbers and the activations as quantised.
fn truth(matrix: &Matrix, rows: &Rows, row: usize, output: usize) -> (f64, f64) {
    let mut weights = vec![0.0; matrix.cols()];
    matrix.row(output, &mut weights).unwrap();
    let blocks = matrix.cols() / BLOCK;
    let terms = weights.iter().enumerate().map(|(i, w)| {
        let x = if matrix.form == Form::Floats {
            f64::from(rows.row(row)[i])
        } else {
            f64::from(rows.q[row * matrix.cols() + i]) * f64::from(rows.scale[row * blocks + i / BLOCK])
        };
        f64::from(*w) * x
    });
    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
}

#[test]
fn every_form_on_every_path_is_close_to_the_oracle() {
    for quant in KINDS {
        // 40 rows: the last tile is half empty.
        let matrix = matrix(quant, 40, 512);
        let x = numbers(3 * 512, 9);
        let got = each_cpu_agrees(|cpu| product(cpu, 1, &matrix, &x));
        let rows = batch(Cpu::best(), &x, 512, &mut Pool::new(1).unwrap());
        for row in 0..3 {
            for output in 0..40 {
                let (truth, size) = truth(&matrix, &rows, row, output);
                let got = f64::from(f32::from_bits(got[row * 40 + output]));
                // f32 keeps 24 bits; 48 additions lose a few of them, relative to the sum of sizes.
                assert!((got - truth).abs() <= 2e-6 * size + 1e-12, "{quant:?}: {got} for {truth}");
            }
        }
    }
}

/// A disagreement between rows that came together and the same rows, each alone; `None` where there is none.
fn batch_variance(quant: Quant, cpu: Cpu) -> Option<String> {
    let matrix = matrix(quant, 80, 256);
    let x = numbers(23 * 256, 11);
    let alone: Vec<Vec<u32>> = x.chunks(256).map(|row| product(cpu, 1, &matrix, row)).collect();
    for threads in [1, 2, 4] {
        for (from, to) in [(0, 23), (0, 2), (1, 8), (5, 20), (22, 23)] {
            if product(cpu, threads, &matrix, &x[from * 256..to * 256]) != alone[from..to].concat() {
                return Some(format!("{quant:?} {cpu:?} {threads} threads, rows {from}..{to}"));
            }
        }
    }
    None
}

#[test]
fn a_row_has_the_same_bits_in_every_batch_and_on_every_thread_count() {
    for quant in KINDS {
        for cpu in Cpu::all() {
            assert_eq!(batch_variance(quant, cpu), None);
        }
    }
}

/// The positive control: kernels without the guard, on every path and for every form.
#[cfg(feature = "seeded-faults")]
#[test]
fn seeded_batch_variance_is_noticed() {
    use crate::fault::{Fault, with};
    for fault in [Fault::SplitByBatch, Fault::RowsMeet] {
        for quant in KINDS {
            for cpu in Cpu::all() {
                let found = with(fault, || batch_variance(quant, cpu));
                assert!(found.is_some(), "{fault:?} was not noticed: {quant:?} {cpu:?}");
            }
        }
    }
}

#[test]
fn extreme_bytes_do_not_saturate() {
    for quant in [Quant::Q4_0, Quant::Q4_1, Quant::Q8_0, Quant::Q4K, Quant::Q6K] {
        for byte in [0x00, 0x7f, 0x80, 0xff] {
            let mut bytes = vec![byte; 16 * 256 / quant.block_len() * quant.block_bytes()];
            let one = f16::ONE.to_le_bytes();
            for block in bytes.chunks_exact_mut(quant.block_bytes()) {
                match quant {
                    Quant::Q6K => block[208..].copy_from_slice(&one),
                    Quant::Q4_1 | Quant::Q4K => {
                        block[..2].copy_from_slice(&one);
                        block[2..4].copy_from_slice(&one);
                    }
                    Quant::F32 | Quant::F16 | Quant::Q4_0 | Quant::Q8_0 => block[..2].copy_from_slice(&one),
                }
            }
            let matrix = Matrix::pack(16, 256, quant, &bytes).unwrap();
            for sign in [1.0, -1.0] {
                let x = vec![sign; 256];
                let got = each_cpu_agrees(|cpu| product(cpu, 1, &matrix, &x));
                let rows = batch(Cpu::best(), &x, 256, &mut Pool::new(1).unwrap());
                let (truth, size) = truth(&matrix, &rows, 0, 0);
                assert!((f64::from(f32::from_bits(got[0])) - truth).abs() <= 2e-6 * size);
            }
        }
    }
}

#[test]
fn what_is_not_a_number_stays_so_in_its_row_alone() {
    let matrix = matrix(Quant::Q4_1, 32, 64);
    let mut x = numbers(2 * 64, 15);
    let clean = product(Cpu::best(), 1, &matrix, &x[64..]);
    x[5] = f32::NAN;
    let got = each_cpu_agrees(|cpu| {
        product(cpu, 1, &matrix, &x).iter().map(|b| (f32::from_bits(*b).is_nan(), *b)).collect::<Vec<_>>()
    });
    assert!(got[..32].iter().all(|(nan, _)| *nan));
    assert_eq!(got[32..].iter().map(|(_, b)| *b).collect::<Vec<_>>(), clean);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let matrix = matrix(Quant::Q8_0, 16, 64);
    let mut pool = Pool::new(1).unwrap();
    let rows = batch(Cpu::best(), &[0.0; 32], 32, &mut pool);
    assert!(matmul(Cpu::best(), &mut pool, &matrix, &rows, &mut [0.0; 16]).is_err());
    let rows = batch(Cpu::best(), &[0.0; 64], 64, &mut pool);
    assert!(matmul(Cpu::best(), &mut pool, &matrix, &rows, &mut [0.0; 15]).is_err());
}
