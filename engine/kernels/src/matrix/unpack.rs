//! From a file's blocks to packed ones. The layouts are those of GGUF's reference quantisation.

use super::{Form, Matrix, Quant, TILE, byte_place, half_at, nibble_place};
use crate::rows::BLOCK;
use half::f16;

impl Matrix {
    /// Packs one row; `bytes` are exactly its blocks.
    pub(super) fn set_row(&mut self, row: usize, quant: Quant, bytes: &[u8]) {
        for (index, block) in bytes.chunks_exact(quant.block_bytes()).enumerate() {
            let col = index * quant.block_len();
            match quant {
                Quant::F32 => self.put_float(row, col, super::float_at(block, 0)),
                Quant::F16 => self.put_float(row, col, half_at(block, 0)),
                Quant::Q4_0 => self.put_q4(row, col, block, 2),
                Quant::Q4_1 => self.put_q4(row, col, block, 4),
                Quant::Q8_0 => self.put_q8(row, col, block),
                Quant::Q4K => self.put_q4k(row, col, block),
                Quant::Q6K => self.put_q6k(row, col, block),
            }
        }
    }

    /// Q4_0 has a scale, Q4_1 a scale and a minimum, before 16 bytes whose low halves are the first 16 elements.
    fn put_q4(&mut self, row: usize, col: usize, block: &[u8], head: usize) {
        let scale = [block[0], block[1]];
        let min = if head == 4 {
            [block[2], block[3]]
        } else {
            // Q4_0 is scale * (q - 8); -8 * scale is exact in f16 but for scales above 8,188, which no file has.
            f16::from_f32(-8.0 * f16::from_le_bytes(scale).to_f32()).to_le_bytes()
        };
        self.put_half_scales(row, col, scale, Some(min));
        for (i, byte) in block[head..].iter().enumerate() {
            self.put_nibble(row, col + i, byte & 15);
            self.put_nibble(row, col + 16 + i, byte >> 4);
        }
    }

    /// A scale, then 32 signed bytes.
    fn put_q8(&mut self, row: usize, col: usize, block: &[u8]) {
        self.put_half_scales(row, col, [block[0], block[1]], None);
        for (i, byte) in block[2..].iter().enumerate() {
            self.put_byte(row, col + i, byte.wrapping_add(128));
        }
    }

    /// Two f16 (scale of scales, scale of minimums), 12 bytes of 6-bit scales and minimums, 128 bytes of nibbles: 64 elements
    /// in 32 bytes, low halves first.
    fn put_q4k(&mut self, row: usize, col: usize, block: &[u8]) {
        let (scale, min) = (half_at(block, 0), half_at(block, 1));
        let packed = &block[4..16];
        for part in 0..8 {
            let (s, m) = six_bit_pair(packed, part);
            let at = col + part * BLOCK;
            self.put_wide(row, at, scale * f32::from(s), -(min * f32::from(m)));
            for i in 0..BLOCK {
                let byte = block[16 + part / 2 * BLOCK + i];
                self.put_nibble(row, at + i, if part % 2 == 0 { byte & 15 } else { byte >> 4 });
            }
        }
    }

    /// 128 bytes of low 4 bits, 64 bytes of high 2 bits, 16 signed scales, one f16: two runs of 128 elements.
    fn put_q6k(&mut self, row: usize, col: usize, block: &[u8]) {
        let scale = half_at(block, 104);
        for i in 0..256 {
            let (run, within) = (i / 128, i % 128);
            let (quarter, l) = (within / 32, within % 32);
            let low = block[run * 64 + quarter % 2 * 32 + l];
            let low = if quarter < 2 { low & 15 } else { low >> 4 };
            let high = (block[128 + run * 32 + l] >> (2 * quarter)) & 3;
            // The file means (low | high << 4) - 32; stored over 128 that is 96 more.
            self.put_byte(row, col + i, (low | high << 4) + 96);
            if i % 16 == 0 {
                let s = block[192 + i / 16] as i8;
                self.put_half_block_scale(row, col + i, scale * f32::from(s));
            }
        }
    }

    fn put_nibble(&mut self, row: usize, col: usize, value: u8) {
        let (at, shift) = nibble_place(row % TILE, col % BLOCK);
        let base = self.block(row, col) * TILE * BLOCK / 2;
        let byte = &mut self.elements.bytes_mut()[base + at];
        *byte = (*byte & !(15 << shift)) | value << shift;
    }

    fn put_byte(&mut self, row: usize, col: usize, value: u8) {
        let base = self.block(row, col) * TILE * BLOCK;
        self.elements.bytes_mut()[base + byte_place(row % TILE, col % BLOCK)] = value;
    }

    fn put_float(&mut self, row: usize, col: usize, value: f32) {
        debug_assert_eq!(self.form, Form::Floats);
        let at = ((self.block(row, col) * BLOCK + col % BLOCK) * TILE + row % TILE) * 4;
        self.elements.bytes_mut()[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put_half_scales(&mut self, row: usize, col: usize, scale: [u8; 2], min: Option<[u8; 2]>) {
        let at = (self.block(row, col) * TILE + row % TILE) * 2;
        self.scales.bytes_mut()[at..at + 2].copy_from_slice(&scale);
        if let Some(min) = min {
            self.mins.bytes_mut()[at..at + 2].copy_from_slice(&min);
        }
    }

    fn put_wide(&mut self, row: usize, col: usize, scale: f32, min: f32) {
        let at = (self.block(row, col) * TILE + row % TILE) * 4;
        self.scales.bytes_mut()[at..at + 4].copy_from_slice(&scale.to_le_bytes());
        self.mins.bytes_mut()[at..at + 4].copy_from_slice(&min.to_le_bytes());
    }

    fn put_half_block_scale(&mut self, row: usize, col: usize, scale: f32) {
        let half = col % BLOCK / (BLOCK / 2);
        let at = ((self.block(row, col) * 2 + half) * TILE + row % TILE) * 4;
        self.scales.bytes_mut()[at..at + 4].copy_from_slice(&scale.to_le_bytes());
    }
}

/// The 6-bit scale and minimum of sub-block `part`: the first four lie in the low bits of bytes 0-3 and 4-7, the others in the
/// halves of bytes 8-11 with their two high bits in those of bytes 0-7.
fn six_bit_pair(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        (packed[part] & 63, packed[part + 4] & 63)
    } else {
        let low = packed[part + 4];
        let scale = (low & 15) | (packed[part - 4] >> 6) << 4;
        let min = (low >> 4) | (packed[part] >> 6) << 4;
        (scale, min)
    }
}
