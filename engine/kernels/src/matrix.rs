//! Weights, repacked once into tiles of 16 rows so that one register holds one column's share of each row.

use crate::{KernelError, aligned::Aligned, expect_len, rows::BLOCK};
use half::f16;

mod unpack;

/// Rows of a tile.
pub(crate) const TILE: usize = 16;

/// How a file stores a matrix; the names and layouts are GGUF's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quant {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// 4 bits an element, one scale for 32.
    Q4_0,
    /// 4 bits an element, one scale and one minimum for 32.
    Q4_1,
    /// 8 bits an element, one scale for 32.
    Q8_0,
    /// 4 bits an element, 8 scales and minimums of 6 bits for 256.
    Q4K,
    /// 6 bits an element, 16 scales of 8 bits for 256.
    Q6K,
}

impl Quant {
    /// Elements of one block in the file.
    #[must_use]
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block in the file.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q6K => 210,
        }
    }
}

impl Quant {
    /// Whether both are packed alike, so that tensors of the two may become one matrix.
    #[must_use]
    pub fn packs_like(self, other: Self) -> bool {
        Form::of(self) == Form::of(other)
    }
}

/// Which numbers a packed matrix holds. Tiles follow each other; in a tile, blocks of 32 columns; in a block, 16 rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// 4 bits, f16 scale and minimum.
    Nibbles,
    /// 4 bits, f32 scale and minimum (a product of two, which f16 would round).
    WideNibbles,
    /// 8 bits over 128, f16 scale.
    Bytes,
    /// 8 bits over 128, f32 scale for each half block.
    HalfBytes,
    /// f32, one column after another.
    Floats,
}

impl Form {
    const fn of(quant: Quant) -> Self {
        match quant {
            Quant::F32 | Quant::F16 => Self::Floats,
            Quant::Q4_0 | Quant::Q4_1 => Self::Nibbles,
            Quant::Q8_0 => Self::Bytes,
            Quant::Q4K => Self::WideNibbles,
            Quant::Q6K => Self::HalfBytes,
        }
    }

    /// Bytes of elements, of scales and of minimums in one block of one tile.
    pub(crate) const fn block_bytes(self) -> (usize, usize, usize) {
        match self {
            Self::Nibbles => (TILE * BLOCK / 2, TILE * 2, TILE * 2),
            Self::WideNibbles => (TILE * BLOCK / 2, TILE * 4, TILE * 4),
            Self::Bytes => (TILE * BLOCK, TILE * 2, 0),
            Self::HalfBytes => (TILE * BLOCK, TILE * 8, 0),
            Self::Floats => (TILE * BLOCK * 4, 0, 0),
        }
    }
}

/// A packed matrix of `rows` outputs and `cols` inputs.
pub struct Matrix {
    rows: usize,
    cols: usize,
    pub(crate) form: Form,
    pub(crate) elements: Aligned,
    pub(crate) scales: Aligned,
    pub(crate) mins: Aligned,
}

impl Matrix {
    /// Memory for a matrix whose rows are then given by [`Matrix::set_rows`]; all zero until then.
    ///
    /// # Errors
    /// When `cols` is no multiple of [`BLOCK`], or memory is short.
    pub fn zeroed(rows: usize, cols: usize, quant: Quant) -> Result<Self, KernelError> {
        expect_len("columns", cols, cols.next_multiple_of(BLOCK).max(BLOCK))?;
        let form = Form::of(quant);
        let blocks = rows.div_ceil(TILE) * (cols / BLOCK);
        let (elements, scales, mins) = form.block_bytes();
        Ok(Self {
            rows,
            cols,
            form,
            elements: Aligned::zeroed(blocks * elements)?,
            scales: Aligned::zeroed(blocks * scales)?,
            mins: Aligned::zeroed(blocks * mins)?,
        })
    }

    /// A matrix of one tensor's bytes.
    ///
    /// # Errors
    /// When the bytes are not `rows * cols` elements of `quant`, or memory is short.
    pub fn pack(rows: usize, cols: usize, quant: Quant, bytes: &[u8]) -> Result<Self, KernelError> {
        let mut matrix = Self::zeroed(rows, cols, quant)?;
        matrix.set_rows(0, rows, quant, bytes)?;
        Ok(matrix)
    }

