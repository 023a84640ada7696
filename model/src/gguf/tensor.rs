//! Where each tensor lies, in what number format, and the proof that no two overlap.

use std::collections::BTreeSet;
use std::io::Read;

use super::GgufError;
use super::source::Source;

/// Most tensors a file may have. Models in use have 200 to 2,000.
pub const TENSORS_MAX: u64 = 65_536;
/// Longest tensor name in bytes, as the format says.
pub const TENSOR_NAME_BYTES_MAX: u64 = 64;
/// Most dimensions of a tensor, as the format says.
pub const DIMS_MAX: u32 = 4;

/// A number format: elements come in blocks of [`block_len`](TensorKind::block_len), each of
/// [`block_bytes`](TensorKind::block_bytes) bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// 32-bit floats.
    F32,
    /// 16-bit floats (IEEE half).
    F16,
    /// 4-bit, a scale for 32 elements.
    Q4_0,
    /// 4-bit, a scale and a minimum for 32 elements.
    Q4_1,
    /// 8-bit, a scale for 32 elements.
    Q8_0,
    /// 4-bit in super-blocks of 256.
    Q4K,
    /// 6-bit in super-blocks of 256.
    Q6K,
}

impl TensorKind {
    /// The format for a ggml type number, if we can compute with it.
    #[must_use]
    pub fn from_number(number: u32) -> Option<TensorKind> {
        Some(match number {
            0 => TensorKind::F32,
            1 => TensorKind::F16,
            2 => TensorKind::Q4_0,
            3 => TensorKind::Q4_1,
            8 => TensorKind::Q8_0,
            12 => TensorKind::Q4K,
            14 => TensorKind::Q6K,
            _ => return None,
        })
    }

    /// Elements of a block.
    #[must_use]
    pub const fn block_len(self) -> u64 {
        match self {
            TensorKind::F32 | TensorKind::F16 => 1,
            TensorKind::Q4_0 | TensorKind::Q4_1 | TensorKind::Q8_0 => 32,
            TensorKind::Q4K | TensorKind::Q6K => 256,
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block_bytes(self) -> u64 {
        match self {
            TensorKind::F32 => 4,
            TensorKind::F16 => 2,
            TensorKind::Q4_0 => 18, // f16 scale, 32 x 4 bits
            TensorKind::Q4_1 => 20, // f16 scale, f16 minimum, 32 x 4 bits
            TensorKind::Q8_0 => 34, // f16 scale, 32 x 8 bits
            TensorKind::Q4K => 144, // f16 scale and minimum, 12 bytes of 6-bit scales, 256 x 4 bits
            TensorKind::Q6K => 210, // 256 x 6 bits, 16 8-bit scales, f16 scale
        }
    }
}

/// One tensor: its name, number format, dimensions and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique in its file.
    pub name: String,
    /// Number format.
    pub kind: TensorKind,
    /// Elements along each dimension, the fastest first: a matrix of `dims[1]` rows, each of `dims[0]` elements.
    pub dims: Vec<u64>,
    /// Offset of the first byte from the start of the *file*.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Reads the table of tensors, which ends the header, and checks it as a whole.
pub(super) fn read_all<R: Read>(
    source: &mut Source<'_, R>,
    count: u64,
    alignment: u64,
) -> Result<Vec<TensorInfo>, GgufError> {
    /// Name length, dimension count, type and offset: what an entry takes at least.
    const ENTRY_BYTES_MIN: u64 = 24;
    source.expect_left(count.saturating_mul(ENTRY_BYTES_MIN))?;
    source.hold(count, 2 * 128)?; // the entry, and its key in the set of names
    let mut tensors = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut names = BTreeSet::new();
    for _ in 0..count {
        let tensor = read_one(source)?;
        if !names.insert(tensor.name.clone()) {
            return Err(GgufError::Duplicate { name: tensor.name });
        }
        tensors.push(tensor);
    }
    place(&mut tensors, source.at(), source.length(), alignment)?;
    Ok(tensors)
}

/// One entry; its offset is still relative to the start of the tensor data.
fn read_one<R: Read>(source: &mut Source<'_, R>) -> Result<TensorInfo, GgufError> {
    let name = source.string("bytes of a tensor's name", TENSOR_NAME_BYTES_MAX)?;
    let dim_count = source.u32()?;
    if dim_count > DIMS_MAX {
        return Err(GgufError::TooMany {
            what: "dimensions of a tensor",
            claimed: dim_count.into(),
            bound: DIMS_MAX.into(),
        });
    }
    let mut dims = Vec::new();
    for _ in 0..dim_count {
        dims.push(source.u64()?);
    }
    let number = source.u32()?;
    let offset = source.u64()?;
    let Some(kind) = TensorKind::from_number(number) else {
        return Err(GgufError::TensorKind { name, number });
    };
    match bytes_of(kind, &dims) {
        Some(bytes) => Ok(TensorInfo { name, kind, dims, offset, bytes }),
        None => Err(GgufError::TensorDims { name }),
    }
}

/// Bytes of a tensor, or `None` when a dimension is 0, a row is no whole number of blocks, or the product overflows.
fn bytes_of(kind: TensorKind, dims: &[u64]) -> Option<u64> {
    let row = dims.first().copied().unwrap_or(1);
    if !row.is_multiple_of(kind.block_len()) {
        return None;
    }
    let elements = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim))?;
    let bytes = elements.checked_div(kind.block_len())?.checked_mul(kind.block_bytes())?;
    (bytes > 0).then_some(bytes)
}

/// Turns relative offsets into offsets in the file; refuses what is misaligned, overlapping or outside.
fn place(
    tensors: &mut [TensorInfo],
    header_end: u64,
    file_len: u64,
    alignment: u64,
) -> Result<(), GgufError> {
    let data_start = header_end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    for tensor in tensors.iter_mut() {
        let refuse =
            GgufError::TensorPlace { name: tensor.name.clone(), offset: tensor.offset, length: file_len };
        let aligned = tensor.offset.is_multiple_of(alignment);
        let start = data_start.checked_add(tensor.offset);
        let inside =
            start.and_then(|start| start.checked_add(tensor.bytes)).is_some_and(|end| end <= file_len);
        match start {
            Some(start) if aligned && inside => tensor.offset = start,
            Some(_) | None => return Err(refuse),
        }
    }
    let mut in_order: Vec<&TensorInfo> = tensors.iter().collect();
    in_order.sort_by_key(|tensor| tensor.offset);
    let mut end = data_start;
    for tensor in in_order {
        if tensor.offset < end {
            return Err(GgufError::TensorPlace {
                name: tensor.name.clone(),
                offset: tensor.offset.saturating_sub(data_start),
                length: file_len,
            });
        }
        end = tensor.offset.saturating_add(tensor.bytes);
    }
    Ok(())
}