    /// Takes `count` rows from `first` on, as the file stores them. Several tensors of one width and kind thus become one
    /// matrix, read in one go.
    ///
    /// # Errors
    /// When the rows lie outside, the kind packs to another form, or the bytes are not that many rows.
    pub fn set_rows(
        &mut self,
        first: usize,
        count: usize,
        quant: Quant,
        bytes: &[u8],
    ) -> Result<(), KernelError> {
        expect_len("form", Form::of(quant) as usize, self.form as usize)?;
        expect_len("columns", self.cols, self.cols.next_multiple_of(quant.block_len()))?;
        let row_bytes = self.cols / quant.block_len() * quant.block_bytes();
        expect_len("bytes of rows", bytes.len(), count * row_bytes)?;
        if first + count > self.rows {
            return Err(KernelError::Shape { what: "rows", found: first + count, wanted: self.rows });
        }
        for (row, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            self.set_row(first + row, quant, bytes);
        }
        Ok(())
    }

    /// The same weights as 32-bit floats, which read activations unquantised: an oracle for how much quantising them costs.
    ///
    /// # Errors
    /// When memory is short.
    pub fn unquantised(&self) -> Result<Self, KernelError> {
        let mut floats = Self::zeroed(self.rows, self.cols, Quant::F32)?;
        let mut row = vec![0.0; self.cols];
        for index in 0..self.rows {
            self.row(index, &mut row)?;
            let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
            floats.set_rows(index, 1, Quant::F32, &bytes)?;
        }
        Ok(floats)
    }

    /// Outputs.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.elements.bytes().len() + self.scales.bytes().len() + self.mins.bytes().len()
    }

    /// Writes row `index` into `out`, as numbers.
    ///
    /// # Errors
    /// When there is no such row, or `out` is not `cols` long.
    pub fn row(&self, index: usize, out: &mut [f32]) -> Result<(), KernelError> {
        expect_len("row", out.len(), self.cols)?;
        if index >= self.rows {
            return Err(KernelError::Shape { what: "row index", found: index, wanted: self.rows });
        }
        for (col, out) in out.iter_mut().enumerate() {
            *out = self.at(index, col);
        }
        Ok(())
    }

    fn at(&self, row: usize, col: usize) -> f32 {
        let lane = row % TILE;
        let block = self.block(row, col);
        let (_, in_block) = (col / BLOCK, col % BLOCK);
        let scale = |k: usize| half_at(self.scales.bytes(), block * TILE * k + lane);
        match self.form {
            Form::Nibbles => {
                let q = f32::from(self.nibble(block, lane, in_block));
                scale(1).mul_add(q, half_at(self.mins.bytes(), block * TILE + lane))
            }
            Form::WideNibbles => {
                let q = f32::from(self.nibble(block, lane, in_block));
                let at = block * TILE + lane;
                float_at(self.scales.bytes(), at).mul_add(q, float_at(self.mins.bytes(), at))
            }
            Form::Bytes => scale(1) * self.signed(block, lane, in_block),
            Form::HalfBytes => {
                let half = in_block / (BLOCK / 2);
                let scale = float_at(self.scales.bytes(), (block * 2 + half) * TILE + lane);
                scale * self.signed(block, lane, in_block)
            }
            Form::Floats => float_at(self.elements.bytes(), (block * BLOCK + in_block) * TILE + lane),
        }
    }

    fn block(&self, row: usize, col: usize) -> usize {
        row / TILE * (self.cols / BLOCK) + col / BLOCK
    }

    fn nibble(&self, block: usize, lane: usize, col: usize) -> u8 {
        let (at, shift) = nibble_place(lane, col);
        (self.elements.bytes()[block * TILE * BLOCK / 2 + at] >> shift) & 15
    }

    fn signed(&self, block: usize, lane: usize, col: usize) -> f32 {
        let byte = self.elements.bytes()[block * TILE * BLOCK + byte_place(lane, col)];
        f32::from(i16::from(byte) - 128)
    }
}

/// Byte and shift of an element in a block of nibbles: groups of 4 columns, two groups a register, the first one low.
pub(crate) fn nibble_place(lane: usize, col: usize) -> (usize, usize) {
    let group = col / 4;
    (group / 2 * 64 + lane * 4 + col % 4, 4 * (group % 2))
}

/// Byte of an element in a block of bytes: groups of 4 columns, one group a register.
pub(crate) fn byte_place(lane: usize, col: usize) -> usize {
    col / 4 * 64 + lane * 4 + col % 4
}

pub(crate) fn half_at(bytes: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([bytes[index * 2], bytes[index * 2 + 1]]).to_f32()
}

pub(crate) fn float_at(bytes: &[u8], index: usize) -> f32 {
    let at = index * 4;
    f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;
